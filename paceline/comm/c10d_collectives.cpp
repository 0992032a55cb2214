#include <algorithm>
#include <exception>
#include <mutex>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <utility>

#include "paceline/comm/c10d_collectives_internal.h"
#include "paceline/comm/checks_internal.h"
#include "paceline/comm/group_internal.h"

namespace paceline::comm {
namespace {

using torch::Tensor;

constexpr size_t kBroadcastBytes = size_t{250} << 20;

class C10dWork final : public Work {
 public:
  // `after`: what is left to do once c10d's work is over.
  C10dWork(const char* operation, c10::intrusive_ptr<c10d::Work> work, std::function<void()> after,
           std::shared_ptr<const FailureReporter> failures)
      : operation_(operation), work_(std::move(work)), after_(std::move(after)), failures_(std::move(failures)) {}

  void wait() override {
    std::call_once(once_, [this] {
      try {
        const torch::NoGradGuard no_grad;
        failures_->run(operation_, [this] {
          work_->wait();
          if (after_) after_();
        });
      } catch (...) {
        failure_ = std::current_exception();
      }
    });
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  const char* const operation_;
  const c10::intrusive_ptr<c10d::Work> work_;
  const std::function<void()> after_;
  const std::shared_ptr<const FailureReporter> failures_;
  std::once_flag once_;
  std::exception_ptr failure_;
};

// In one dimension. Of a tensor of one element, or none, view() would leave a stride that means nothing.
Tensor flat(const Tensor& contiguous) {
  return contiguous.as_strided({contiguous.numel()}, {1});
}

// Bytes are sent alike by every backend, whatever the dtype; not every backend knows every dtype.
Tensor as_bytes(const Tensor& contiguous) {
  return flat(contiguous).view(torch::kUInt8);
}

// Contiguous memory for what is written to a tensor.
Tensor memory_for(const Tensor& tensor) {
  return tensor.is_contiguous() ? tensor.detach() : torch::empty_like(tensor, torch::MemoryFormat::Contiguous);
}

// What a backend reduces in the place of a tensor, in one dimension. Truth values are bytes, complex numbers pairs.
Tensor as_numbers(const Tensor& contiguous) {
  const Tensor values = flat(contiguous);
  if (values.is_complex()) return torch::view_as_real(values).view({-1});
  return values.scalar_type() == torch::kBool ? values.to(torch::kUInt8) : values;
}

// Puts such numbers where the user wants them, if they are elsewhere.
void put(const Tensor& numbers, const Tensor& target) {
  if (numbers.is_alias_of(target)) return;
  const Tensor values = target.is_complex() ? torch::view_as_complex(numbers.view({-1, 2})) : numbers;
  target.copy_(values.view(target.sizes()));
}

// LibTorch 2.13 gives these three new names and deprecates the old ones, the only ones of 2.11 and 2.12. As templates,
// for what a version lacks is no error in the branch that it does not take.
template <class Group>
auto reduce_scatter_single(Group& group, Tensor& output, Tensor& input, const c10d::ReduceScatterOptions& options) {
  if constexpr (requires { group.reduce_scatter_single(output, input, options); }) {
    return group.reduce_scatter_single(output, input, options);
  } else {
    return group._reduce_scatter_base(output, input, options);
  }
}

template <class Group>
auto all_gather_single(Group& group, Tensor& output, Tensor& input) {
  if constexpr (requires { group.all_gather_single(output, input); }) {
    return group.all_gather_single(output, input);
  } else {
    return group._allgather_base(output, input);
  }
}

template <class Group>
auto all_to_all_single(Group& group, Tensor& output, Tensor& input, std::vector<int64_t>& taken,
                       std::vector<int64_t>& given) {
  if constexpr (requires { group.all_to_all_single(output, input, taken, given); }) {
    return group.all_to_all_single(output, input, taken, given);
  } else {
    return group.alltoall_base(output, input, taken, given);
  }
}

c10d::ReduceOp to_c10d(ReduceOp op, torch::ScalarType dtype) {
  if (dtype == torch::kBool) {
    // The sum of truth values is "any", their product "all"; counted as bytes, 256 ranks would make zero.
    return op == ReduceOp::sum || op == ReduceOp::max ? c10d::ReduceOp::MAX : c10d::ReduceOp::MIN;
  }
  switch (op) {
    case ReduceOp::min:
      return c10d::ReduceOp::MIN;
    case ReduceOp::max:
      return c10d::ReduceOp::MAX;
    case ReduceOp::product:
      return c10d::ReduceOp::PRODUCT;
    default:
      return c10d::ReduceOp::SUM;  // a mean is the sum, divided afterwards
  }
}

// Counts of rows as counts of bytes, for tensors that are sent as such.
std::vector<int64_t> bytes_of(const std::vector<int64_t>& rows, const Tensor& tensor) {
  const int64_t all = tensor.size(0);
  const int64_t row = all == 0 ? 0 : static_cast<int64_t>(tensor.nbytes()) / all;
  std::vector<int64_t> bytes;
  for (const int64_t count : rows) bytes.push_back(count * row);
  return bytes;
}

}  // namespace

struct C10dCollectives::Begun {
  c10::intrusive_ptr<c10d::Work> work;
  std::function<void()> after;
};

C10dCollectives::C10dCollectives(c10::intrusive_ptr<c10d::ProcessGroup> process_group,
                                 std::shared_ptr<const FailureReporter> failures)
    : process_group_(std::move(process_group)), failures_(std::move(failures)) {}

C10dCollectives::~C10dCollectives() = default;

void C10dCollectives::run(const char* operation, const std::function<void()>& body) const {
  failures_->throw_if_stopped(operation);
  const torch::NoGradGuard no_grad;
  failures_->run(operation, body);
}

std::shared_ptr<Work> C10dCollectives::start(const char* operation, const std::function<Begun()>& begin) const {
  std::shared_ptr<Work> work;
  run(operation, [&] {
    Begun begun = begin();
    work = std::make_shared<C10dWork>(operation, std::move(begun.work), std::move(begun.after), failures_);
  });
  return work;
}

std::shared_ptr<Work> C10dCollectives::start_all_reduce(const Tensor& tensor, ReduceOp op) const {
  check_reducible("all_reduce", tensor, op);
  if (tensor.numel() == 0) return finished_work();
  return start("all_reduce", [&] {
    const Tensor target = tensor.detach();
    const Tensor numbers = as_numbers(target.contiguous());
    c10d::AllreduceOptions options;
    options.reduceOp = to_c10d(op, target.scalar_type());
    std::vector<Tensor> tensors{numbers};
    const auto work = process_group_->allreduce(tensors, options);
    return Begun{work, [=, size = process_group_->getSize()] {
                   if (op == ReduceOp::mean) numbers.div_(size);
                   put(numbers, target);
                 }};
  });
}

std::shared_ptr<Work> C10dCollectives::start_reduce_scatter(const Tensor& output, const Tensor& input,
                                                            ReduceOp op) const {
  check_reducible("reduce_scatter", input, op);
  check_parts("reduce_scatter", input, output, process_group_->getSize());
  if (output.numel() == 0) return finished_work();
  return start("reduce_scatter", [&] {
    const Tensor target = output.detach();
    Tensor given = as_numbers(input.detach().contiguous());
    Tensor numbers = as_numbers(memory_for(target));
    c10d::ReduceScatterOptions options;
    options.reduceOp = to_c10d(op, target.scalar_type());
    const auto work = reduce_scatter_single(*process_group_, numbers, given, options);
    return Begun{work, [=, size = process_group_->getSize()] {
                   if (op == ReduceOp::mean) numbers.div_(size);
                   put(numbers, target);
                 }};
  });
}

std::shared_ptr<Work> C10dCollectives::start_all_gather_into(const Tensor& output, const Tensor& input) const {
  check_parts("all_gather_into", output, input, process_group_->getSize());
  if (output.numel() == 0) return finished_work();
  return start("all_gather_into", [&] {
    const Tensor target = output.detach();
    const Tensor values = memory_for(target);
    Tensor given = as_bytes(input.detach().contiguous());
    Tensor gathered = as_bytes(values);
    return Begun{all_gather_single(*process_group_, gathered, given), [=] {
                   if (!values.is_alias_of(target)) target.copy_(values);
                 }};
  });
}

std::shared_ptr<Work> C10dCollectives::start_all_to_all(const Tensor& output, const Tensor& input,
                                                        const std::vector<int64_t>& output_rows,
                                                        const std::vector<int64_t>& input_rows) const {
  check_rows(output, input, output_rows, input_rows, process_group_->getSize());
  return start("all_to_all", [&] {
    const Tensor target = output.detach();
    const Tensor values = memory_for(target);
    Tensor given = as_bytes(input.detach().contiguous());
    Tensor taken = as_bytes(values);
    std::vector<int64_t> takes = bytes_of(output_rows, output), gives = bytes_of(input_rows, input);
    return Begun{all_to_all_single(*process_group_, taken, given, takes, gives), [=] {
                   if (!values.is_alias_of(target)) target.copy_(values);
                 }};
  });
}

std::shared_ptr<Work> C10dCollectives::start_send(const Tensor& tensor, int64_t rank, int tag) const {
  check_message("send", tensor, rank, tag, process_group_->getRank(), process_group_->getSize());
  return start("send", [&] {
    std::vector<Tensor> tensors{as_bytes(tensor.detach().contiguous())};
    return Begun{process_group_->send(tensors, static_cast<int>(rank), tag), {}};
  });
}

std::shared_ptr<Work> C10dCollectives::start_receive(const Tensor& tensor, int64_t rank, int tag) const {
  check_message("receive", tensor, rank, tag, process_group_->getRank(), process_group_->getSize());
  return start("receive", [&] {
    const Tensor target = tensor.detach();
    const Tensor values = memory_for(target);
    std::vector<Tensor> tensors{as_bytes(values)};
    return Begun{process_group_->recv(tensors, static_cast<int>(rank), tag), [=] {
                   if (!values.is_alias_of(target)) target.copy_(values);
                 }};
  });
}

std::vector<Tensor> C10dCollectives::all_gather(const Tensor& tensor) const {
  check_dense("all_gather", tensor);
  std::vector<Tensor> gathered;
  run("all_gather", [&] {
    const Tensor own = tensor.detach().contiguous();
    std::vector<Tensor> bytes;
    for (int i = 0; i < process_group_->getSize(); ++i) {
      gathered.push_back(torch::empty_like(own, torch::MemoryFormat::Contiguous));
      bytes.push_back(as_bytes(gathered.back()));
    }
    if (own.numel() == 0) return;
    std::vector<std::vector<Tensor>> outputs{bytes};
    std::vector<Tensor> inputs{as_bytes(own)};
    process_group_->allgather(outputs, inputs)->wait();
  });
  return gathered;
}

void C10dCollectives::broadcast(const Tensor& tensor, int64_t root) const {
  check_dense("broadcast", tensor);
  check_root(root, process_group_->getSize());
  if (tensor.numel() == 0) return;
  run("broadcast", [&] {
    const Tensor target = tensor.detach();
    const Tensor values = target.contiguous();
    c10d::BroadcastOptions options;
    options.rootRank = root;
    std::vector<Tensor> tensors{as_bytes(values)};
    process_group_->broadcast(tensors, options)->wait();
    if (!values.is_same(target)) target.copy_(values);
  });
}

void C10dCollectives::broadcast_coalesced(const std::vector<Tensor>& tensors, int64_t root) const {
  check_root(root, process_group_->getSize());
  run("broadcast_coalesced", [&] {
    // As bytes too, so that tensors of all dtypes share messages; what is not contiguous travels as a copy.
    std::vector<Tensor> targets, copies, bytes;
    for (const auto& tensor : tensors) {
      if (tensor.numel() == 0) continue;
      targets.push_back(tensor.detach());
      copies.push_back(targets.back().contiguous());
      bytes.push_back(as_bytes(copies.back()));
    }
    if (bytes.empty()) return;
    c10d::broadcast_coalesced(process_group_, bytes, kBroadcastBytes, static_cast<int>(root));
    for (size_t i = 0; i < targets.size(); ++i) {
      if (!copies[i].is_same(targets[i])) targets[i].copy_(copies[i]);
    }
  });
}

Tensor C10dCollectives::allocate(int64_t elements, const torch::TensorOptions& options) const {
  check_elements(elements);
  const c10::Device device = options.device();
  const auto has_backend = [&](const c10::Device& one) { return one.type() == device.type(); };
  if (elements > 0 && std::ranges::any_of(process_group_->getDeviceTypes(), has_backend)) {
    const auto backend = process_group_->getBackend(device.type());
    if (backend->supportsTensorAlloc(device.index())) return backend->allocateTensor(elements, options);
  }
  return torch::empty({elements}, options);
}

}  // namespace paceline::comm
