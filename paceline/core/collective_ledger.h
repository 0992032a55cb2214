// The collective ledger: the last thousands of collectives of a process, in memory shared with its agent.
//
// A ring of records of a cache line each. Writers take no locks and make no system calls, so a collective costs some
// ten nanoseconds more; a reader in another process sees what stands there even when the writer was killed. A record
// that is just being written, or that a dead writer has left half-written, is known by its stamp and left out. Pages
// of the ring that nobody has written take no memory. Threading: everything from any thread, in any process.
#pragma once

#include <arrow/result.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace paceline {

enum class Collective : uint8_t {
  none = 0,
  all_reduce,
  broadcast,
  all_gather,
  reduce,
  gather,
  scatter,
  reduce_scatter,
  all_to_all,
  barrier
};

/// "all_reduce", "barrier", …
std::string to_string(Collective collective);

/// The type of a collective's values; `none` where it has none, or where nobody has said it.
enum class ElementType : uint8_t {
  none = 0,
  float32,
  float64,
  float16,
  bfloat16,
  int8,
  uint8,
  int16,
  int32,
  int64,
  boolean,
  complex64,
  complex128
};

/// "float32", "boolean", …; "" for none.
std::string to_string(ElementType type);
/// Bytes of a value; 1 for none.
int64_t size_of(ElementType type);

/// What a rank calls. `bytes` are those of the whole, alike on all ranks: of all_gather and gather what all ranks give
/// together, of reduce_scatter and scatter what they get together. all_to_all, whose ranks differ: what this one gives.
/// 0 where nobody has said it, as of sparse tensors.
struct CollectiveCall {
  Collective collective = Collective::none;
  ElementType type = ElementType::none;
  int64_t bytes = 0;
};

/// One collective. Times are of the monotonic clock, or, as read_kept_collectives() (run/collectives.h) gives them,
/// of the wall clock.
struct CollectiveRecord {
  int64_t position = 0;  // among all collectives of the process, from 0
  int64_t group = 0;
  int64_t number = 0;  // in the group, from 1
  CollectiveCall call;
  int64_t step = 0;
  int64_t begin_ns = 0;
  int64_t end_ns = 0;  // 0: it is under way

  bool is_under_way() const { return end_ns == 0; }
};

/// A record in shared memory.
struct alignas(64) LedgerEntry {
  std::atomic<uint64_t> stamp;  // 0: none yet; odd: it is being written; else twice its position, plus two
  std::atomic<int64_t> number;
  std::atomic<int64_t> bytes;
  std::atomic<int64_t> step;
  std::atomic<int64_t> begin_ns;
  std::atomic<int64_t> end_ns;  // negative while it is under way: -1 - position
  std::atomic<uint64_t> what;   // group << 16 | type << 8 | collective
};

/// The ring, as part of the progress word.
class CollectiveLedger {
 public:
  static constexpr size_t kRecords = 4096;

  /// Notes a collective that begins. `record`: without position and end. Gives the position, for end(); -1 where the
  /// ring has gone once around while another thread writes this very entry: then it is not noted.
  int64_t begin(const CollectiveRecord& record);
  /// It has ended. Nothing happens when others have taken its place meanwhile.
  void end(int64_t position, int64_t end_ns);
  /// What was noted so far is shown no more.
  void forget() { first_.store(next_.load()); }
  /// By position. A writer may write meanwhile.
  std::vector<CollectiveRecord> read() const;

 private:
  LedgerEntry& at(int64_t position) { return entries_[static_cast<size_t>(position) % kRecords]; }

  std::atomic<int64_t> next_;
  std::atomic<int64_t> first_;  // that is shown
  std::array<LedgerEntry, kRecords> entries_;
};

/// As bytes of a message, and back. Invalid where they are none.
std::string encode_records(const std::vector<CollectiveRecord>& records);
arrow::Result<std::vector<CollectiveRecord>> decode_records(std::string_view bytes);

}  // namespace paceline
