// Which ranks are in the groups of some ranks, beside the collective ledger in memory shared with a process's agent.
//
// A group of all ranks needs no words. Of groups of some ranks, or of further ones of all, the last kGroups that a
// process was in are told; ranks from kRanks on are left out. Threading: one writer at a time, readers in any process.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace paceline {

/// A group and its ranks in the run, ascending.
struct GroupMembers {
  int64_t group = 0;
  std::vector<int64_t> ranks;

  bool operator==(const GroupMembers&) const = default;
};

/// The number of a group with these ranks, the same in all processes: of its name, which no other group of these ranks
/// has, and of the ranks. Above all numbers of groups that are counted, and below 2⁴⁷. FNV-1a (Fowler, Noll and Vo).
int64_t number_of_group(std::string_view name, const std::vector<int64_t>& ranks);

/// As part of the progress word.
class GroupMembersTable {
 public:
  static constexpr size_t kGroups = 256;
  static constexpr size_t kRanks = 4096;

  /// Takes the place of the group that was noted first where there is none left.
  void note(const GroupMembers& members);
  std::vector<GroupMembers> read() const;

 private:
  struct Entry {
    std::atomic<int64_t> group;  // 0: none, or it is being written
    std::array<std::atomic<uint64_t>, kRanks / 64> ranks;
  };
  std::atomic<uint64_t> noted_;
  std::array<Entry, kGroups> entries_;
};

}  // namespace paceline
