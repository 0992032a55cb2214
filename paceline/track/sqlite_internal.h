// SQLite's C interface with owners and Status. Not thread-safe: one connection, one thread at a time.
//
// Errors: Invalid for a file that is damaged or no database; IOError for all else (locked, full, read-only), with the
// path and SQLite's reason.
#pragma once

#include <arrow/result.h>
#include <sqlite3.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "paceline/core/json.h"

namespace paceline::track {

/// A prepared statement. Values are bound in order; after the last row it can be bound anew.
class Statement {
 public:
  Statement& bind(int64_t value);
  Statement& bind(double value);
  Statement& bind(std::string_view value);
  Statement& bind_json(const Json& value);

  /// The next row: false when there is none.
  arrow::Result<bool> next();
  /// For statements without rows.
  arrow::Status run();

  int64_t integer(int column) const { return ::sqlite3_column_int64(statement_.get(), column); }
  double real(int column) const { return ::sqlite3_column_double(statement_.get(), column); }
  std::string text(int column) const;
  /// Null where the text is no JSON.
  Json json(int column) const;

 private:
  friend class Database;
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const { ::sqlite3_finalize(statement); }
  };
  explicit Statement(sqlite3_stmt* statement) : statement_(statement) {}
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  int bound_ = 0;
};

class Database {
 public:
  /// `flags`: SQLite's SQLITE_OPEN_…. A lock of another process is waited for as long as `patience_ms`.
  static arrow::Result<Database> open(const std::string& path, int flags, int patience_ms);

  arrow::Result<Statement> prepare(std::string_view sql) const;
  /// Statements without parameters and rows, separated by ';'.
  arrow::Status execute(const std::string& sql) const;
  /// Whether what failed last did so because of somebody else's lock.
  bool is_busy() const { return (::sqlite3_errcode(connection_.get()) & 0xff) == SQLITE_BUSY; }

 private:
  struct Close {
    void operator()(sqlite3* connection) const { ::sqlite3_close_v2(connection); }
  };
  explicit Database(sqlite3* connection) : connection_(connection) {}
  std::unique_ptr<sqlite3, Close> connection_;
};

/// Rolls back what commit() has not made final.
class Transaction {
 public:
  /// Takes the write lock at once, so that it cannot be refused in the middle.
  static arrow::Result<Transaction> begin(const Database& database);
  Transaction(Transaction&& other) noexcept : database_(std::exchange(other.database_, nullptr)) {}
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();
  arrow::Status commit();

 private:
  explicit Transaction(const Database* database) : database_(database) {}
  const Database* database_;
};

}  // namespace paceline::track
