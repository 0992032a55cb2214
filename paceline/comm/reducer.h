// GradientReducer: averages gradients over a group during backward, in buckets that overlap with it.
//
// A wrapper around c10d::Reducer (the engine of PyTorch's DistributedDataParallel) that keeps its headers inside
// reducer.cpp. It knows parameters, not modules; parallel/ddp arms it. Threading: as c10d::Reducer, one step at a time;
// prepare_for_backward() may come from an autograd thread.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "paceline/comm/group.h"

namespace paceline::comm {

enum class Compression { none, bf16, fp16 };

struct ReducerOptions {
  int64_t bucket_bytes = int64_t{25} << 20;
  int64_t first_bucket_bytes = int64_t{1} << 20;
  bool find_unused_parameters = false;
  bool static_graph = false;
  bool gradient_as_bucket_view = false;
  Compression compression = Compression::none;
};

class GradientReducer {
 public:
  /// `parameters` and `names` in the same order on every rank (verified by the caller), all requiring gradients.
  static std::unique_ptr<GradientReducer> create(std::shared_ptr<Group> group, std::vector<torch::Tensor> parameters,
                                                 std::vector<std::string> names, std::vector<bool> expect_sparse,
                                                 const ReducerOptions& options);
  virtual ~GradientReducer() = default;

  /// Before forward (or before the first gradient, when nothing wraps forward).
  virtual void prepare_for_forward() = 0;
  /// Before the first gradient of a backward; `outputs` only for unused parameters.
  virtual void prepare_for_backward(const std::vector<torch::Tensor>& outputs) = 0;
  /// Adopts the order of gradients seen in the first step; no-op afterwards.
  virtual void rebuild_buckets() = 0;
  /// Static graph only: called from the output's backward in the first step.
  virtual void delay_all_reduce() = 0;
};

}  // namespace paceline::comm
