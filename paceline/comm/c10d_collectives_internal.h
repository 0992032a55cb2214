// The collectives of a Group over c10d: tensors as c10d wants them, and results where the user wants them.
//
// Threading and errors: as Group's.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <functional>
#include <memory>
#include <vector>

#include "paceline/comm/failure_internal.h"
#include "paceline/comm/group.h"

namespace paceline::comm {

class C10dCollectives {
 public:
  C10dCollectives(c10::intrusive_ptr<c10d::ProcessGroup> process_group,
                  std::shared_ptr<const FailureReporter> failures);
  ~C10dCollectives();
  C10dCollectives(const C10dCollectives&) = delete;
  C10dCollectives& operator=(const C10dCollectives&) = delete;

  /// As Group's, which says what each does.
  std::shared_ptr<Work> start_all_reduce(const torch::Tensor& tensor, ReduceOp op) const;
  std::shared_ptr<Work> start_reduce_scatter(const torch::Tensor& output, const torch::Tensor& input,
                                             ReduceOp op) const;
  std::shared_ptr<Work> start_all_gather_into(const torch::Tensor& output, const torch::Tensor& input) const;
  std::shared_ptr<Work> start_all_to_all(const torch::Tensor& output, const torch::Tensor& input,
                                         const std::vector<int64_t>& output_rows,
                                         const std::vector<int64_t>& input_rows) const;
  std::shared_ptr<Work> start_send(const torch::Tensor& tensor, int64_t rank, int tag) const;
  std::shared_ptr<Work> start_receive(const torch::Tensor& tensor, int64_t rank, int tag) const;
  std::vector<torch::Tensor> all_gather(const torch::Tensor& tensor) const;
  void broadcast(const torch::Tensor& tensor, int64_t root) const;
  void broadcast_coalesced(const std::vector<torch::Tensor>& tensors, int64_t root) const;
  torch::Tensor allocate(int64_t elements, const torch::TensorOptions& options) const;

 private:
  struct Begun;
  std::shared_ptr<Work> start(const char* operation, const std::function<Begun()>& begin) const;
  void run(const char* operation, const std::function<void()>& body) const;

  const c10::intrusive_ptr<c10d::ProcessGroup> process_group_;
  const std::shared_ptr<const FailureReporter> failures_;
};

}  // namespace paceline::comm
