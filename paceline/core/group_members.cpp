#include "paceline/core/group_members.h"

#include <algorithm>
#include <utility>

namespace paceline {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr size_t kBits = 64;

}  // namespace

int64_t number_of_group(std::string_view name, const std::vector<int64_t>& ranks) {
  constexpr int64_t kFirst = int64_t{1} << 46;
  uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&hash](uint8_t byte) { hash = (hash ^ byte) * 0x100000001b3; };
  for (const char one : name) add(static_cast<uint8_t>(one));
  for (const int64_t rank : ranks) {
    for (size_t i = 0; i < sizeof rank; ++i) add(static_cast<uint8_t>(static_cast<uint64_t>(rank) >> 8 * i));
  }
  return kFirst | static_cast<int64_t>((hash ^ hash >> 46) % static_cast<uint64_t>(kFirst));
}

void GroupMembersTable::note(const GroupMembers& members) {
  for (const Entry& entry : entries_) {
    if (entry.group.load(kRelaxed) == members.group) return;
  }
  Entry& entry = entries_[noted_.fetch_add(1, kRelaxed) % kGroups];
  entry.group.store(0);
  for (auto& bits : entry.ranks) bits.store(0);
  for (const int64_t rank : members.ranks) {
    const auto place = static_cast<size_t>(rank);
    if (place < kRanks) entry.ranks[place / kBits].fetch_or(uint64_t{1} << place % kBits);
  }
  entry.group.store(members.group);
}

std::vector<GroupMembers> GroupMembersTable::read() const {
  std::vector<GroupMembers> all;
  for (const Entry& entry : entries_) {
    GroupMembers members{.group = entry.group.load(), .ranks = {}};
    if (members.group == 0) continue;
    for (size_t place = 0; place < kRanks; ++place) {
      if ((entry.ranks[place / kBits].load() >> place % kBits & 1) != 0) {
        members.ranks.push_back(static_cast<int64_t>(place));
      }
    }
    if (entry.group.load() == members.group) all.push_back(std::move(members));
  }
  std::ranges::sort(all, {}, &GroupMembers::group);
  return all;
}

}  // namespace paceline
