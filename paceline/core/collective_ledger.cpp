#include "paceline/core/collective_ledger.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <optional>
#include <span>
#include <tuple>
#include <unordered_map>

namespace paceline {
namespace {

static_assert(sizeof(LedgerEntry) == 64, "an entry is a cache line");
static_assert(std::endian::native == std::endian::little, "records travel as they stand in memory");

constexpr auto kRelaxed = std::memory_order_relaxed;
// Fields are released and acquired, each by itself: whoever sees one of a later record sees that record's stamp too. On
// x86 that costs nothing; a fence, which would do, is unknown to the thread sanitizer.
constexpr auto kRelease = std::memory_order_release;
constexpr auto kAcquire = std::memory_order_acquire;

constexpr uint64_t written(int64_t position) {
  return 2 * static_cast<uint64_t>(position) + 2;
}
// Of a time that is not there yet. It says whose: another that has taken the place is not meant.
constexpr int64_t awaited(int64_t position) {
  return -1 - position;
}
constexpr int64_t ended(int64_t end_ns, bool has_failed) {
  return 2 * end_ns + (has_failed ? 1 : 0);
}

constexpr int kGroupShift = 16;
constexpr int kTypeShift = 8;
constexpr uint64_t kOnDevice = 0x80;

uint64_t packed(const CollectiveRecord& record) {
  return static_cast<uint64_t>(record.group) << kGroupShift | static_cast<uint64_t>(record.call.type) << kTypeShift |
         (record.is_on_device ? kOnDevice : 0) | static_cast<uint64_t>(record.call.collective);
}

Collective collective_in(uint64_t what) {
  return static_cast<Collective>(what & 0x7f);
}
ElementType type_in(uint64_t what) {
  return static_cast<ElementType>(what >> kTypeShift & 0xff);
}
int64_t group_in(uint64_t what) {
  return static_cast<int64_t>(what >> kGroupShift);
}

// A record in a message.
using Fields = std::array<int64_t, 8>;

// Positions are in the order of the calls: from the last on, a group's first wait so far is that of all before it.
void let_waits_hold_for_earlier(std::vector<CollectiveRecord>& records) {
  std::unordered_map<int64_t, int64_t> first_waits;  // by group
  for (size_t i = records.size(); i-- > 0;) {
    CollectiveRecord& record = records[i];
    if (record.is_on_device) continue;
    const auto [first, is_new] = first_waits.try_emplace(record.group, record.waited_ns);
    if (!is_new && record.waited_ns != 0) {
      first->second = first->second == 0 ? record.waited_ns : std::min(first->second, record.waited_ns);
    }
    // One that had ended by then was carried out without anybody.
    if (first->second == 0 || (record.has_ended() && first->second > record.end_ns)) continue;
    record.waited_ns = std::max(first->second, record.called_ns);
  }
}

}  // namespace

std::string to_string(Collective collective) {
  switch (collective) {
    case Collective::none:
      return "";
    case Collective::all_reduce:
      return "all_reduce";
    case Collective::broadcast:
      return "broadcast";
    case Collective::all_gather:
      return "all_gather";
    case Collective::reduce:
      return "reduce";
    case Collective::gather:
      return "gather";
    case Collective::scatter:
      return "scatter";
    case Collective::reduce_scatter:
      return "reduce_scatter";
    case Collective::all_to_all:
      return "all_to_all";
    case Collective::barrier:
      return "barrier";
  }
  return "collective of kind " + std::to_string(static_cast<int>(collective));
}

int64_t CollectiveLedger::call(const CollectiveRecord& record) {
  const int64_t position = next_.fetch_add(1, kRelaxed);
  LedgerEntry& entry = at(position);
  uint64_t before = entry.stamp.load(kRelaxed);
  // Of two threads that meet here, one of which has slept for a whole turn of the ring, the later record stays.
  const bool is_free = before % 2 == 0 && before < written(position);
  if (!is_free || !entry.stamp.compare_exchange_strong(before, written(position) - 1, kAcquire, kRelaxed)) return -1;
  entry.number.store(record.number, kRelease);
  entry.bytes.store(record.call.bytes, kRelease);
  entry.step.store(record.step, kRelease);
  entry.called_ns.store(record.called_ns, kRelease);
  entry.waited_ns.store(record.waited_ns != 0 ? record.waited_ns : awaited(position), kRelease);
  entry.end.store(awaited(position), kRelease);
  entry.what.store(packed(record), kRelease);
  entry.stamp.store(written(position), kRelease);
  return position;
}

bool CollectiveLedger::wait(int64_t position, int64_t waited_ns) {
  if (position < 0) return false;
  std::atomic<int64_t>& field = at(position).waited_ns;
  int64_t expected = awaited(position);
  return field.load(kRelaxed) == expected && field.compare_exchange_strong(expected, waited_ns, kRelease, kRelaxed);
}

void CollectiveLedger::end(int64_t position, int64_t end_ns, bool has_failed) {
  if (position < 0) return;
  wait(position, 0);  // who comes now has not waited
  int64_t expected = awaited(position);
  at(position).end.compare_exchange_strong(expected, ended(end_ns, has_failed), kRelease, kRelaxed);
}

// Of two who have taken the same place, the stamp says whose it is; one may come between for a moment.
void CollectiveLedger::end_carried_out(int64_t position, int64_t start_ns, int64_t end_ns) {
  if (position < 0) return;
  LedgerEntry& entry = at(position);
  int64_t waited_ns = entry.waited_ns.load(kRelaxed);
  if (entry.stamp.load(kAcquire) == written(position)) {
    entry.waited_ns.compare_exchange_strong(waited_ns, start_ns, kRelease, kRelaxed);
  }
  end(position, end_ns);
}

std::vector<CollectiveRecord> CollectiveLedger::read() const {
  std::vector<CollectiveRecord> records;
  const int64_t first = first_.load();
  for (const LedgerEntry& entry : entries_) {
    const uint64_t stamp = entry.stamp.load(kAcquire);
    if (stamp == 0 || stamp % 2 != 0) continue;
    CollectiveRecord record{.position = static_cast<int64_t>(stamp / 2) - 1};
    record.number = entry.number.load(kAcquire);
    record.call.bytes = entry.bytes.load(kAcquire);
    record.step = entry.step.load(kAcquire);
    record.called_ns = entry.called_ns.load(kAcquire);
    const int64_t waited_ns = entry.waited_ns.load(kAcquire);
    const int64_t end = entry.end.load(kAcquire);
    const uint64_t what = entry.what.load(kAcquire);
    if (entry.stamp.load(kRelaxed) != stamp || record.position < first) continue;
    record.waited_ns = std::max<int64_t>(waited_ns, 0);
    record.end_ns = end < 0 ? 0 : end / 2;
    record.has_failed = end >= 0 && end % 2 != 0;
    record.call.collective = collective_in(what);
    record.call.type = type_in(what);
    record.group = group_in(what);
    record.is_on_device = (what & kOnDevice) != 0;
    records.push_back(record);
  }
  std::ranges::sort(records, {}, &CollectiveRecord::position);
  let_waits_hold_for_earlier(records);
  return records;
}

const std::vector<int64_t>* LedgerReading::ranks_of(int64_t group) const {
  const auto found = std::ranges::find(groups, group, &GroupMembers::group);
  return found == groups.end() ? nullptr : &found->ranks;
}

// Numbers of 64 bits: the time, how many groups there are, of each its number, how many ranks it has and these, and the
// records.
std::string encode_reading(const LedgerReading& reading) {
  std::vector<int64_t> numbers{reading.taken_ns, std::ssize(reading.groups)};
  for (const GroupMembers& members : reading.groups) {
    numbers.insert(numbers.end(), {members.group, std::ssize(members.ranks)});
    numbers.insert(numbers.end(), members.ranks.begin(), members.ranks.end());
  }
  for (const CollectiveRecord& record : reading.records) {
    const Fields fields{record.position,
                        record.number,
                        record.call.bytes,
                        record.step,
                        record.called_ns,
                        record.waited_ns,
                        ended(record.end_ns, record.has_failed),
                        static_cast<int64_t>(packed(record))};
    numbers.insert(numbers.end(), fields.begin(), fields.end());
  }
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(int64_t)};
}

arrow::Result<LedgerReading> decode_reading(std::string_view bytes) {
  const auto broken = [&bytes] {
    return arrow::Status::Invalid("records of collectives end in the midst of one: got ", bytes.size(), " bytes");
  };
  if (bytes.empty() || bytes.size() % sizeof(int64_t) != 0) return broken();
  std::vector<int64_t> numbers(bytes.size() / sizeof(int64_t));
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  std::span<const int64_t> rest = numbers;
  const auto take = [&rest](int64_t count) -> std::optional<std::span<const int64_t>> {
    if (count < 0 || count > std::ssize(rest)) return std::nullopt;
    const auto taken = rest.first(static_cast<size_t>(count));
    rest = rest.subspan(static_cast<size_t>(count));
    return taken;
  };
  const auto head = take(2);
  if (!head) return broken();
  LedgerReading reading{.taken_ns = (*head)[0], .groups = {}, .records = {}};
  for (int64_t group = 0; group < (*head)[1]; ++group) {
    const auto of_group = take(2);
    if (!of_group) return broken();
    const auto ranks = take((*of_group)[1]);
    if (!ranks) return broken();
    reading.groups.push_back({.group = (*of_group)[0], .ranks = {ranks->begin(), ranks->end()}});
  }
  if (rest.size() % std::tuple_size_v<Fields> != 0) return broken();
  reading.records.reserve(rest.size() / std::tuple_size_v<Fields>);
  while (!rest.empty()) {
    const auto fields = *take(std::tuple_size_v<Fields>);
    const auto what = static_cast<uint64_t>(fields[7]);
    reading.records.push_back({.position = fields[0],
                               .group = group_in(what),
                               .number = fields[1],
                               .call = {.collective = collective_in(what), .type = type_in(what), .bytes = fields[2]},
                               .step = fields[3],
                               .called_ns = fields[4],
                               .waited_ns = fields[5],
                               .end_ns = fields[6] / 2,
                               .has_failed = fields[6] % 2 != 0,
                               .is_on_device = (what & kOnDevice) != 0});
  }
  return reading;
}

}  // namespace paceline
