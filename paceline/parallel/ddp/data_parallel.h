// DataParallel: averages a model's gradients over a group during backward, without wrapping its forward.
//
// LibTorch modules have no forward hooks, and nothing here needs one: a hook on each parameter's gradient accumulator
// notices the first gradient of a backward and arms the reducer; a callback at the end of that backward finishes the
// step. So a model is trained by the code that trains it in one process. What follows from that:
// - Whether a backward synchronises is decided when its first gradient arrives (PyTorch: at forward). Two backward
//   calls before an optimizer step are both averaged, and correctly so.
// - Parameters that backward does not reach are known only at its end. No output of the model needs to be handed over,
//   neither for find_unused_parameters nor for static_graph.
// - Nothing waits for other ranks before the end of a backward, where the models of a loss take turns
//   (backward_end.h): their gradients may come in another order on each rank.
// - Buffers (batch norm's running statistics) are rank 0's from the end of each synchronised backward on. PyTorch
//   copies them at the start of the next forward: weights and a checkpoint's buffers are equal, bit for bit. They are
//   written without autograd's knowledge, so that a backward can follow of a graph that has saved them (a second
//   forward before it, retain_graph).
// Threading: a model is trained by one thread. Ownership: keep the returned pointer as long as the model trains; when
// it is gone, the model trains locally, and its connections are closed. It does not keep the module. Errors:
// CollectiveError, also from backward; ConfigError for options. A loop that goes on after a backward that threw must do
// so on every rank: where it ended well, the next one would wait for others. Not supported: backward calls nested in
// backward (re-entrant checkpointing) over parameters of the model.
#pragma once

#include <torch/torch.h>

#include <memory>

#include "paceline/comm/group.h"
#include "paceline/core/config/field.h"
#include "paceline/parallel/parallel_model.h"
#include "paceline/state/step.h"

namespace paceline {

// How gradients are averaged; PrepareModelOptions::ddp.
#define PACELINE_DDP_OPTIONS_FIELDS(FIELD)                                                                     \
  FIELD(double, bucket_cap_mb, 25.0, ::paceline::more_than(0),                                                 \
        "Gradients are averaged during backward, in buckets of about this many MiB")                           \
  FIELD(bool, find_unused_parameters, false, ::paceline::any_value(),                                          \
        "Allows parameters that a backward does not reach; they may differ between ranks")                     \
  FIELD(bool, static_graph, false, ::paceline::any_value(),                                                    \
        "Promises that every backward reaches the same parameters as the first")                               \
  FIELD(bool, gradient_as_bucket_view, false, ::paceline::any_value(),                                         \
        "Stores gradients inside the buckets, which saves a copy in memory and a copy operation in each step") \
  FIELD(std::string, compression, "none", ::paceline::one_of({"none", "bf16", "fp16"}),                        \
        "Format in which gradients are sent")                                                                  \
  FIELD(bool, broadcast_buffers, true, ::paceline::any_value(),                                                \
        "All ranks get rank 0's buffers after each synchronised backward")                                     \
  FIELD(bool, sync_batch_norm, false, ::paceline::any_value(),                                                 \
        "Requires batch normalisation over the global batch: a plain torch::nn::BatchNorm in the model is an error")
PACELINE_CONFIG(DdpOptions, PACELINE_DDP_OPTIONS_FIELDS);

}  // namespace paceline

namespace paceline::parallel {

class DataParallel : public ParallelModel {
 public:
  using ParallelModel::ParallelModel;

  /// Makes `module` train over the ranks of `group`, with connections of its own: the models of a loss finish their
  /// gradients in different orders on different ranks. Collective; every rank prepares its models in the same order. In
  /// this order: checks `options`; verifies that all ranks hold the same model (on a difference every rank throws the
  /// same CollectiveError: rank, parameter, wanted, got); gives all ranks rank 0's parameters and buffers; binds
  /// paceline::nn::SyncBatchNorm modules to another such group; hooks the parameters that require gradients now. Those
  /// must be on one device. In a world of one only void_step() and the options' check remain. `ledger` may be null.
  static std::shared_ptr<DataParallel> attach(const std::shared_ptr<torch::nn::Module>& module,
                                              const std::shared_ptr<comm::Group>& group, const DdpOptions& options,
                                              std::shared_ptr<StepLedger> ledger);
};

}  // namespace paceline::parallel
