// Board: what a rank shows the others of its node of the operations of one group. It is in the rank's arena.
//
// The rank writes, the others read; theirs are only the bells, which they ring, and how much of its mail they have
// taken. An operation is announced before it is carried out: nobody touches values before all announcements have been
// compared.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

#include "paceline/collective/element.h"

namespace paceline::collective {

inline constexpr uint32_t kBoardVersion = 3;
inline constexpr int kMostRanks = 64;
/// Bytes for why a rank has aborted.
inline constexpr size_t kReasonBytes = 1024;
/// Operations that a rank may have announced while others are still at the first of them.
inline constexpr uint64_t kWindow = 16;
/// Stages of an operation: `Board::stage` is the operation's number times this, and how far the rank has come.
inline constexpr uint64_t kStages = uint64_t{1} << 24;

enum class Kind : uint8_t {
  all_reduce,
  reduce,
  broadcast,
  all_gather,
  gather,
  scatter,
  reduce_scatter,
  all_to_all,
  barrier
};
inline constexpr size_t kKinds = 9;

/// "all_reduce", "barrier", …
const char* to_string(Kind kind);

/// What all ranks must call alike.
struct Fingerprint {
  Kind kind = Kind::barrier;
  Reduce what;
  int32_t root = -1;      ///< -1: there is none
  uint64_t elements = 0;  ///< 0 where they may differ
  uint64_t shapes = 0;  ///< of several tensors: a hash of their types and sizes; else 0, or another way to carry it out

  /// "all_reduce(sum) of 1,024 float32".
  std::string text() const;
  bool operator==(const Fingerprint&) const = default;
};

/// What a rank calls, and where its input is.
struct Announcement {
  Fingerprint call;
  Fingerprint whole;        ///< the user's call, of which this is a part; as a rule the same
  uint64_t bytes = 0;       ///< of the input that is published; 0: none
  uint64_t address = 0;     ///< of the input, in the rank's own memory
  int64_t offset = -1;      ///< of the input in the rank's arena; -1: it is not there
  bool is_in_slot = false;  ///< the input is in the operation's slot

  /// The user's call, for messages.
  std::string text() const;
};

enum class Presence : uint32_t {
  here,
  left,     ///< the rank needs the group no more
  aborted,  ///< it was told to stop
  failed    ///< it has found others missing: `Board::missing`
};

/// The way from a rank to another, in the sender's arena: `written` and `taken` are counts of bytes.
struct MailWay {
  alignas(64) std::atomic<uint64_t> written;
  alignas(64) std::atomic<uint64_t> taken;
};

/// What a rank sleeps on. Whoever changes what it may wait for rings it.
struct Bell {
  alignas(64) std::atomic<uint32_t> rings;
  std::atomic<uint32_t> is_asleep;
};

struct Board {
  std::atomic<uint32_t> version;
  std::atomic<Presence> presence;
  std::atomic<uint64_t> missing;                ///< a bit for each rank that this one waits for no more
  std::array<char, kReasonBytes> reason;        ///< why it has aborted, from before `presence` says so; "": not told
  alignas(64) std::atomic<uint64_t> announced;  ///< operations, from 1 on
  alignas(64) std::atomic<uint64_t> stage;
  Bell bell;                             ///< of who carries operations out
  Bell mail_bell;                        ///< of who carries mail
  std::array<MailWay, kMostRanks> mail;  ///< to each rank
  alignas(64) std::array<Announcement, kWindow> announcements;
  /// Of an all_to_all: the bytes for each rank.
  std::array<std::array<uint64_t, kMostRanks>, kWindow> parts;
};

/// The number of the operation whose stage it is.
constexpr uint64_t operation_of(uint64_t stage) {
  return stage / kStages;
}

}  // namespace paceline::collective
