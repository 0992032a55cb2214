#include "paceline/track/run_store_schema_internal.h"

#include <array>

#include "paceline/track/run_store.h"

namespace paceline::track {
namespace {

// kMigrations[i] makes version i + 1 of version i. One that was released is never changed.
constexpr std::array<const char*, kRunStoreVersion> kMigrations = {R"sql(
  CREATE TABLE runs (
    id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, name TEXT NOT NULL, state TEXT NOT NULL, since REAL NOT NULL,
    created REAL NOT NULL, opened REAL NOT NULL, host TEXT NOT NULL, pid INTEGER NOT NULL, attempt INTEGER NOT NULL,
    world_size INTEGER NOT NULL, report INTEGER NOT NULL, metrics TEXT NOT NULL, error TEXT NOT NULL,
    journal_bytes INTEGER NOT NULL, history_bytes INTEGER NOT NULL);
  CREATE TABLE attempts (
    run INTEGER NOT NULL, attempt INTEGER NOT NULL, world_size INTEGER NOT NULL, start REAL NOT NULL,
    end REAL NOT NULL, failure TEXT NOT NULL, PRIMARY KEY (run, attempt)) WITHOUT ROWID;
  CREATE TABLE workers (
    run INTEGER NOT NULL, worker INTEGER NOT NULL, attempt INTEGER NOT NULL, rank INTEGER NOT NULL,
    node TEXT NOT NULL, pid INTEGER NOT NULL, stage TEXT NOT NULL, PRIMARY KEY (run, worker)) WITHOUT ROWID;
  CREATE TABLE checkpoints (
    run INTEGER NOT NULL, report INTEGER NOT NULL, name TEXT NOT NULL, metrics TEXT NOT NULL, time REAL NOT NULL,
    PRIMARY KEY (run, report)) WITHOUT ROWID;
  CREATE TABLE metrics (
    run INTEGER NOT NULL, name TEXT NOT NULL, last TEXT NOT NULL, report INTEGER NOT NULL, time REAL NOT NULL,
    series TEXT NOT NULL, PRIMARY KEY (run, name)) WITHOUT ROWID;
  CREATE TABLE events (
    run INTEGER NOT NULL, sequence INTEGER NOT NULL, time REAL NOT NULL, event TEXT NOT NULL, details TEXT NOT NULL,
    PRIMARY KEY (run, sequence)) WITHOUT ROWID;
)sql",
                                                                   R"sql(
  ALTER TABLE checkpoints ADD COLUMN status TEXT NOT NULL DEFAULT 'committed';
)sql",
                                                                   R"sql(
  ALTER TABLE runs ADD COLUMN metrics_text TEXT NOT NULL DEFAULT '';
  CREATE INDEX runs_by_opened ON runs (opened);
)sql"};

arrow::Result<int64_t> version_of(const Database& database) {
  ARROW_ASSIGN_OR_RAISE(Statement statement, database.prepare("PRAGMA user_version"));
  ARROW_RETURN_NOT_OK(statement.next());
  return statement.integer(0);
}

arrow::Status refuse(const std::string& path, int64_t version) {
  return arrow::Status::Invalid("the run store ", path, " has version ", version, "; this program knows ",
                                kRunStoreVersion, ": a later Paceline wrote it");
}

}  // namespace

arrow::Status migrate(const Database& database, const std::string& path) {
  ARROW_ASSIGN_OR_RAISE(int64_t version, version_of(database));
  if (version == kRunStoreVersion) return arrow::Status::OK();
  ARROW_ASSIGN_OR_RAISE(Transaction transaction, Transaction::begin(database));
  ARROW_ASSIGN_OR_RAISE(version, version_of(database));  // another process may have been first
  if (version > kRunStoreVersion || version < 0) return refuse(path, version);
  for (; version < kRunStoreVersion; ++version) {
    ARROW_RETURN_NOT_OK(database.execute(kMigrations[static_cast<size_t>(version)]));
  }
  ARROW_RETURN_NOT_OK(database.execute("PRAGMA user_version = " + std::to_string(version)));
  return transaction.commit();
}

arrow::Status check_version(const Database& database, const std::string& path) {
  ARROW_ASSIGN_OR_RAISE(const int64_t version, version_of(database));
  return version == kRunStoreVersion ? arrow::Status::OK() : refuse(path, version);
}

}  // namespace paceline::track
