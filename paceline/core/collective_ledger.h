// The collective ledger: the last thousands of collectives of a process, in memory shared with its agent.
//
// A ring of records of a cache line each. Writers take no locks and make no system calls, so a collective costs some
// ten nanoseconds more; a reader in another process sees what stands there even when the writer was killed. A record
// that is just being written, or that a dead writer has left half-written, is known by its stamp and left out. Pages
// of the ring that nobody has written take no memory. Threading: everything from any thread, in any process.
#pragma once

#include <arrow/result.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/element_type.h"
#include "paceline/core/group_members.h"

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

/// What a rank calls. `bytes` are those of the whole, alike on all ranks: of all_gather and gather what all ranks give
/// together, of reduce_scatter and scatter what they get together. all_to_all, whose ranks differ: what this one gives.
/// 0 where nobody has said it, as of sparse tensors.
struct CollectiveCall {
  Collective collective = Collective::none;
  ElementType type = ElementType::none;
  int64_t bytes = 0;

  bool operator==(const CollectiveCall&) const = default;
};

/// One collective. Times are of the monotonic clock, or, as LedgerReading has them, of the wall clock.
struct CollectiveRecord {
  int64_t position = 0;  // among all collectives of the process, from 0
  int64_t group = 0;
  int64_t number = 0;  // in the group, from 1, in the order of the calls
  CollectiveCall call;
  int64_t step = 0;       // of the call
  int64_t called_ns = 0;  // the call
  int64_t waited_ns = 0;  // when somebody first waited for it, or for a later one of its group; 0: nobody has
  int64_t end_ns = 0;     // 0: it has not ended
  bool has_failed = false;
  bool is_on_device = false;  // it is carried out by a device while no thread waits: its times are its own

  bool has_ended() const { return end_ns != 0; }
  /// Somebody waits for it, or it is carried out.
  bool is_under_way() const { return end_ns == 0 && waited_ns != 0; }
  /// Whoever has called it wants nothing of it yet. Others may wait for this rank there.
  bool is_only_called() const { return end_ns == 0 && waited_ns == 0; }
  /// From where its time counts. Who notes a wait may be held up until it has ended.
  int64_t start_ns() const {
    const int64_t start_ns = waited_ns != 0 ? waited_ns : called_ns;
    return has_ended() ? std::min(start_ns, end_ns) : start_ns;
  }

  bool operator==(const CollectiveRecord&) const = default;
};

/// A record in shared memory.
struct alignas(64) LedgerEntry {
  std::atomic<uint64_t> stamp;  // 0: none yet; odd: it is being written; else twice its position, plus two
  std::atomic<int64_t> number;
  std::atomic<int64_t> bytes;
  std::atomic<int64_t> step;
  std::atomic<int64_t> called_ns;
  std::atomic<int64_t> waited_ns;  // negative until somebody waits for it: -1 - position; 0: it ended before
  std::atomic<int64_t> end;        // negative until then: -1 - position; else twice the time, plus one if it has failed
  std::atomic<uint64_t> what;      // group << 16 | type << 8 | on a device << 7 | collective
};

/// The ring, as part of the progress word.
class CollectiveLedger {
 public:
  static constexpr size_t kRecords = 4096;

  /// Notes a collective that is called. `record`: without position and end; with the time of the wait where that begins
  /// at once. Gives the position, for the others; -1 where the ring has gone once around while another thread writes
  /// this very entry: then it is not noted.
  int64_t call(const CollectiveRecord& record);
  /// Somebody waits for it; says whether that is the first who does. Nothing happens when it has ended, or when others
  /// have taken its place meanwhile.
  bool wait(int64_t position, int64_t waited_ns);
  /// It has ended. Nothing happens when others have taken its place meanwhile. The other one: it was carried out from
  /// `start_ns` to `end_ns`, whenever somebody began to wait.
  void end(int64_t position, int64_t end_ns, bool has_failed = false);
  void end_carried_out(int64_t position, int64_t start_ns, int64_t end_ns);
  /// What was noted so far is shown no more.
  void forget() { first_.store(next_.load()); }
  /// By position. A writer may write meanwhile. Whoever waits for a collective has those of its group that were called
  /// before it carried out too: they are waited for since then at the latest.
  std::vector<CollectiveRecord> read() const;

 private:
  LedgerEntry& at(int64_t position) { return entries_[static_cast<size_t>(position) % kRecords]; }

  std::atomic<int64_t> next_;
  std::atomic<int64_t> first_;  // that is shown
  std::array<LedgerEntry, kRecords> entries_;
};

/// What the ledger of a process says at one moment. Times are of the wall clock.
struct LedgerReading {
  int64_t taken_ns = 0;
  std::vector<GroupMembers> groups;  // of some ranks, as far as these are known
  std::vector<CollectiveRecord> records;

  /// The ranks of `group` in the run; null for all, and where they are not known.
  const std::vector<int64_t>* ranks_of(int64_t group) const;
};

/// As bytes of a message, and back. Invalid where they are none.
std::string encode_reading(const LedgerReading& reading);
arrow::Result<LedgerReading> decode_reading(std::string_view bytes);

}  // namespace paceline
