// GradientReducer: averages gradients over a group during backward, in buckets that overlap with it.
//
// A wrapper around c10d::Reducer (the engine of PyTorch's DistributedDataParallel) that keeps its headers inside
// comm/. It knows parameters, not modules; parallel/ddp arms it. While it is armed it hangs on each parameter's
// gradient accumulator, and its last bucket queues a callback that finishes the averages at the end of backward.
// Threading: one backward at a time; all calls but create() come from the thread that runs that backward.
// Errors: CollectiveError from here and, when a rank fails or aborts, from backward itself.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <string>
#include <vector>

#include "paceline/comm/group.h"

namespace paceline::comm {

/// The number format that gradients travel in: half the bytes, less precision. They are divided by the world size
/// before they are converted.
enum class Compression { none, bf16, fp16 };

struct ReducerOptions {
  int64_t bucket_bytes = int64_t{25} << 20;
  /// The bucket whose gradients come first is smaller, so that communication starts early.
  int64_t first_bucket_bytes = int64_t{1} << 20;
  /// The first backward only counts; the caller calls reduce_all() at its end. What is counted is every backward since
  /// create(), armed or not, also one that breaks: the first must be the first that is averaged.
  bool static_graph = false;
  /// Gradients live inside the buckets instead of beside them: less memory, no copy back.
  bool gradient_as_bucket_view = false;
  Compression compression = Compression::none;
};

class GradientReducer {
 public:
  /// `parameters` and `names` in the same order on every rank (verified by the caller), all requiring gradients, on one
  /// device. `group` has more than one rank.
  static std::unique_ptr<GradientReducer> create(std::shared_ptr<Group> group, std::vector<torch::Tensor> parameters,
                                                 const std::vector<std::string>& names, std::vector<bool> expect_sparse,
                                                 const ReducerOptions& options);
  virtual ~GradientReducer() = default;

  /// Arms the reducer: before the first gradient of a backward whose gradients shall be averaged. Waits for nobody.
  virtual void begin_backward() = 0;
  /// Counts the gradient of parameter `index` as arrived, whatever it is by now; none counts as zero. At most once a
  /// backward, for parameters whose gradients have not come since begin_backward().
  virtual void mark_arrived(size_t index) = 0;
  /// Static graph only: averages everything at the end of the first backward. Collective.
  virtual void reduce_all() = 0;
  /// Whether all that begin_backward() has begun is averaged: after the callbacks of a backward's end.
  virtual bool is_finished() const = 0;
  /// Once all is averaged: buckets adopt the order in which gradients came in the first backward. Collective then;
  /// later it does nothing.
  virtual void adopt_order() = 0;
  /// Forgets a backward that did not come to its end. What it had begun still writes into the buckets: before the next
  /// begin_backward(), wait_for_broken().
  virtual void forget_broken() = 0;
  /// Collective: waits for the reductions that a broken backward had begun.
  virtual void wait_for_broken() = 0;
  /// Goes on over `group`, of more than one rank, with the same parameters and hooks: after ranks of the old group are
  /// lost, those that are left meet in a new one. Between backwards, also after one that threw, and in place of
  /// forget_broken() and wait_for_broken(). Every rank of `group` does it; nobody waits. Gradients of the interrupted
  /// step are void, all become undefined; weights stay as they are. Averages are those of the ranks of `group`. Buckets
  /// are new ones, in the memory of `group`, as create() makes them: the order of gradients is learnt again. So nothing
  /// that the old group still does reaches them, and no memory of it is kept. UsageError for a world of one, and with
  /// static_graph, which is learnt from a first backward only: create() another then.
  virtual void rebuild(std::shared_ptr<Group> group) = 0;
};

}  // namespace paceline::comm
