#include "paceline/transport/resumable_stream.h"

#include <algorithm>

namespace paceline::transport {

void SendingStream::push(std::string bytes) {
  if (bytes.empty()) return;
  end_ += std::ssize(bytes);
  pieces_.push_back(std::move(bytes));
}

void SendingStream::take(std::string& out, size_t limit) {
  while (limit > 0 && has_next()) {
    const std::string& piece = pieces_[piece_];
    const auto begin = static_cast<size_t>(next_ - piece_start_);
    const size_t count = std::min(limit, piece.size() - begin);
    out.append(piece, begin, count);
    limit -= count;
    next_ += static_cast<int64_t>(count);
    if (begin + count == piece.size()) {
      piece_start_ += std::ssize(piece);
      ++piece_;
    }
  }
}

arrow::Status SendingStream::acknowledge(int64_t received) {
  if (received < 0 || received > next_) {
    return arrow::Status::Invalid("the peer acknowledges bytes that it was not sent: sent ", next_, ", acknowledged ",
                                  received);
  }
  if (received <= acknowledged_) return arrow::Status::OK();
  acknowledged_ = received;
  // next_ is not before `received`, so a piece that goes lies before the one that is being sent.
  while (!pieces_.empty() && first_ + std::ssize(pieces_.front()) <= acknowledged_) {
    first_ += std::ssize(pieces_.front());
    pieces_.pop_front();
    --piece_;
  }
  return arrow::Status::OK();
}

arrow::Status SendingStream::can_resume(int64_t received) const {
  if (received < acknowledged_ || received > end_) {
    return arrow::Status::Invalid("the peer wants to go on where this stream cannot: kept from ", acknowledged_, " to ",
                                  end_, ", wanted from ", received);
  }
  return arrow::Status::OK();
}

arrow::Status SendingStream::resume(int64_t received) {
  ARROW_RETURN_NOT_OK(can_resume(received));
  next_ = received;
  find_piece();
  return acknowledge(received);
}

void SendingStream::find_piece() {
  piece_ = 0;
  piece_start_ = first_;
  while (piece_ < pieces_.size() && piece_start_ + std::ssize(pieces_[piece_]) <= next_) {
    piece_start_ += std::ssize(pieces_[piece_]);
    ++piece_;
  }
}

void SendingStream::drop() {
  pieces_.clear();
  first_ = acknowledged_ = next_ = piece_start_ = end_;
  piece_ = 0;
}

arrow::Result<std::string_view> ReceivingStream::accept(int64_t offset, std::string_view bytes) {
  if (offset < 0 || offset > received_) {
    return arrow::Status::Invalid("bytes are missing in the peer's stream: wanted offset ", received_, ", got ",
                                  offset);
  }
  const auto known = static_cast<uint64_t>(received_ - offset);
  if (known >= bytes.size()) return std::string_view();
  bytes.remove_prefix(static_cast<size_t>(known));
  received_ += std::ssize(bytes);
  return bytes;
}

}  // namespace paceline::transport
