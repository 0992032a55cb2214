#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <utility>

#include "paceline/comm/compression_internal.h"

namespace paceline::comm {
namespace {

class CompressionHook final : public c10d::CppCommHookInterface<GroupOfTheMoment> {
 public:
  CompressionHook(GroupOfTheMoment process_group, torch::ScalarType dtype)
      : CppCommHookInterface(std::move(process_group)), dtype_(dtype) {}

  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    const auto process_group = state_();
    torch::Tensor gradients = bucket.getBufferRef();
    // Divided first: the sum over many ranks could leave the range of fp16.
    torch::Tensor compressed = gradients.div(process_group->getSize()).to(dtype_);
    std::vector<torch::Tensor> tensors{compressed};
    return process_group->allreduce(tensors)->getFuture()->then(
        [gradients, compressed](c10::ivalue::Future& reduced) {
          reduced.value();  // throws what went wrong
          gradients.copy_(compressed);
          return c10::IValue(gradients);
        },
        c10::TensorType::get());
  }

 private:
  const torch::ScalarType dtype_;
};

}  // namespace

std::unique_ptr<c10d::CommHookInterface> make_compression_hook(GroupOfTheMoment process_group,
                                                               Compression compression) {
  const torch::ScalarType dtype = compression == Compression::bf16 ? torch::kBFloat16 : torch::kFloat16;
  return std::make_unique<CompressionHook>(std::move(process_group), dtype);
}

}  // namespace paceline::comm
