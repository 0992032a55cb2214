#include "paceline/track/run_store.h"

#include <sys/vfs.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <thread>
#include <utility>

#include "paceline/core/state_directory.h"
#include "paceline/storage/local/durable.h"
#include "paceline/track/run_store_schema_internal.h"
#include "paceline/track/sqlite_internal.h"
#include "paceline/track/status_line.h"

namespace paceline::track {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRunColumns =
    "path, name, state, since, created, opened, host, pid, attempt, world_size, report, metrics, error, journal_bytes, "
    "history_bytes, metrics_text";
constexpr int kMetricsText = 15;  // its place among them

// Several machines may write there, and they share no memory, which a write-ahead log needs.
bool is_on_network(const std::string& path) {
  constexpr std::array<uint32_t, 9> kKinds = {0x6969,     0x517b,     0xff534d42, 0xfe534d42, 0x65735546,
                                              0x0bd00bd0, 0x47504653, 0x19830326, 0x00c36400};
  struct statfs status{};
  if (::statfs(path.c_str(), &status) != 0) return false;
  return std::ranges::find(kKinds, static_cast<uint32_t>(status.f_type)) != kKinds.end();
}

// Opens a file of which SQLite is told that it does not change.
std::string uri_of(const std::string& path) {
  std::string uri = "file:";
  for (const char letter : path) {
    if (letter == '?' || letter == '#' || letter == '%') {
      uri += letter == '?' ? "%3f" : letter == '#' ? "%23" : "%25";
    } else {
      uri += letter;
    }
  }
  return uri + "?immutable=1";
}

arrow::Status with_advice(const arrow::Status& status) {
  if (status.ok()) return status;
  const char* advice = status.IsInvalid() ? "; `paceline index` makes it anew from the run folders"
                                          : "; runs do not depend on it, and `paceline index` catches up later";
  return status.WithMessage("the run store cannot be used: ", status.message(), advice);
}

// Of two that change the mode of a new file at once SQLite refuses one without waiting: either could wait for the
// other.
arrow::Status set_journal_mode(const Database& database, const std::string& mode, int patience_ms) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(patience_ms);
  while (true) {
    const arrow::Status set = database.execute("PRAGMA journal_mode = " + mode);
    if (set.ok() || !database.is_busy() || std::chrono::steady_clock::now() >= deadline) return set;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

arrow::Result<Database> make_database(const std::string& path, int patience_ms) {
  std::error_code error;
  const fs::path folder = fs::path(path).parent_path();
  if (fs::create_directories(folder, error)) fs::permissions(folder, fs::perms::owner_all, error);
  if (error) return arrow::Status::IOError("making ", folder.string(), ": ", error.message());
  ARROW_ASSIGN_OR_RAISE(Database database,
                        Database::open(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, patience_ms));
  ARROW_RETURN_NOT_OK(set_journal_mode(database, is_on_network(folder.string()) ? "DELETE" : "WAL", patience_ms));
  // It can be made again, so what a power failure takes of the last seconds need not be waited for.
  ARROW_RETURN_NOT_OK(database.execute("PRAGMA synchronous = NORMAL"));
  ARROW_RETURN_NOT_OK(migrate(database, path));
  return database;
}

arrow::Result<Database> find_database(const std::string& path) {
  // A reader of a write-ahead log writes into its index. Where it may not, nobody else writes either, or so it seems.
  const std::array<std::pair<std::string, int>, 3> kWays = {{{path, SQLITE_OPEN_READWRITE},
                                                             {path, SQLITE_OPEN_READONLY},
                                                             {uri_of(path), SQLITE_OPEN_READONLY | SQLITE_OPEN_URI}}};
  arrow::Status failed;
  for (const auto& [name, flags] : kWays) {
    auto database = Database::open(name, flags, kRunStorePatience);
    const bool may_write = name == path && flags == SQLITE_OPEN_READWRITE;
    failed = !database.ok() ? database.status() : may_write ? migrate(*database, path) : check_version(*database, path);
    if (failed.ok()) return database;
    if (failed.IsInvalid()) break;
  }
  return failed;
}

// Metrics are left out where their text, which earlier versions did not write, will do.
RunRow entry_of(const Statement& row, RunStore::Metrics wanted = RunStore::Metrics::values) {
  const bool has_values = wanted == RunStore::Metrics::values || row.text(kMetricsText).empty();
  return {.name = row.text(1),
          .path = row.text(0),
          .state = row.text(2),
          .since = row.real(3),
          .created = row.real(4),
          .opened = row.real(5),
          .host = row.text(6),
          .pid = row.integer(7),
          .attempt = row.integer(8),
          .world_size = row.integer(9),
          .report = row.integer(10),
          .metrics = has_values ? row.json(11) : Json::object(),
          .error = row.text(12),
          .journal_bytes = row.integer(13),
          .history_bytes = row.integer(14)};
}

}  // namespace

std::string run_store_path(const std::string& state_directory) {
  return state_directory + "/runs.sqlite";
}

arrow::Result<std::string> user_run_store() {
  ARROW_ASSIGN_OR_RAISE(const std::string state, state_directory());
  return run_store_path(state);
}

struct RunStore::Connection {
  Database database;

  // All that belongs to a run but its line in `runs`.
  arrow::Status erase_parts(int64_t run, bool events) const {
    for (const char* table : {"attempts", "workers", "checkpoints", "metrics", "events"}) {
      if (!events && std::string_view(table) == "events") continue;
      ARROW_ASSIGN_OR_RAISE(Statement erase, database.prepare("DELETE FROM " + std::string(table) + " WHERE run = ?"));
      ARROW_RETURN_NOT_OK(erase.bind(run).run());
    }
    return arrow::Status::OK();
  }

  // The run's id; 0 when what is there tells more already.
  arrow::Result<int64_t> put_entry(const RunRow& run) const {
    int64_t id = 0;
    ARROW_ASSIGN_OR_RAISE(
        Statement known, database.prepare("SELECT id, created, journal_bytes, history_bytes FROM runs WHERE path = ?"));
    ARROW_ASSIGN_OR_RAISE(const bool is_known, known.bind(run.path).next());
    if (is_known) {
      id = known.integer(0);
      const bool same = known.real(1) == run.created;
      const auto told = std::pair(known.integer(2), known.integer(3));
      if (same && told > std::pair(run.journal_bytes, run.history_bytes)) return 0;
      ARROW_RETURN_NOT_OK(erase_parts(id, !same));
    }
    ARROW_ASSIGN_OR_RAISE(Statement put,
                          database.prepare(std::string("INSERT OR REPLACE INTO runs (id, ") + kRunColumns +
                                           ") VALUES (nullif(?, 0), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, "
                                           "?, ?, ?, ?) RETURNING id"));
    put.bind(id).bind(run.path).bind(run.name).bind(run.state).bind(run.since).bind(run.created).bind(run.opened);
    put.bind(run.host).bind(run.pid).bind(run.attempt).bind(run.world_size).bind(run.report).bind_json(run.metrics);
    put.bind(run.error).bind(run.journal_bytes).bind(run.history_bytes).bind(metrics_text(run.metrics));
    ARROW_RETURN_NOT_OK(put.next());
    id = put.integer(0);
    ARROW_RETURN_NOT_OK(put.run());
    return id;
  }

  arrow::Status put_parts(int64_t run, const RunRecord& record) const {
    ARROW_ASSIGN_OR_RAISE(Statement attempt, database.prepare("INSERT INTO attempts VALUES (?, ?, ?, ?, ?, ?)"));
    for (const AttemptRecord& one : record.attempts) {
      attempt.bind(run).bind(one.attempt).bind(one.world_size).bind(one.start).bind(one.end).bind(one.failure);
      ARROW_RETURN_NOT_OK(attempt.run());
    }
    ARROW_ASSIGN_OR_RAISE(Statement worker, database.prepare("INSERT INTO workers VALUES (?, ?, ?, ?, ?, ?, ?)"));
    for (const auto& [id, one] : record.workers) {
      worker.bind(run).bind(id).bind(one.attempt).bind(one.rank).bind(one.node).bind(one.pid).bind(one.stage);
      ARROW_RETURN_NOT_OK(worker.run());
    }
    ARROW_ASSIGN_OR_RAISE(Statement checkpoint,
                          database.prepare("INSERT OR REPLACE INTO checkpoints VALUES (?, ?, ?, ?, ?, ?)"));
    for (const PublishedCheckpoint& one : record.checkpoints) {
      checkpoint.bind(run).bind(one.report).bind(one.name).bind_json(one.metrics).bind(one.time);
      checkpoint.bind(Json(one.status).get<std::string>());
      ARROW_RETURN_NOT_OK(checkpoint.run());
    }
    ARROW_ASSIGN_OR_RAISE(Statement metric, database.prepare("INSERT INTO metrics VALUES (?, ?, ?, ?, ?, ?)"));
    for (const auto& [name, one] : record.metrics) {
      metric.bind(run).bind(name).bind_json(one.last).bind(one.report).bind(one.time).bind_json(one.series);
      ARROW_RETURN_NOT_OK(metric.run());
    }
    return put_events(run, record.events);
  }

  arrow::Status put_events(int64_t run, const std::vector<EventRecord>& events) const {
    if (events.empty()) return arrow::Status::OK();
    ARROW_ASSIGN_OR_RAISE(Statement event, database.prepare("INSERT OR IGNORE INTO events VALUES (?, ?, ?, ?, ?)"));
    for (const EventRecord& one : events) {
      ARROW_RETURN_NOT_OK(
          event.bind(run).bind(one.sequence).bind(one.time).bind(one.event).bind_json(one.details).run());
    }
    ARROW_ASSIGN_OR_RAISE(Statement forget, database.prepare("DELETE FROM events WHERE run = ? AND sequence <= ?"));
    return forget.bind(run).bind(events.back().sequence - static_cast<int64_t>(kMostEvents)).run();
  }

  // Calls `take` with each of the run's rows in `table`, in the order of its key.
  template <class Take>
  arrow::Status each(int64_t run, const char* table, const Take& take) const {
    ARROW_ASSIGN_OR_RAISE(Statement rows,
                          database.prepare("SELECT * FROM " + std::string(table) + " WHERE run = ? ORDER BY 1, 2"));
    rows.bind(run);
    while (true) {
      ARROW_ASSIGN_OR_RAISE(const bool more, rows.next());
      if (!more) return arrow::Status::OK();
      take(rows);
    }
  }

  arrow::Status read_parts(int64_t run, RunRecord& record) const {
    ARROW_RETURN_NOT_OK(each(run, "attempts", [&](const Statement& row) {
      record.attempts.push_back({row.integer(1), row.integer(2), row.real(3), row.real(4), row.text(5)});
    }));
    ARROW_RETURN_NOT_OK(each(run, "workers", [&](const Statement& row) {
      record.workers[row.integer(1)] = {row.integer(1), row.integer(2), row.integer(3),
                                        row.text(4),    row.integer(5), row.text(6)};
    }));
    ARROW_RETURN_NOT_OK(each(run, "checkpoints", [&](const Statement& row) {
      record.checkpoints.push_back(
          {row.integer(1), row.text(2), row.json(3), row.real(4), Json(row.text(5)).get<CheckpointStatus>()});
    }));
    ARROW_RETURN_NOT_OK(each(run, "metrics", [&](const Statement& row) {
      MetricRecord metric{row.json(2), row.integer(3), row.real(4), {}};
      if (const Json series = row.json(5); series.is_object()) metric.series = series.get<Series>();
      record.metrics[row.text(1)] = std::move(metric);
    }));
    return each(run, "events", [&](const Statement& row) {
      record.events.push_back({row.integer(1), row.real(2), row.text(3), row.json(4)});
    });
  }
};

RunStore::RunStore(std::unique_ptr<Connection> connection) : connection_(std::move(connection)) {}
RunStore::RunStore(RunStore&&) noexcept = default;
RunStore& RunStore::operator=(RunStore&&) noexcept = default;
RunStore::~RunStore() = default;

arrow::Result<RunStore> RunStore::open(const std::string& path, int patience_ms) {
  auto database = make_database(path, patience_ms);
  if (!database.ok()) return with_advice(database.status());
  return RunStore(std::make_unique<Connection>(Connection{*std::move(database)}));
}

arrow::Result<RunStore> RunStore::open_for_reading(const std::string& path) {
  auto database = find_database(path);
  if (!database.ok()) return with_advice(database.status());
  // Reading through a mapping copies nothing.
  if (!is_on_network(path)) ARROW_RETURN_NOT_OK(database->execute("PRAGMA mmap_size = 268435456"));
  return RunStore(std::make_unique<Connection>(Connection{*std::move(database)}));
}

arrow::Status RunStore::put(const RunRecord& record) {
  const auto put = [&]() -> arrow::Status {
    ARROW_ASSIGN_OR_RAISE(Transaction transaction, Transaction::begin(connection_->database));
    ARROW_ASSIGN_OR_RAISE(const int64_t id, connection_->put_entry(record.run));
    if (id == 0) return arrow::Status::OK();
    ARROW_RETURN_NOT_OK(connection_->put_parts(id, record));
    return transaction.commit();
  };
  return with_advice(put());
}

arrow::Status RunStore::remove(const std::string& path) {
  const auto remove = [&]() -> arrow::Status {
    ARROW_ASSIGN_OR_RAISE(Transaction transaction, Transaction::begin(connection_->database));
    ARROW_ASSIGN_OR_RAISE(Statement erase,
                          connection_->database.prepare("DELETE FROM runs WHERE path = ? RETURNING id"));
    ARROW_ASSIGN_OR_RAISE(const bool known, erase.bind(path).next());
    if (!known) return arrow::Status::OK();
    const int64_t id = erase.integer(0);
    ARROW_RETURN_NOT_OK(erase.run());
    ARROW_RETURN_NOT_OK(connection_->erase_parts(id, true));
    return transaction.commit();
  };
  return with_advice(remove());
}

arrow::Status RunStore::visit(Metrics wanted, const std::function<bool(RunRow run, std::string metrics)>& visit) const {
  const auto read = [&]() -> arrow::Status {
    ARROW_ASSIGN_OR_RAISE(Statement row, connection_->database.prepare(std::string("SELECT ") + kRunColumns +
                                                                       " FROM runs ORDER BY opened DESC, id DESC"));
    while (true) {
      ARROW_ASSIGN_OR_RAISE(const bool more, row.next());
      if (!more) return arrow::Status::OK();
      RunRow run = entry_of(row, wanted);
      std::string metrics = row.text(kMetricsText);
      if (metrics.empty()) metrics = metrics_text(run.metrics);
      if (!visit(std::move(run), std::move(metrics))) return arrow::Status::OK();
    }
  };
  return with_advice(read());
}

arrow::Result<std::vector<RunRow>> RunStore::list() const {
  std::vector<RunRow> runs;
  ARROW_RETURN_NOT_OK(visit(Metrics::values, [&runs](RunRow run, const std::string&) {
    runs.push_back(std::move(run));
    return true;
  }));
  return runs;
}

arrow::Result<std::vector<RunRow>> RunStore::names() const {
  std::vector<RunRow> runs;
  const auto read = [&]() -> arrow::Status {
    ARROW_ASSIGN_OR_RAISE(Statement rows,
                          connection_->database.prepare("SELECT name, path FROM runs ORDER BY opened DESC, id DESC"));
    while (true) {
      ARROW_ASSIGN_OR_RAISE(const bool more, rows.next());
      if (!more) return arrow::Status::OK();
      runs.push_back({.name = rows.text(0), .path = rows.text(1)});
    }
  };
  ARROW_RETURN_NOT_OK(with_advice(read()));
  return runs;
}

arrow::Result<std::optional<RunRecord>> RunStore::find(const std::string& path) const {
  std::optional<RunRecord> record;
  const auto read = [&]() -> arrow::Status {
    ARROW_ASSIGN_OR_RAISE(Statement row, connection_->database.prepare(std::string("SELECT ") + kRunColumns +
                                                                       ", id FROM runs WHERE path = ?"));
    ARROW_ASSIGN_OR_RAISE(const bool known, row.bind(path).next());
    if (!known) return arrow::Status::OK();
    record.emplace();
    record->run = entry_of(row);
    return connection_->read_parts(row.integer(kMetricsText + 1),
                                   *record);  // under the same snapshot: `row` is still open
  };
  ARROW_RETURN_NOT_OK(with_advice(read()));
  return record;
}

arrow::Status RunStore::check() const {
  const auto look = [&]() -> arrow::Status {
    ARROW_ASSIGN_OR_RAISE(Statement result, connection_->database.prepare("PRAGMA quick_check(1)"));
    ARROW_RETURN_NOT_OK(result.next());
    if (result.text(0) == "ok") return arrow::Status::OK();
    return arrow::Status::Invalid(result.text(0));
  };
  return with_advice(look());
}

arrow::Result<std::string> set_run_store_aside(const std::string& path) {
  const std::string aside = storage::name_to_set_aside(path);
  std::error_code error;
  fs::rename(path, aside, error);
  if (error) return arrow::Status::IOError("moving ", path, " to ", aside, ": ", error.message());
  // Of the log and its index nothing else makes sense of.
  for (const char* ending : {"-wal", "-shm", "-journal"}) fs::remove(path + ending, error);
  return aside;
}

}  // namespace paceline::track
