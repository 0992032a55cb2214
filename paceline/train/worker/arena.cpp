#include <ATen/Parallel.h>
#include <sys/mman.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <cstring>
#include <set>

#include "paceline/train/worker/arena_internal.h"

namespace paceline::train {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kPiece = int64_t{4} << 20;  // what one thread copies at a time

// Bytes to be copied from memory to memory.
struct Piece {
  std::byte* to;
  const std::byte* from;
  int64_t size;
};

int64_t bytes_of(const torch::Tensor& tensor) {
  return tensor.numel() * static_cast<int64_t>(tensor.element_size());
}

int64_t aligned(int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// Past the cache, as memcpy() copies what is much larger than it: nobody reads the copy soon, and lines that are
// written whole need not be read before, which would be half as much work again. `to` is aligned to 64 bytes.
void copy_piece(const Piece& piece) {
  int64_t done = 0;
#ifdef __SSE2__
  for (; done + kAlignment <= piece.size; done += kAlignment) {
    const auto* const from = reinterpret_cast<const __m128i*>(piece.from + done);
    auto* const to = reinterpret_cast<__m128i*>(piece.to + done);
    const __m128i first = _mm_loadu_si128(from), second = _mm_loadu_si128(from + 1);
    const __m128i third = _mm_loadu_si128(from + 2), fourth = _mm_loadu_si128(from + 3);
    _mm_stream_si128(to, first);
    _mm_stream_si128(to + 1, second);
    _mm_stream_si128(to + 2, third);
    _mm_stream_si128(to + 3, fourth);
  }
  _mm_sfence();
#endif
  std::memcpy(piece.to + done, piece.from + done, static_cast<size_t>(piece.size - done));
}

void add_pieces(std::vector<Piece>& pieces, const torch::Tensor& to, const torch::Tensor& from) {
  auto* const target = static_cast<std::byte*>(to.mutable_data_ptr());
  const auto* const source = static_cast<const std::byte*>(from.const_data_ptr());
  const int64_t size = bytes_of(from);
  for (int64_t done = 0; done < size; done += kPiece) {
    pieces.push_back({target + done, source + done, std::min(kPiece, size - done)});
  }
}

}  // namespace

void Arena::reserve(int64_t bytes, bool pinned) {
  if (size() >= bytes && (!pinned || memory_.is_pinned())) return;
  memory_ = torch::Tensor();  // first, so that the two do not exist at once
  memory_ = torch::empty({bytes}, torch::TensorOptions(torch::kUInt8).pinned_memory(pinned));
  if (pinned) return;
  // Of large pages there are few to be faulted in. Where the system has none, nothing is lost.
  constexpr uintptr_t kPage = 4096;
  const auto begin = (reinterpret_cast<uintptr_t>(memory_.data_ptr()) + kPage - 1) / kPage * kPage;
  const auto end = (reinterpret_cast<uintptr_t>(memory_.data_ptr()) + static_cast<uintptr_t>(bytes)) / kPage * kPage;
  if (end > begin) (void)::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
}

std::vector<StateDict> Arena::copy(const std::vector<StateDict>& states) {
  int64_t bytes = 0;
  std::set<torch::DeviceIndex> gpus;
  for (const StateDict& state : states) {
    for (const auto& [name, tensor] : state.tensors) {
      bytes += aligned(bytes_of(tensor));
      if (tensor.is_cuda()) gpus.insert(tensor.device().index());
    }
  }
  reserve(bytes, !gpus.empty());
  const torch::NoGradGuard no_grad;
  std::vector<StateDict> copies;
  std::vector<Piece> pieces;
  int64_t offset = 0;
  for (const StateDict& state : states) {
    StateDict& copied = copies.emplace_back();
    copied.values = state.values;
    for (const auto& [name, tensor] : state.tensors) {
      const int64_t size = bytes_of(tensor);
      const torch::Tensor target = memory_.narrow(0, offset, size).view(tensor.scalar_type()).view(tensor.sizes());
      offset += aligned(size);
      if (tensor.is_cpu() && tensor.is_contiguous()) {
        add_pieces(pieces, target, tensor);
      } else {
        target.copy_(tensor, /*non_blocking=*/true);
      }
      copied.tensors.emplace(name, target);
    }
  }
  at::parallel_for(0, std::ssize(pieces), 1, [&pieces](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) copy_piece(pieces[i]);
  });
  for (const torch::DeviceIndex gpu : gpus) torch::cuda::synchronize(gpu);
  return copies;
}

}  // namespace paceline::train
