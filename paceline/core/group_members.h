// Which ranks are in the groups of some ranks, beside the collective ledger in memory shared with a process's agent.
//
// A group of all ranks needs no words. Of others kGroups are told at a time, those that are gone before others take
// their places too; of further ones, and of ranks from kRanks on, the ranks are not known. Threading: one writer at a
// time, readers in any process.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace paceline {

/// A group and its ranks in the run, ascending.
struct GroupMembers {
  int64_t group = 0;
  std::vector<int64_t> ranks;

  bool operator==(const GroupMembers&) const = default;
};

/// Numbers below it are of groups of all ranks, which all ranks count alike.
inline constexpr int64_t kFirstGroupOfSome = int64_t{1} << 46;

/// The number of a group with these ranks, the same in all processes: of its name, which no other group of these ranks
/// has, and of the ranks. Above kFirstGroupOfSome, and below 2⁴⁷. FNV-1a (Fowler, Noll and Vo).
int64_t number_of_group(std::string_view name, const std::vector<int64_t>& ranks);

/// As part of the progress word.
class GroupMembersTable {
 public:
  static constexpr size_t kGroups = 256;
  static constexpr size_t kRanks = 4096;

  /// Where it stands from now on, in place of the one that has been gone for longest, if one must go; nothing where it
  /// does not stand.
  std::optional<size_t> note(const GroupMembers& members);
  /// The group that stands there is gone.
  void end(size_t place) { entries_[place].is_used.store(false); }
  std::vector<GroupMembers> read() const;

 private:
  struct Entry {
    std::atomic<int64_t> group;  // 0: none, or it is being written
    std::atomic<uint64_t> turn;  // in which it was noted
    std::atomic<bool> is_used;
    std::array<std::atomic<uint64_t>, kRanks / 64> ranks;
  };
  std::atomic<uint64_t> turns_;
  std::array<Entry, kGroups> entries_;
};

}  // namespace paceline
