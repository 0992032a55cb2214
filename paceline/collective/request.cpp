#include "paceline/collective/request.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "paceline/collective/arena.h"

namespace paceline::collective {
namespace {

std::byte* byte(void* address) {
  return static_cast<std::byte*>(address);
}

}  // namespace

uint64_t Request::input_bytes(int world_size) const {
  if (input == nullptr) return 0;
  if (kind == Kind::all_to_all) return std::accumulate(sends.begin(), sends.end(), uint64_t{0});
  const bool is_of_all = kind == Kind::scatter || kind == Kind::reduce_scatter;
  return elements * size_of(what.element) * (is_of_all ? static_cast<uint64_t>(world_size) : 1);
}

uint64_t Request::output_bytes(int rank) const {
  if (kind == Kind::all_to_all) return receives[static_cast<size_t>(rank)];
  return elements * size_of(what.element);
}

bool Request::may_be_large(int world_size) const {
  if (kind == Kind::all_to_all) return true;
  const bool is_of_all = kind == Kind::scatter || kind == Kind::reduce_scatter;
  return elements * size_of(what.element) * (is_of_all ? static_cast<uint64_t>(world_size) : 1) > kSlotBytes;
}

bool Request::writes_to(const void* memory, uint64_t bytes) const {
  const auto* const begin = static_cast<const std::byte*>(memory);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto* const written = static_cast<const std::byte*>(outputs[i]);
    if (std::less<>()(written, begin + bytes) && std::less<>()(begin, written + output_bytes(static_cast<int>(i))))
      return true;
  }
  return false;
}

bool Request::reads_results_of(const Request& earlier, int world_size) const {
  return earlier.writes_to(input, input_bytes(world_size));
}

Needs needs_of(const Request& request, int rank, int world_size, const std::vector<std::vector<uint64_t>>& parts) {
  Needs needs;
  const uint64_t bytes = request.elements * size_of(request.what.element);
  switch (request.kind) {
    case Kind::all_reduce:
    case Kind::reduce:
    case Kind::reduce_scatter:
      if (request.outputs.empty()) break;
      needs.begin = request.kind == Kind::reduce_scatter ? bytes * static_cast<uint64_t>(rank) : 0;
      needs.bytes = bytes;
      needs.destination = byte(request.outputs.front());
      break;
    case Kind::broadcast:
      if (rank != request.root) needs.pieces.push_back({request.root, 0, bytes, byte(request.outputs.front())});
      break;
    case Kind::scatter:
      needs.pieces.push_back({request.root, bytes * static_cast<uint64_t>(rank), bytes, byte(request.outputs.front())});
      break;
    case Kind::all_gather:
    case Kind::gather:
      for (size_t peer = 0; peer < request.outputs.size(); ++peer) {
        needs.pieces.push_back({static_cast<int>(peer), 0, bytes, byte(request.outputs[peer])});
      }
      break;
    case Kind::all_to_all:
      for (int peer = 0; peer < world_size; ++peer) {
        const auto& sends = parts[static_cast<size_t>(peer)];
        const uint64_t begin = std::accumulate(sends.begin(), sends.begin() + rank, uint64_t{0});
        needs.pieces.push_back(
            {peer, begin, sends[static_cast<size_t>(rank)], byte(request.outputs[static_cast<size_t>(peer)])});
      }
      break;
    case Kind::barrier:
      break;
  }
  return needs;
}

uint64_t slice_begin(uint64_t elements, size_t element_size, int rank, int world_size) {
  const uint64_t line = std::max<uint64_t>(1, 64 / element_size);
  const uint64_t lines = (elements + line - 1) / line;
  const uint64_t each = (lines + static_cast<uint64_t>(world_size) - 1) / static_cast<uint64_t>(world_size);
  return std::min(elements, each * static_cast<uint64_t>(rank) * line);
}

}  // namespace paceline::collective
