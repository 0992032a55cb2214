#include "paceline/rpc/frame.h"

#include <algorithm>
#include <cstring>

#include "paceline/rpc/channel.h"

namespace paceline::rpc {
namespace {

constexpr std::string_view kMagic = "PCL1";

template <class Integer>
void append_integer(std::string& out, Integer value) {
  for (size_t i = 0; i < sizeof value; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

template <class Integer>
Integer read_integer(std::string_view text, size_t offset) {
  Integer value = 0;
  for (size_t i = 0; i < sizeof value; ++i) {
    value |= static_cast<Integer>(static_cast<unsigned char>(text[offset + i])) << (8 * i);
  }
  return value;
}

arrow::Status check_sizes(uint64_t head, uint64_t bytes, uint64_t descriptors) {
  if (head > kMaxHeadBytes) {
    return arrow::Status::Invalid("a message's head is too large: wanted at most ", kMaxHeadBytes, " bytes, got ",
                                  head);
  }
  if (bytes > kMaxBytes) {
    return arrow::Status::Invalid("a message is too large: wanted at most ", kMaxBytes, " bytes, got ", bytes);
  }
  if (descriptors > kMaxDescriptors) {
    return arrow::Status::Invalid("a message has too many descriptors: wanted at most ", kMaxDescriptors, ", got ",
                                  descriptors);
  }
  return arrow::Status::OK();
}

arrow::Result<FrameSizes> decode_header(std::string_view header) {
  if (!header.starts_with(kMagic)) return arrow::Status::Invalid("not a Paceline stream: a frame without its magic");
  if (header.substr(17) != std::string_view("\0\0\0", 3)) {
    return arrow::Status::Invalid("a frame's reserved bytes are not zero");
  }
  const auto head = read_integer<uint32_t>(header, 4);
  const auto bytes = read_integer<uint64_t>(header, 8);
  const auto descriptors = read_integer<uint8_t>(header, 16);
  ARROW_RETURN_NOT_OK(check_sizes(head, bytes, descriptors));
  return FrameSizes{head, static_cast<size_t>(bytes), descriptors};
}

// Moves bytes from the front of `from` to the end of `to` until `to` has `size` bytes.
void move_up_to(size_t size, std::span<const std::byte>& from, std::string& to) {
  const size_t count = std::min(from.size(), size - to.size());
  to.append(reinterpret_cast<const char*>(from.data()), count);
  from = from.subspan(count);
}

}  // namespace

arrow::Result<std::string> encode_frame_start(const Envelope& envelope) {
  const std::string head = encode_head(envelope);
  ARROW_RETURN_NOT_OK(check_sizes(head.size(), envelope.bytes.size(), envelope.descriptors.size()));
  std::string start;
  start.reserve(kFrameHeaderBytes + head.size());
  start += kMagic;
  append_integer(start, static_cast<uint32_t>(head.size()));
  append_integer(start, static_cast<uint64_t>(envelope.bytes.size()));
  append_integer(start, static_cast<uint8_t>(envelope.descriptors.size()));
  start.append(3, '\0');
  start += head;
  return start;
}

arrow::Status FrameReader::feed(std::span<const std::byte> bytes, std::vector<Descriptor> descriptors) {
  std::move(descriptors.begin(), descriptors.end(), std::back_inserter(descriptors_));
  while (status_.ok() && !bytes.empty()) status_ = take(bytes);
  if (status_.ok()) status_ = check_descriptors();
  if (!status_.ok()) {
    descriptors_.clear();
    frame_descriptors_.clear();
  }
  return status_;
}

// One step: the header, the head or the bytes, as far as they are there.
arrow::Status FrameReader::take(std::span<const std::byte>& bytes) {
  if (!sizes_) {
    move_up_to(kFrameHeaderBytes, bytes, start_);
    if (start_.size() < kFrameHeaderBytes) return arrow::Status::OK();
    ARROW_RETURN_NOT_OK(begin_frame());
  }
  move_up_to(kFrameHeaderBytes + sizes_->head, bytes, start_);
  if (start_.size() < kFrameHeaderBytes + sizes_->head) return arrow::Status::OK();
  move_up_to(sizes_->bytes, bytes, bytes_);
  if (bytes_.size() < sizes_->bytes) return arrow::Status::OK();
  return end_frame();
}

arrow::Status FrameReader::begin_frame() {
  ARROW_ASSIGN_OR_RAISE(sizes_, decode_header(start_));
  if (descriptors_.size() < sizes_->descriptors) {
    return arrow::Status::Invalid("a frame's descriptors did not come with it: wanted ", sizes_->descriptors, ", got ",
                                  descriptors_.size());
  }
  const auto end = descriptors_.begin() + static_cast<ptrdiff_t>(sizes_->descriptors);
  std::move(descriptors_.begin(), end, std::back_inserter(frame_descriptors_));
  descriptors_.erase(descriptors_.begin(), end);
  return arrow::Status::OK();
}

arrow::Status FrameReader::end_frame() {
  ARROW_ASSIGN_OR_RAISE(Envelope envelope, decode_head(std::string_view(start_).substr(kFrameHeaderBytes)));
  envelope.bytes = std::exchange(bytes_, {});
  envelope.descriptors = std::exchange(frame_descriptors_, std::vector<Descriptor>());
  ready_.push_back(std::move(envelope));
  start_.clear();
  sizes_.reset();
  return arrow::Status::OK();
}

// Only a frame whose header is still incomplete may have descriptors that nobody has claimed.
arrow::Status FrameReader::check_descriptors() const {
  const size_t allowed = start_.empty() || sizes_ ? 0 : kMaxDescriptors;
  if (descriptors_.size() <= allowed) return arrow::Status::OK();
  return arrow::Status::Invalid("descriptors came that no frame announced: ", descriptors_.size());
}

arrow::Result<std::optional<Envelope>> FrameReader::next() {
  if (!ready_.empty()) {
    std::optional<Envelope> envelope = std::move(ready_.front());
    ready_.pop_front();
    return envelope;
  }
  ARROW_RETURN_NOT_OK(status_);
  return std::nullopt;
}

}  // namespace paceline::rpc
