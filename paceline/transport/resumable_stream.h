// A two-way stream of bytes that goes on over connections that break: what one end keeps of it. No I/O, no clock.
//
// Offsets count the bytes of one direction from the beginning of the stream, over all connections. The sending half
// keeps what the peer has not acknowledged; on a new connection the peer says how much it has, and sending goes on
// exactly there. The receiving half takes every byte once and in order, however often the peer repeats it.
// Neither is thread-safe. The peer's numbers are anybody's: those that cannot be are Invalid, and change nothing.
#pragma once

#include <arrow/result.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

namespace paceline::transport {

/// Portions are small enough that acknowledgements and signs of life come between them.
inline constexpr size_t kMaxPortionBytes = size_t{1} << 20;

class SendingStream {
 public:
  /// Adds `bytes` at the end.
  void push(std::string bytes);

  /// Whether there is anything that this connection has not been given.
  bool has_next() const { return next_ < end_; }
  /// The offset of the first byte of the next portion.
  int64_t next_offset() const { return next_; }
  /// Appends the next portion to `out`, up to `limit` bytes, and counts it as given to the connection.
  void take(std::string& out, size_t limit = kMaxPortionBytes);

  /// The peer has all bytes before `received`: they are let go of. One that comes late says less than is known.
  arrow::Status acknowledge(int64_t received);
  /// On a new connection: the peer has all bytes before `received`, and is sent those behind. Invalid when they are not
  /// there (any more), which the peer of this stream cannot say.
  arrow::Status resume(int64_t received);
  /// Whether resume() could.
  arrow::Status can_resume(int64_t received) const;
  /// Lets go of everything: nobody will read it.
  void drop();

  /// The offset behind the last byte.
  int64_t end() const { return end_; }
  int64_t acknowledged() const { return acknowledged_; }

 private:
  void find_piece();

  std::deque<std::string> pieces_;
  int64_t first_ = 0;  // offset of the first byte in pieces_
  int64_t acknowledged_ = 0;
  int64_t next_ = 0;
  int64_t end_ = 0;
  // Where next_ is: in which piece, and which offset that begins at.
  size_t piece_ = 0;
  int64_t piece_start_ = 0;
};

class ReceivingStream {
 public:
  /// What is new of the bytes at `offset`; nothing when all of it was there. Invalid when bytes are missing before it.
  arrow::Result<std::string_view> accept(int64_t offset, std::string_view bytes);

  /// All bytes before this offset have come.
  int64_t received() const { return received_; }

 private:
  int64_t received_ = 0;
};

}  // namespace paceline::transport
