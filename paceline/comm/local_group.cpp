#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "paceline/comm/group_internal.h"

namespace paceline::comm {
namespace {

class LocalGroup final : public Group {
 public:
  int64_t rank() const override { return 0; }
  int64_t size() const override { return 1; }
  const std::string& backend() const override { return backend_; }
  void all_reduce(torch::Tensor& tensor, ReduceOp op) override { check_reducible(tensor, op); }
  std::vector<torch::Tensor> all_gather(const torch::Tensor& tensor) override { return {tensor.detach().clone()}; }
  void broadcast(torch::Tensor&, int64_t root) override { check_root(root, 1); }
  void broadcast_coalesced(const std::vector<torch::Tensor>&, int64_t root) override { check_root(root, 1); }
  void barrier() override {}
  std::shared_ptr<Group> duplicate() override { return make_local_group(); }
  void abort() override {}
  c10d::ProcessGroup* process_group() const override { return nullptr; }

 private:
  const std::string backend_ = "local";
};

}  // namespace

std::shared_ptr<Group> make_local_group() {
  return std::make_shared<LocalGroup>();
}

}  // namespace paceline::comm
