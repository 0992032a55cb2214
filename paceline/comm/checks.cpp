#include <numeric>
#include <set>
#include <sstream>

#include "paceline/comm/checks_internal.h"
#include "paceline/core/error.h"

namespace paceline::comm {
namespace {

bool is_reducible(torch::ScalarType dtype, ReduceOp op) {
  switch (dtype) {
    case torch::kFloat16:
    case torch::kBFloat16:
    case torch::kFloat32:
    case torch::kFloat64:
      return true;
    case torch::kComplexFloat:
    case torch::kComplexDouble:
      return op == ReduceOp::sum || op == ReduceOp::mean;
    case torch::kBool:
    case torch::kInt8:
    case torch::kUInt8:
    case torch::kInt32:
    case torch::kInt64:
      return op != ReduceOp::mean;
    default:
      return false;
  }
}

template <class... Parts>
void require(bool is_so, const Parts&... parts) {
  if (is_so) return;
  std::ostringstream message;
  (message << ... << parts);
  throw CollectiveError(message.str());
}

// "[2, 3] Float on cpu".
std::string describe(const torch::Tensor& tensor) {
  std::ostringstream text;
  text << tensor.sizes() << " " << c10::toString(tensor.scalar_type()) << " on " << tensor.device();
  return text.str();
}

std::string describe(const std::vector<int64_t>& numbers) {
  std::ostringstream text;
  text << torch::IntArrayRef(numbers);
  return text.str();
}

void check_alike(const char* operation, const torch::Tensor& output, const torch::Tensor& input) {
  check_dense(operation, output);
  check_dense(operation, input);
  require(output.scalar_type() == input.scalar_type() && output.device() == input.device(), operation,
          ": wanted an output of the input's type and device, ", describe(input), ", got ", describe(output));
}

// That the counts of rows are those of all rows of a tensor.
void check_counts(const char* which, const torch::Tensor& tensor, const std::vector<int64_t>& rows,
                  int64_t world_size) {
  const int64_t all = tensor.size(0);
  if (rows.empty()) {
    require(all % world_size == 0, "all_to_all: the ", which, " cannot be divided among the ranks: rows=", all,
            " world_size=", world_size);
    return;
  }
  const bool are_counts = std::ranges::all_of(rows, [](int64_t count) { return count >= 0; });
  require(std::ssize(rows) == world_size && are_counts && std::accumulate(rows.begin(), rows.end(), int64_t{0}) == all,
          "all_to_all: wanted the ", which, "'s ", all, " rows as counts for ", world_size, " ranks, got ",
          describe(rows));
}

}  // namespace

void check_place(int64_t rank, int64_t world_size) {
  require(world_size >= 1 && rank >= 0 && rank < world_size, "there is no such place in a group: rank=", rank,
          " world_size=", world_size);
}

void check_dense(const char* operation, const torch::Tensor& tensor) {
  require(tensor.layout() == torch::kStrided, operation, " takes dense tensors; got ", tensor.layout());
}

void check_reducible(const char* operation, const torch::Tensor& tensor, ReduceOp op) {
  require(!tensor.is_sparse() && is_reducible(tensor.scalar_type(), op), operation, " cannot take the ", to_string(op),
          " of ", tensor.is_sparse() ? "sparse " : "", c10::toString(tensor.scalar_type()), " tensors: convert them");
}

void check_parts(const char* operation, const torch::Tensor& whole, const torch::Tensor& part, int64_t world_size) {
  check_alike(operation, whole, part);
  require(whole.numel() == part.numel() * world_size, operation, ": wanted ", part.numel() * world_size,
          " elements, which are ", world_size, " parts of ", part.numel(), " (", describe(part), "), got ",
          whole.numel(), " (", describe(whole), ")");
}

void check_rows(const torch::Tensor& output, const torch::Tensor& input, const std::vector<int64_t>& output_rows,
                const std::vector<int64_t>& input_rows, int64_t world_size) {
  check_alike("all_to_all", output, input);
  require(input.dim() > 0 && output.dim() > 0 && input.sizes().slice(1) == output.sizes().slice(1),
          "all_to_all: wanted tensors with rows of one shape, got an input of ", input.sizes(), " and an output of ",
          output.sizes());
  check_counts("input", input, input_rows, world_size);
  check_counts("output", output, output_rows, world_size);
}

void check_root(int64_t root, int64_t world_size) {
  require(root >= 0 && root < world_size, "broadcast from a rank that does not exist: root=", root,
          " world_size=", world_size);
}

void check_message(const char* operation, const torch::Tensor& tensor, int64_t other, int tag, int64_t rank,
                   int64_t world_size) {
  check_dense(operation, tensor);
  require(other >= 0 && other < world_size && other != rank, operation,
          " is between this rank and another one of the group: wanted a rank below ", world_size, " other than ", rank,
          ", got ", other);
  require(tag >= 0, operation, ": wanted a tag from 0 on, got ", tag);
}

void check_split(const std::vector<int64_t>& ranks, int64_t world_size) {
  const std::set<int64_t> different(ranks.begin(), ranks.end());
  require(
      !ranks.empty() && different.size() == ranks.size() && *different.begin() >= 0 && *different.rbegin() < world_size,
      "split: wanted different ranks below ", world_size, ", got ", describe(ranks));
}

void check_elements(int64_t elements) {
  require(elements >= 0, "allocate: wanted a number of elements, got ", elements);
}

}  // namespace paceline::comm
