#include "paceline/core/group_members.h"

#include <algorithm>
#include <utility>

namespace paceline {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr size_t kBits = 64;

}  // namespace

int64_t number_of_group(std::string_view name, const std::vector<int64_t>& ranks) {
  uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&hash](uint8_t byte) { hash = (hash ^ byte) * 0x100000001b3; };
  for (const char one : name) add(static_cast<uint8_t>(one));
  for (const int64_t rank : ranks) {
    for (size_t i = 0; i < sizeof rank; ++i) add(static_cast<uint8_t>(static_cast<uint64_t>(rank) >> 8 * i));
  }
  constexpr auto kOthers = static_cast<uint64_t>(kFirstGroupOfSome) - 1;
  return kFirstGroupOfSome + 1 + static_cast<int64_t>((hash ^ hash >> 46) % kOthers);
}

std::optional<size_t> GroupMembersTable::note(const GroupMembers& members) {
  const auto is_told = [](int64_t rank) { return rank >= 0 && rank < static_cast<int64_t>(kRanks); };
  if (members.ranks.empty() || !std::ranges::all_of(members.ranks, is_told)) return std::nullopt;
  Entry* first = nullptr;
  for (Entry& entry : entries_) {
    if (!entry.is_used && (first == nullptr || entry.turn < first->turn)) first = &entry;
  }
  if (first == nullptr) return std::nullopt;
  first->group.store(0);
  first->is_used.store(true);
  first->turn.store(turns_.fetch_add(1, kRelaxed) + 1);
  for (auto& bits : first->ranks) bits.store(0);
  for (const int64_t rank : members.ranks) {
    const auto place = static_cast<size_t>(rank);
    first->ranks[place / kBits].fetch_or(uint64_t{1} << place % kBits);
  }
  first->group.store(members.group);
  return static_cast<size_t>(first - entries_.data());
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
    if (entry.group.load() == members.group && !members.ranks.empty()) all.push_back(std::move(members));
  }
  std::ranges::sort(all, {}, &GroupMembers::group);
  return all;
}

}  // namespace paceline
