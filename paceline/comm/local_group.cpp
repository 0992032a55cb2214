#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "paceline/comm/checks_internal.h"
#include "paceline/comm/group_internal.h"

namespace paceline::comm {
namespace {

class FinishedWork final : public Work {
 public:
  void wait() override {}
};

class LocalGroup final : public Group {
 public:
  int64_t rank() const override { return 0; }
  int64_t size() const override { return 1; }
  const std::string& backend() const override { return backend_; }
  std::vector<torch::Tensor> all_gather(const torch::Tensor& tensor) override { return {tensor.detach().clone()}; }
  void broadcast(const torch::Tensor& tensor, int64_t root) override {
    check_dense("broadcast", tensor);
    check_root(root, 1);
  }
  void broadcast_coalesced(const std::vector<torch::Tensor>&, int64_t root) override { check_root(root, 1); }
  void barrier() override {}

  std::shared_ptr<Work> start_all_reduce(const torch::Tensor& tensor, ReduceOp op) override {
    check_reducible("all_reduce", tensor, op);
    return finished_work();
  }
  std::shared_ptr<Work> start_reduce_scatter(const torch::Tensor& output, const torch::Tensor& input,
                                             ReduceOp op) override {
    check_reducible("reduce_scatter", input, op);
    check_parts("reduce_scatter", input, output, 1);
    return copied(output, input);
  }
  std::shared_ptr<Work> start_all_gather_into(const torch::Tensor& output, const torch::Tensor& input) override {
    check_parts("all_gather_into", output, input, 1);
    return copied(output, input);
  }
  std::shared_ptr<Work> start_all_to_all(const torch::Tensor& output, const torch::Tensor& input,
                                         const std::vector<int64_t>& output_rows,
                                         const std::vector<int64_t>& input_rows) override {
    check_rows(output, input, output_rows, input_rows, 1);
    check_parts("all_to_all", output, input, 1);
    return copied(output, input);
  }
  std::shared_ptr<Work> start_send(const torch::Tensor& tensor, int64_t rank, int tag) override {
    check_message("send", tensor, rank, tag, 0, 1);  // there is no other rank
    return finished_work();
  }
  std::shared_ptr<Work> start_receive(const torch::Tensor& tensor, int64_t rank, int tag) override {
    check_message("receive", tensor, rank, tag, 0, 1);
    return finished_work();
  }

  torch::Tensor allocate(int64_t elements, const torch::TensorOptions& options) override {
    check_elements(elements);
    return torch::empty({elements}, options);
  }
  std::shared_ptr<Group> duplicate() override { return make_local_group(); }
  std::shared_ptr<Group> split(const std::vector<int64_t>& ranks) override {
    check_split(ranks, 1);
    return make_local_group();
  }
  void abort() override {}
  c10d::ProcessGroup* process_group() const override { return nullptr; }

 private:
  static std::shared_ptr<Work> copied(const torch::Tensor& output, const torch::Tensor& input) {
    output.detach().copy_(input.detach().reshape(output.sizes()));
    return finished_work();
  }

  const std::string backend_ = "local";
};

}  // namespace

std::shared_ptr<Group> make_local_group() {
  return std::make_shared<LocalGroup>();
}

std::shared_ptr<Work> finished_work() {
  return std::make_shared<FinishedWork>();
}

}  // namespace paceline::comm
