// What one call of c10d is for a SharedGroup: the requests that it makes, and the tensors that they use.
//
// Tensors of the CPU, of any stride: the group takes contiguous ones. A tensor that is no such one is copied before,
// and what becomes of it afterwards. c10::ValueError where a tensor is none that shared memory takes.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <utility>
#include <vector>

#include "paceline/collective/operation.h"

namespace c10d {
struct ReduceOp;
}

namespace paceline::comm {

/// `operation`: for the error.
void check_tensor(const char* operation, const at::Tensor& tensor);

/// To send elements as they are: of a type that no reduction knows, the bytes.
collective::Request request_of(collective::Kind kind, const at::Tensor& tensor, std::chrono::milliseconds timeout);
/// c10::ValueError where `op` is not defined for the tensor's type.
collective::Request reducing_request_of(const char* operation, collective::Kind kind, const at::Tensor& tensor,
                                        const c10d::ReduceOp& op, std::chrono::milliseconds timeout);

/// The tensors of one call, which lives until its requests have ended.
class SharedCall {
 public:
  /// Contiguous values of what is only read.
  at::Tensor given(const at::Tensor& tensor);
  /// Contiguous memory for what is only written.
  at::Tensor filled(at::Tensor& tensor);
  /// Contiguous values of what is read and then, where `is_result`, written.
  at::Tensor updated(at::Tensor& tensor, bool is_result);
  /// All values of `parts`, one behind the other.
  at::Tensor joined(const std::vector<at::Tensor>& parts);

  bool has_copies() const { return !copies_.empty(); }
  /// Puts results where the user wants them.
  void copy_back();

 private:
  std::vector<at::Tensor> kept_;
  std::vector<std::pair<at::Tensor, at::Tensor>> copies_;  // to, from
};

}  // namespace paceline::comm
