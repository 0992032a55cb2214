// What stands in a file of PyTorch's flight recorder, as of torch.distributed.flight_recorder in version 2.10: a
// pickled dict of "version", "pg_config", "pg_status" and "entries". Further fields are ours; the tools ignore them.
//
// The tools know three states: "scheduled" is called, "started" waited for, "completed" ended well. One that fails
// stays "started" there, and is retired; that it has failed, and when, is a field of ours.

#include <algorithm>
#include <array>
#include <exception>
#include <iterator>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "paceline/core/pickle.h"
#include "paceline/run/collectives.h"

namespace paceline::run {
namespace {

constexpr const char* kVersion = "2.10";
// The tools take only names of backends that they know.
constexpr std::string_view kOnProcessor = "gloo:";
constexpr std::string_view kOnDevice = "nccl:";

constexpr std::array kTypes = {
    ElementType::none,    ElementType::float32,   ElementType::float64,   ElementType::float16, ElementType::bfloat16,
    ElementType::int8,    ElementType::uint8,     ElementType::int16,     ElementType::int32,   ElementType::int64,
    ElementType::boolean, ElementType::complex64, ElementType::complex128};
constexpr std::array kCollectives = {Collective::all_reduce,     Collective::broadcast,  Collective::all_gather,
                                     Collective::reduce,         Collective::gather,     Collective::scatter,
                                     Collective::reduce_scatter, Collective::all_to_all, Collective::barrier};

// As c10::toString() has them.
const char* torch_name(ElementType type) {
  switch (type) {
    case ElementType::none:
      return "Undefined";
    case ElementType::float32:
      return "Float";
    case ElementType::float64:
      return "Double";
    case ElementType::float16:
      return "Half";
    case ElementType::bfloat16:
      return "BFloat16";
    case ElementType::int8:
      return "Char";
    case ElementType::uint8:
      return "Byte";
    case ElementType::int16:
      return "Short";
    case ElementType::int32:
      return "Int";
    case ElementType::int64:
      return "Long";
    case ElementType::boolean:
      return "Bool";
    case ElementType::complex64:
      return "ComplexFloat";
    case ElementType::complex128:
      return "ComplexDouble";
  }
  return "Undefined";
}

struct Elements {
  int64_t input = 0, output = 0;
};

// Of this rank; the ledger knows the bytes of the whole.
Elements elements_of(const CollectiveCall& call, int64_t world_size) {
  const int64_t whole = call.bytes / static_cast<int64_t>(size_of(call.type));
  const int64_t part = whole / world_size;
  switch (call.collective) {
    case Collective::all_gather:
    case Collective::gather:
      return {part, whole};
    case Collective::reduce_scatter:
    case Collective::scatter:
      return {whole, part};
    default:
      return {whole, whole};
  }
}

class RecordingWriter {
 public:
  std::string write(const KeptCollectives& kept) {
    out_.begin_dict();
    field("version", kVersion);
    field("rank", kept.rank);
    field("world_size", kept.world_size);
    field("time_taken_ns", kept.reading.taken_ns);
    truth("ended", kept.has_ended);
    std::vector<int64_t> all(static_cast<size_t>(kept.world_size));
    std::iota(all.begin(), all.end(), 0);
    const std::vector<int64_t> own{kept.rank};  // of a group of which no other is known to be in it
    std::map<int64_t, Status> groups;
    for (const CollectiveRecord& record : kept.reading.records) note(groups[record.group], record);
    out_.text("pg_config");
    out_.begin_dict();
    for (const auto& [group, status] : groups) {
      out_.text(std::to_string(group));
      out_.begin_dict();
      field("name", std::to_string(group));
      const std::vector<int64_t>* const ranks = kept.reading.ranks_of(group);
      field("desc", description_of(group, ranks));
      field("ranks", Json(ranks != nullptr ? *ranks : group < kFirstGroupOfSome ? all : own).dump());
      truth("of_some", ranks != nullptr);
      out_.end_dict();
    }
    out_.end_dict();
    out_.text("pg_status");
    out_.begin_dict();
    for (const auto& [group, status] : groups) {
      out_.text(std::to_string(group));
      out_.begin_dict();
      field("last_enqueued_collective", status.called);
      field("last_started_collective", status.started);
      field("last_completed_collective", status.completed);
      out_.end_dict();
    }
    out_.end_dict();
    out_.text("entries");
    out_.begin_list();
    for (const CollectiveRecord& record : kept.reading.records) entry(record, kept);
    out_.end_list();
    out_.end_dict();
    return out_.finish();
  }

 private:
  struct Status {
    int64_t called = 0, started = 0, completed = 0;
  };
  static void note(Status& status, const CollectiveRecord& record) {
    status.called = std::max(status.called, record.number);
    if (!record.is_only_called()) status.started = std::max(status.started, record.number);
    if (is_completed(record)) status.completed = std::max(status.completed, record.number);
  }
  // `ranks`: null for all, and where they are not known.
  static const char* description_of(int64_t group, const std::vector<int64_t>* ranks) {
    if (ranks != nullptr) return "group of some ranks";
    return group < kFirstGroupOfSome ? "group of all ranks" : "group of ranks that are not known";
  }
  // 1 where it is not known: then a part is shown as the whole.
  static int64_t size_of_group(const KeptCollectives& kept, int64_t group, const std::vector<int64_t>* ranks) {
    if (ranks != nullptr) return std::max<int64_t>(std::ssize(*ranks), 1);
    return group < kFirstGroupOfSome ? std::max<int64_t>(kept.world_size, 1) : 1;
  }
  static bool is_completed(const CollectiveRecord& record) { return record.has_ended() && !record.has_failed; }
  static const char* state_of(const CollectiveRecord& record) {
    return is_completed(record) ? "completed" : record.is_only_called() ? "scheduled" : "started";
  }

  void field(const char* name, std::string_view text) {
    out_.text(name);
    out_.text(text);
  }
  void field(const char* name, int64_t number) {
    out_.text(name);
    out_.integer(number);
  }
  void time(const char* name, int64_t nanoseconds) {
    out_.text(name);
    if (nanoseconds == 0) {
      out_.none();
    } else {
      out_.integer(nanoseconds);
    }
  }
  void truth(const char* name, bool value) {
    out_.text(name);
    out_.truth(value);
  }
  void sizes(const char* name, int64_t elements, bool has_any) {
    out_.text(name);
    out_.begin_list();
    out_.begin_list();
    if (has_any) out_.integer(elements);
    out_.end_list();
    out_.end_list();
  }
  void types(const char* name, ElementType type) {
    out_.text(name);
    out_.begin_list();
    out_.text(torch_name(type));
    out_.end_list();
  }

  void entry(const CollectiveRecord& record, const KeptCollectives& kept) {
    const std::vector<int64_t>* const ranks = kept.reading.ranks_of(record.group);
    const Elements elements = elements_of(record.call, size_of_group(kept, record.group, ranks));
    const bool has_any = record.call.collective != Collective::barrier;
    out_.begin_dict();
    field("record_id", record.position);
    field("pg_id", record.group);
    out_.text("process_group");
    out_.begin_list();
    out_.text(std::to_string(record.group));
    out_.text(description_of(record.group, ranks));
    out_.end_list();
    field("collective_seq_id", record.number);
    field("p2p_seq_id", int64_t{0});
    field("op_id", record.number);
    field("profiling_name",
          std::string(record.is_on_device ? kOnDevice : kOnProcessor) + paceline::to_string(record.call.collective));
    field("time_created_ns", record.called_ns);
    time("time_discovered_started_ns", record.waited_ns);
    time("time_discovered_completed_ns", is_completed(record) ? record.end_ns : 0);
    if (is_completed(record)) {
      out_.text("duration_ms");
      out_.real(static_cast<double>(record.end_ns - record.start_ns()) / 1e6);
    }
    time("time_failed_ns", record.has_failed ? record.end_ns : 0);
    sizes("input_sizes", elements.input, has_any);
    types("input_dtypes", record.call.type);
    sizes("output_sizes", elements.output, has_any);
    types("output_dtypes", record.call.type);
    field("state", state_of(record));
    truth("retired", record.has_ended());
    truth("is_p2p", false);
    field("step", record.step);
    field("bytes", record.call.bytes);
    out_.end_dict();
  }

  PickleWriter out_;
};

ElementType type_named(const std::string& name) {
  for (const ElementType type : kTypes) {
    if (name == torch_name(type)) return type;
  }
  return ElementType::none;
}

Collective collective_named(std::string_view name) {
  if (name.starts_with(kOnProcessor) || name.starts_with(kOnDevice)) name.remove_prefix(kOnDevice.size());
  for (const Collective collective : kCollectives) {
    if (name == paceline::to_string(collective)) return collective;
  }
  return Collective::none;
}

// Of a damaged recording they could be anything.
arrow::Result<CollectiveRecord> checked(const CollectiveRecord& record) {
  constexpr int64_t kMost = int64_t{1} << 62;
  const auto is_plausible = [](int64_t number) { return number >= 0 && number <= kMost; };
  if (is_plausible(record.call.bytes) && is_plausible(record.called_ns) && is_plausible(record.waited_ns) &&
      is_plausible(record.end_ns)) {
    return record;
  }
  return arrow::Status::Invalid("a collective has numbers that cannot be: bytes ", record.call.bytes, ", called at ",
                                record.called_ns, ", waited for from ", record.waited_ns, " and ended at ",
                                record.end_ns, " ns");
}

int64_t time_in(const Json& entry, const char* name) {
  const Json& time = entry.at(name);
  return time.is_null() ? 0 : time.get<int64_t>();
}

arrow::Result<CollectiveRecord> record_in(const Json& entry) {
  const auto& name = entry.at("profiling_name").get_ref<const std::string&>();
  const int64_t failed_ns = time_in(entry, "time_failed_ns");
  return checked({.position = entry.at("record_id").get<int64_t>(),
                  .group = entry.at("pg_id").get<int64_t>(),
                  .number = entry.at("collective_seq_id").get<int64_t>(),
                  .call = {.collective = collective_named(name),
                           .type = type_named(entry.at("input_dtypes").at(0).get<std::string>()),
                           .bytes = entry.at("bytes").get<int64_t>()},
                  .step = entry.at("step").get<int64_t>(),
                  .called_ns = entry.at("time_created_ns").get<int64_t>(),
                  .waited_ns = time_in(entry, "time_discovered_started_ns"),
                  .end_ns = failed_ns != 0 ? failed_ns : time_in(entry, "time_discovered_completed_ns"),
                  .has_failed = failed_ns != 0,
                  .is_on_device = name.starts_with(kOnDevice)});
}

}  // namespace

std::string encode_flight_recording(const KeptCollectives& kept) {
  return RecordingWriter().write(kept);
}

arrow::Result<KeptCollectives> decode_flight_recording(std::string_view bytes) {
  ARROW_ASSIGN_OR_RAISE(const Json recording, decode_pickle(bytes));
  try {
    KeptCollectives kept{
        .rank = recording.at("rank").get<int64_t>(),
        .world_size = recording.at("world_size").get<int64_t>(),
        .has_ended = recording.at("ended").get<bool>(),
        .reading = {.taken_ns = recording.at("time_taken_ns").get<int64_t>(), .groups = {}, .records = {}}};
    for (const Json& group : recording.at("pg_config")) {
      if (!group.value("of_some", false)) continue;
      kept.reading.groups.push_back({.group = std::stoll(group.at("name").get<std::string>()),
                                     .ranks = Json::parse(group.at("ranks").get<std::string>())});
    }
    for (const Json& entry : recording.at("entries")) {
      ARROW_ASSIGN_OR_RAISE(kept.reading.records.emplace_back(), record_in(entry));
    }
    return kept;
  } catch (const std::exception& problem) {
    return arrow::Status::Invalid("no flight recording of Paceline's: ", problem.what());
  }
}

}  // namespace paceline::run
