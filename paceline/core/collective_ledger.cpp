#include "paceline/core/collective_ledger.h"

#include <algorithm>
#include <bit>
#include <cstring>

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
constexpr int64_t under_way(int64_t position) {
  return -1 - position;
}

constexpr int kGroupShift = 16;
constexpr int kTypeShift = 8;

uint64_t packed(int64_t group, const CollectiveCall& call) {
  return static_cast<uint64_t>(group) << kGroupShift | static_cast<uint64_t>(call.type) << kTypeShift |
         static_cast<uint64_t>(call.collective);
}

Collective collective_in(uint64_t what) {
  return static_cast<Collective>(what & 0xff);
}
ElementType type_in(uint64_t what) {
  return static_cast<ElementType>(what >> kTypeShift & 0xff);
}
int64_t group_in(uint64_t what) {
  return static_cast<int64_t>(what >> kGroupShift);
}

// A record in a message.
using Fields = std::array<int64_t, 7>;

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

std::string to_string(ElementType type) {
  switch (type) {
    case ElementType::none:
      return "";
    case ElementType::float32:
      return "float32";
    case ElementType::float64:
      return "float64";
    case ElementType::float16:
      return "float16";
    case ElementType::bfloat16:
      return "bfloat16";
    case ElementType::int8:
      return "int8";
    case ElementType::uint8:
      return "uint8";
    case ElementType::int16:
      return "int16";
    case ElementType::int32:
      return "int32";
    case ElementType::int64:
      return "int64";
    case ElementType::boolean:
      return "boolean";
    case ElementType::complex64:
      return "complex64";
    case ElementType::complex128:
      return "complex128";
  }
  return "type " + std::to_string(static_cast<int>(type));
}

int64_t size_of(ElementType type) {
  switch (type) {
    case ElementType::complex128:
      return 16;
    case ElementType::float64:
    case ElementType::int64:
    case ElementType::complex64:
      return 8;
    case ElementType::float32:
    case ElementType::int32:
      return 4;
    case ElementType::float16:
    case ElementType::bfloat16:
    case ElementType::int16:
      return 2;
    default:
      return 1;
  }
}

int64_t CollectiveLedger::begin(const CollectiveRecord& record) {
  const int64_t position = next_.fetch_add(1, kRelaxed);
  LedgerEntry& entry = at(position);
  uint64_t before = entry.stamp.load(kRelaxed);
  // Of two threads that meet here, one of which has slept for a whole turn of the ring, the later record stays.
  const bool is_free = before % 2 == 0 && before < written(position);
  if (!is_free || !entry.stamp.compare_exchange_strong(before, written(position) - 1, kAcquire, kRelaxed)) return -1;
  entry.number.store(record.number, kRelease);
  entry.bytes.store(record.call.bytes, kRelease);
  entry.step.store(record.step, kRelease);
  entry.begin_ns.store(record.begin_ns, kRelease);
  entry.end_ns.store(under_way(position), kRelease);
  entry.what.store(packed(record.group, record.call), kRelease);
  entry.stamp.store(written(position), kRelease);
  return position;
}

void CollectiveLedger::end(int64_t position, int64_t end_ns) {
  if (position < 0) return;
  int64_t expected = under_way(position);
  at(position).end_ns.compare_exchange_strong(expected, end_ns, kRelease, kRelaxed);
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
    record.begin_ns = entry.begin_ns.load(kAcquire);
    const int64_t end_ns = entry.end_ns.load(kAcquire);
    const uint64_t what = entry.what.load(kAcquire);
    if (entry.stamp.load(kRelaxed) != stamp || record.position < first) continue;
    record.end_ns = end_ns < 0 ? 0 : end_ns;
    record.call.collective = collective_in(what);
    record.call.type = type_in(what);
    record.group = group_in(what);
    records.push_back(record);
  }
  std::ranges::sort(records, {}, &CollectiveRecord::position);
  return records;
}

std::string encode_records(const std::vector<CollectiveRecord>& records) {
  std::string bytes(records.size() * sizeof(Fields), '\0');
  char* to = bytes.data();
  for (const CollectiveRecord& record : records) {
    const Fields fields{record.position,
                        record.number,
                        record.call.bytes,
                        record.step,
                        record.begin_ns,
                        record.end_ns,
                        static_cast<int64_t>(packed(record.group, record.call))};
    std::memcpy(to, fields.data(), sizeof fields);
    to += sizeof fields;
  }
  return bytes;
}

arrow::Result<std::vector<CollectiveRecord>> decode_records(std::string_view bytes) {
  if (bytes.size() % sizeof(Fields) != 0) {
    return arrow::Status::Invalid("records of collectives: wanted a multiple of ", sizeof(Fields), " bytes, got ",
                                  bytes.size());
  }
  std::vector<CollectiveRecord> records;
  records.reserve(bytes.size() / sizeof(Fields));
  for (; !bytes.empty(); bytes.remove_prefix(sizeof(Fields))) {
    Fields fields;
    std::memcpy(fields.data(), bytes.data(), sizeof fields);
    const auto what = static_cast<uint64_t>(fields[6]);
    records.push_back({.position = fields[0],
                       .group = group_in(what),
                       .number = fields[1],
                       .call = {.collective = collective_in(what), .type = type_in(what), .bytes = fields[2]},
                       .step = fields[3],
                       .begin_ns = fields[4],
                       .end_ns = fields[5]});
  }
  return records;
}

}  // namespace paceline
