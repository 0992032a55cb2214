// What one call of c10d is for a SharedGroup: the requests that it makes, and the tensors that they use.
//
// Tensors of the CPU, of any stride: the group takes contiguous ones. A tensor that is no such one is copied before,
// and what becomes of it afterwards. c10::ValueError where a tensor is none that shared memory takes.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "paceline/collective/arena.h"
#include "paceline/collective/request.h"

namespace c10d {
struct ReduceOp;
}

namespace paceline::comm {

/// `operation`: for the error.
void check_tensor(const char* operation, const at::Tensor& tensor);
/// The tensor of a call that takes one. `root_tensor`: which of several is the root's; there is but one.
at::Tensor& only(const char* operation, std::vector<at::Tensor>& tensors, int64_t root_tensor = 0);
/// The list of a call that takes one tensor for each rank, of the size and type of `of`.
const std::vector<at::Tensor>& list_of(const char* operation, const std::vector<std::vector<at::Tensor>>& lists,
                                       const at::Tensor& of, int world_size);
/// What each rank gets may have another size.
bool has_sizes_of_their_own(const std::vector<std::vector<at::Tensor>>& lists);
/// Of such a call: a tensor for each rank, that of `rank` with as many values as `own`.
void check_parts_of_ranks(const char* operation, const std::vector<at::Tensor>& parts, const at::Tensor& own, int rank,
                          int world_size);
/// Of a call that takes a list at its root only.
void check_empty_elsewhere(const char* operation, const std::vector<std::vector<at::Tensor>>& lists, int rank,
                           int root);
/// Of a call that gathers into lists: for each rank one, with a tensor for each input.
void check_gathered(const std::vector<std::vector<at::Tensor>>& outputs, const std::vector<at::Tensor>& inputs,
                    int world_size);
/// Of a call that gathers into one tensor for each input.
void check_gathered(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& inputs, int world_size);
/// Of a call that scatters what is reduced from one tensor for each output.
void check_scattered(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& inputs, int world_size);
/// A rank that there is.
int checked_rank(const char* operation, int64_t rank, int world_size);

/// Of all_to_all, for each rank: of so many rows of the first dimension; where no counts are given, all get alike.
std::vector<uint64_t> bytes_of_rows(const at::Tensor& tensor, const std::vector<int64_t>& rows, int world_size);

/// Memory of an arena, of one dimension, which may outlive the arena's group; ordinary memory where the arena has no
/// gap.
at::Tensor allocate_in(const std::shared_ptr<collective::Arena>& arena, int64_t elements,
                       const at::TensorOptions& options);

/// Of a call with these tensors, which all ranks must have alike.
collective::Fingerprint fingerprint_of(collective::Kind kind, const std::vector<at::Tensor>& tensors,
                                       const c10d::ReduceOp* op = nullptr, int root = -1);
/// Of a call that is carried out otherwise than others of its kind.
collective::Fingerprint of_its_own(collective::Fingerprint fingerprint);
/// To send elements as they are: of a type that no reduction knows, the bytes.
collective::Request request_of(collective::Kind kind, const at::Tensor& tensor, std::chrono::milliseconds timeout);
/// c10::ValueError where `op` is not defined for the tensor's type.
collective::Request reducing_request_of(const char* operation, collective::Kind kind, const at::Tensor& tensor,
                                        const c10d::ReduceOp& op, std::chrono::milliseconds timeout);

/// Without those that are there before: who gives a tensor twice, as a gradient of tied weights, wants it reduced once.
std::vector<at::Tensor> without_repeats(const std::vector<at::Tensor>& tensors);

/// Where the values of a tensor are, from the first byte to behind the last; what lies between them too.
using MemoryRange = std::pair<const std::byte*, const std::byte*>;
/// Those of tensors that have values.
std::vector<MemoryRange> ranges_of(const std::vector<at::Tensor>& tensors);

/// Which memory calls that are under way read or write. Thread-safe.
class MemoryInUse : public std::enable_shared_from_this<MemoryInUse> {
 public:
  /// Waits until no call uses memory of these otherwise than to read what is only read here, and takes it for one more,
  /// until the claim is let go.
  std::shared_ptr<void> take(const std::vector<at::Tensor>& read, const std::vector<at::Tensor>& written);
  /// Takes it without waiting, as what is written.
  std::shared_ptr<void> note(const std::vector<at::Tensor>& tensors);
  bool is_empty() const;
  /// Whether a call reads or writes any of these.
  bool has_any_of(const std::vector<MemoryRange>& ranges) const;

 private:
  struct Use {
    std::vector<MemoryRange> read, written;
  };

  std::shared_ptr<void> claim(Use use);
  bool is_free(const Use& wanted) const;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Use> taken_;
};

/// The tensors of one call, which lives until its requests have ended.
class SharedCall {
 public:
  SharedCall() = default;
  explicit SharedCall(std::shared_ptr<void> claim) : claim_(std::move(claim)) {}

  /// Contiguous values of what is only read.
  at::Tensor given(const at::Tensor& tensor);
  /// Contiguous memory for what is only written. Here and below, c10::ValueError for what is written where several of
  /// its values are in one place.
  at::Tensor filled(at::Tensor& tensor);
  /// Contiguous values of what is read and then, where `is_result`, written.
  at::Tensor updated(at::Tensor& tensor, bool is_result);
  /// All values of `parts`, one behind the other.
  at::Tensor joined(const std::vector<at::Tensor>& parts);

  /// What other calls must not use before it is released.
  void hold(std::shared_ptr<void> claim) { claim_ = std::move(claim); }
  void release() { claim_.reset(); }

  bool has_copies() const { return !copies_.empty(); }
  /// Where copy_back() puts results.
  std::vector<at::Tensor> destinations() const;
  /// Until the end.
  void keep(const at::Tensor& tensor) { kept_.push_back(tensor); }
  /// That puts the values of `from` to `to` in the end.
  void results(const at::Tensor& to, const at::Tensor& from);
  /// Puts results where the user wants them.
  void copy_back();

 private:
  std::vector<at::Tensor> kept_;
  std::vector<std::pair<at::Tensor, at::Tensor>> copies_;  // to, from
  std::shared_ptr<void> claim_;
};

}  // namespace paceline::comm
