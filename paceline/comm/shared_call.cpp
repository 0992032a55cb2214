#include <ATen/MemoryOverlap.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/Allocator.h>
#include <c10/core/InferenceMode.h>

#include <c10/util/hash.h>
#include <algorithm>
#include <iterator>
#include <set>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <tuple>

#include "paceline/comm/collective_call_internal.h"
#include "paceline/comm/shared_call_internal.h"
#include "paceline/core/error.h"

namespace paceline::comm {

using collective::Kind;
using collective::Reduction;
using collective::Request;

namespace {

Reduction reduction_of(const c10d::ReduceOp& op) {
  switch (static_cast<c10d::ReduceOp::RedOpType>(op)) {
    case c10d::ReduceOp::AVG:
      return Reduction::mean;
    case c10d::ReduceOp::PRODUCT:
      return Reduction::product;
    case c10d::ReduceOp::MIN:
      return Reduction::min;
    case c10d::ReduceOp::MAX:
      return Reduction::max;
    case c10d::ReduceOp::BAND:
      return Reduction::bitwise_and;
    case c10d::ReduceOp::BOR:
      return Reduction::bitwise_or;
    case c10d::ReduceOp::BXOR:
      return Reduction::bitwise_xor;
    default:
      return Reduction::sum;
  }
}

double factor_of(const c10d::ReduceOp& op) {
  if (op.op_ != c10d::ReduceOp::PREMUL_SUM) return 1;
  // Its name until LibTorch 2.11, an alias since.
  const auto* const factor = dynamic_cast<const c10d::NCCLPreMulSumSupplement*>(op.supplement_.get());
  TORCH_CHECK_VALUE(factor != nullptr, "PREMUL_SUM has no factor");
  return factor->tensor_factor.defined() ? factor->tensor_factor.item<double>() : factor->double_factor;
}

// Whether its memory has its values, one behind the other: those of conj() and of its imag are worked out when read.
bool is_plain(const at::Tensor& tensor) {
  return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
}

at::Tensor values_of(const at::Tensor& tensor) {
  return tensor.detach().resolve_conj().resolve_neg().contiguous();
}

void check_written(const at::Tensor& tensor) {
  TORCH_CHECK_VALUE(at::has_internal_overlap(tensor) != at::MemOverlap::Yes,
                    "a collective cannot write to a tensor of sizes ", tensor.sizes(), " and strides ",
                    tensor.strides(), ", several values of which are in one place (as expand() makes it): clone() it");
}

bool overlap(const std::vector<MemoryRange>& some, const std::vector<MemoryRange>& others) {
  return std::ranges::any_of(some, [&](const MemoryRange& one) {
    return std::ranges::any_of(
        others, [&](const MemoryRange& other) { return one.first < other.second && other.first < one.second; });
  });
}

}  // namespace

void check_tensor(const char* operation, const at::Tensor& tensor) {
  TORCH_CHECK_VALUE(tensor.device().is_cpu() && tensor.layout() == at::kStrided, operation,
                    " over shared memory takes dense tensors of the CPU; got ", tensor.toString(), " on ",
                    tensor.device().str());
}

at::Tensor& only(const char* operation, std::vector<at::Tensor>& tensors, int64_t root_tensor) {
  TORCH_CHECK_VALUE(tensors.size() == 1, operation, ": wanted one tensor, got ", tensors.size());
  TORCH_CHECK_VALUE(root_tensor == 0, operation, ": there is no tensor ", root_tensor, " in a list of one");
  check_tensor(operation, tensors.front());
  return tensors.front();
}

const std::vector<at::Tensor>& list_of(const char* operation, const std::vector<std::vector<at::Tensor>>& lists,
                                       const at::Tensor& of, int world_size) {
  TORCH_CHECK_VALUE(lists.size() == 1 && lists.front().size() == static_cast<size_t>(world_size), operation,
                    ": wanted one list with a tensor for each of ", world_size, " ranks");
  for (const at::Tensor& one : lists.front()) {
    check_tensor(operation, one);
    TORCH_CHECK_VALUE(one.numel() == of.numel() && one.scalar_type() == of.scalar_type(), operation,
                      ": tensors of one size and type wanted, got ", one.toString(), one.sizes(), " and ",
                      of.toString(), of.sizes());
  }
  return lists.front();
}

bool has_sizes_of_their_own(const std::vector<std::vector<at::Tensor>>& lists) {
  return lists.size() == 1 && std::ranges::any_of(lists.front(), [&](const at::Tensor& one) {
           return one.numel() != lists.front().front().numel();
         });
}

void check_parts_of_ranks(const char* operation, const std::vector<at::Tensor>& parts, const at::Tensor& own, int rank,
                          int world_size) {
  TORCH_CHECK_VALUE(parts.size() == static_cast<size_t>(world_size), operation, ": wanted a tensor for each of ",
                    world_size, " ranks, got ", parts.size());
  TORCH_CHECK_VALUE(parts[static_cast<size_t>(rank)].numel() == own.numel(), operation, ": wanted for rank ", rank,
                    " the ", own.numel(), " values of its tensor, got ", parts[static_cast<size_t>(rank)].numel());
  for (const at::Tensor& part : parts) {
    check_tensor(operation, part);
    TORCH_CHECK_VALUE(part.scalar_type() == own.scalar_type(), operation, ": tensors of one type wanted, got ",
                      part.scalar_type(), " and ", own.scalar_type());
  }
}

void check_empty_elsewhere(const char* operation, const std::vector<std::vector<at::Tensor>>& lists, int rank,
                           int root) {
  TORCH_CHECK_VALUE(rank == root || lists.empty(), operation, ": only rank ", root, " has a list of tensors, rank ",
                    rank, " gave one too");
}

void check_gathered(const std::vector<std::vector<at::Tensor>>& outputs, const std::vector<at::Tensor>& inputs,
                    int world_size) {
  TORCH_CHECK_VALUE(outputs.size() == static_cast<size_t>(world_size), "all_gather: wanted a list for each of ",
                    world_size, " ranks, got ", outputs.size());
  for (const at::Tensor& input : inputs) check_tensor("all_gather", input);
  for (const std::vector<at::Tensor>& list : outputs) {
    TORCH_CHECK_VALUE(list.size() == inputs.size(), "all_gather: wanted a tensor for each of ", inputs.size(),
                      " inputs, got ", list.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      TORCH_CHECK_VALUE(list[i].nbytes() == inputs[i].nbytes() && list[i].scalar_type() == inputs[i].scalar_type(),
                        "all_gather: the outputs have not the sizes and types of the inputs");
    }
  }
}

void check_gathered(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& inputs, int world_size) {
  TORCH_CHECK_VALUE(outputs.size() == inputs.size(), "all_gather: wanted an output for each input");
  for (size_t i = 0; i < inputs.size(); ++i) {
    check_tensor("all_gather", inputs[i]);
    check_tensor("all_gather", outputs[i]);
    TORCH_CHECK_VALUE(
        outputs[i].numel() == inputs[i].numel() * world_size && outputs[i].scalar_type() == inputs[i].scalar_type(),
        "all_gather: wanted an output of ", inputs[i].numel() * world_size, " ", inputs[i].scalar_type(), ", got ",
        outputs[i].numel(), " ", outputs[i].scalar_type());
  }
}

void check_scattered(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& inputs, int world_size) {
  TORCH_CHECK_VALUE(outputs.size() == inputs.size(), "reduce_scatter: wanted an output for each input");
  for (size_t i = 0; i < inputs.size(); ++i) {
    check_tensor("reduce_scatter", inputs[i]);
    check_tensor("reduce_scatter", outputs[i]);
    TORCH_CHECK_VALUE(
        inputs[i].numel() == outputs[i].numel() * world_size && outputs[i].scalar_type() == inputs[i].scalar_type(),
        "reduce_scatter: wanted an input of ", outputs[i].numel() * world_size, " ", outputs[i].scalar_type(), ", got ",
        inputs[i].numel(), " ", inputs[i].scalar_type());
  }
}

int checked_rank(const char* operation, int64_t rank, int world_size) {
  TORCH_CHECK_VALUE(rank >= 0 && rank < world_size, operation, ": there is no rank ", rank, " in a group of ",
                    world_size);
  return static_cast<int>(rank);
}

std::vector<uint64_t> bytes_of_rows(const at::Tensor& tensor, const std::vector<int64_t>& rows, int world_size) {
  const int64_t all = tensor.dim() == 0 ? 1 : tensor.size(0);
  if (rows.empty()) {
    TORCH_CHECK_VALUE(all % world_size == 0, "all_to_all: ", all, " rows cannot be divided among ", world_size,
                      " ranks");
    return std::vector<uint64_t>(static_cast<size_t>(world_size), tensor.nbytes() / static_cast<size_t>(world_size));
  }
  int64_t sum = 0;
  for (const int64_t count : rows) sum += count;
  const bool is_any_negative = std::ranges::any_of(rows, [](int64_t count) { return count < 0; });
  TORCH_CHECK_VALUE(std::ssize(rows) == world_size && sum == all && !is_any_negative,
                    "all_to_all: wanted a count for each of ", world_size, " ranks, ", all, " rows in all, got ", rows);
  const uint64_t row = all == 0 ? 0 : tensor.nbytes() / static_cast<size_t>(all);
  std::vector<uint64_t> bytes;
  for (const int64_t count : rows) bytes.push_back(static_cast<uint64_t>(count) * row);
  return bytes;
}

at::Tensor allocate_in(const std::shared_ptr<collective::Arena>& arena, int64_t elements,
                       const at::TensorOptions& options) {
  const auto got = arena->allocate(static_cast<size_t>(elements) * options.dtype().itemsize());
  if (got.status().IsCapacityError()) return at::empty({elements}, options);  // which is sent all the same
  void* const block = value_or_throw(got);
  // Hooks of DDP may make a bucket longer: then it goes to ordinary memory.
  const auto free = [arena](void* memory) { arena->free(memory); };
  at::Storage storage(at::Storage::use_byte_size_t(), static_cast<size_t>(elements) * options.dtype().itemsize(),
                      at::InefficientStdFunctionContext::makeDataPtr(block, free, at::kCPU), at::getCPUAllocator(),
                      /*resizable=*/true);
  return at::empty({0}, options).set_(std::move(storage), 0, {elements}, {1});
}

Request request_of(Kind kind, const at::Tensor& tensor, std::chrono::milliseconds timeout) {
  const ElementType type = type_of(tensor);
  const bool has_type = type != ElementType::none;
  return {.kind = kind,
          .what = {.element = has_type ? type : ElementType::uint8},
          .elements = static_cast<uint64_t>(has_type ? tensor.numel() : tensor.nbytes()),
          .timeout = timeout};
}

collective::Fingerprint fingerprint_of(Kind kind, const std::vector<at::Tensor>& tensors, const c10d::ReduceOp* op,
                                       int root) {
  collective::Fingerprint print{.kind = kind, .root = root};
  if (op != nullptr) print.what = {.reduction = reduction_of(*op), .factor = factor_of(*op)};
  for (const at::Tensor& tensor : tensors) {
    const Request one = request_of(kind, tensor, {});
    if (&tensor == tensors.data()) print.what.element = one.what.element;
    print.elements += one.elements;
    if (tensors.size() > 1) {
      print.shapes = c10::hash_combine(print.shapes, c10::get_hash(one.elements, static_cast<int>(one.what.element)));
    }
  }
  return print;
}

collective::Fingerprint of_its_own(collective::Fingerprint fingerprint) {
  fingerprint.shapes = c10::hash_combine(fingerprint.shapes, 1);
  return fingerprint;
}

Request reducing_request_of(const char* operation, Kind kind, const at::Tensor& tensor, const c10d::ReduceOp& op,
                            std::chrono::milliseconds timeout) {
  Request request = request_of(kind, tensor, timeout);
  request.what.reduction = reduction_of(op);
  request.what.factor = factor_of(op);
  TORCH_CHECK_VALUE(tensor.is_floating_point() || tensor.is_complex() || request.what.factor == 1, operation,
                    " with a factor (PREMUL_SUM) takes floating-point and complex numbers; got ", tensor.scalar_type());
  TORCH_CHECK_VALUE(type_of(tensor) != ElementType::none && has(request.what.element, request.what.reduction),
                    operation, " cannot take the ", to_string(request.what.reduction), " of ", tensor.scalar_type(),
                    " tensors");
  return request;
}

std::vector<at::Tensor> without_repeats(const std::vector<at::Tensor>& tensors) {
  if (tensors.size() == 1) return tensors;
  std::vector<at::Tensor> once;
  std::set<std::tuple<const void*, std::vector<int64_t>, std::vector<int64_t>>> places;
  for (const at::Tensor& tensor : tensors) {
    const bool is_new = places.emplace(tensor.const_data_ptr(), tensor.sizes().vec(), tensor.strides().vec()).second;
    if (is_new || tensor.numel() == 0) once.push_back(tensor);
  }
  return once;
}

std::vector<MemoryRange> ranges_of(const std::vector<at::Tensor>& tensors) {
  std::vector<MemoryRange> ranges;
  for (const at::Tensor& tensor : tensors) {
    if (tensor.numel() == 0) continue;
    const auto* const begin = static_cast<const std::byte*>(tensor.const_data_ptr());
    int64_t last = 0;
    for (int64_t i = 0; i < tensor.dim(); ++i) last += (tensor.size(i) - 1) * tensor.stride(i);
    ranges.emplace_back(begin, begin + (static_cast<size_t>(last) + 1) * tensor.element_size());
  }
  return ranges;
}

std::shared_ptr<void> MemoryInUse::take(const std::vector<at::Tensor>& read, const std::vector<at::Tensor>& written) {
  Use use{.read = ranges_of(read), .written = ranges_of(written)};
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return is_free(use); });
  return claim(std::move(use));
}

std::shared_ptr<void> MemoryInUse::note(const std::vector<at::Tensor>& tensors) {
  const std::lock_guard lock(mutex_);
  return claim({.read = {}, .written = ranges_of(tensors)});
}

bool MemoryInUse::is_empty() const {
  const std::lock_guard lock(mutex_);
  return taken_.empty();
}

bool MemoryInUse::has_any_of(const std::vector<MemoryRange>& ranges) const {
  const std::lock_guard lock(mutex_);
  return !is_free({.read = {}, .written = ranges});
}

// With the mutex held.
std::shared_ptr<void> MemoryInUse::claim(Use use) {
  const auto place = taken_.insert(taken_.end(), std::move(use));
  return {nullptr, [self = shared_from_this(), place](void*) {
            const std::lock_guard guard(self->mutex_);
            self->taken_.erase(place);
            self->changed_.notify_all();
          }};
}

bool MemoryInUse::is_free(const Use& wanted) const {
  return std::ranges::none_of(taken_, [&wanted](const Use& taken) {
    return overlap(taken.written, wanted.written) || overlap(taken.written, wanted.read) ||
           overlap(taken.read, wanted.written);
  });
}

at::Tensor SharedCall::given(const at::Tensor& tensor) {
  return kept_.emplace_back(values_of(tensor));
}

at::Tensor SharedCall::filled(at::Tensor& tensor) {
  check_written(tensor);
  if (is_plain(tensor)) return kept_.emplace_back(tensor.detach());
  copies_.emplace_back(tensor.detach(), at::empty(tensor.sizes(), tensor.options()));
  return copies_.back().second;
}

at::Tensor SharedCall::updated(at::Tensor& tensor, bool is_result) {
  if (is_result) check_written(tensor);
  if (is_plain(tensor)) return kept_.emplace_back(tensor.detach());
  at::Tensor values = values_of(tensor);
  if (is_result) copies_.emplace_back(tensor.detach(), values);
  return kept_.emplace_back(std::move(values));
}

at::Tensor SharedCall::joined(const std::vector<at::Tensor>& parts) {
  std::vector<at::Tensor> flat;
  for (const at::Tensor& part : parts) flat.push_back(values_of(part).view({-1}));
  return kept_.emplace_back(at::cat(flat));
}

std::vector<at::Tensor> SharedCall::destinations() const {
  std::vector<at::Tensor> all;
  for (const auto& [to, from] : copies_) all.push_back(to);
  return all;
}

void SharedCall::results(const at::Tensor& to, const at::Tensor& from) {
  check_written(to);
  copies_.emplace_back(to, from);
}

void SharedCall::copy_back() {
  const c10::InferenceMode as_allowed_to_write;  // also tensors of a rank that is in it, from whatever thread
  for (auto& [to, from] : copies_) to.copy_(from);
}

}  // namespace paceline::comm
