#include "paceline/track/sqlite_internal.h"

namespace paceline::track {
namespace {

arrow::Status status_of(sqlite3* connection, int code) {
  const char* file = connection == nullptr ? nullptr : ::sqlite3_db_filename(connection, "main");
  const std::string text = std::string(file == nullptr || *file == '\0' ? "the database" : file) + ": " +
                           (connection == nullptr ? ::sqlite3_errstr(code) : ::sqlite3_errmsg(connection));
  const int kind = code & 0xff;  // without the extension
  if (kind == SQLITE_CORRUPT || kind == SQLITE_NOTADB) return arrow::Status::Invalid(text);
  return arrow::Status::IOError(text);
}

}  // namespace

Statement& Statement::bind(int64_t value) {
  ::sqlite3_bind_int64(statement_.get(), ++bound_, value);
  return *this;
}

Statement& Statement::bind(double value) {
  ::sqlite3_bind_double(statement_.get(), ++bound_, value);
  return *this;
}

Statement& Statement::bind(std::string_view value) {
  ::sqlite3_bind_text64(statement_.get(), ++bound_, value.data(), value.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
  return *this;
}

Statement& Statement::bind_json(const Json& value) {
  return bind(std::string_view(encode_json(value)));
}

arrow::Result<bool> Statement::next() {
  const int code = ::sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  const arrow::Status failed =
      code == SQLITE_DONE ? arrow::Status::OK() : status_of(::sqlite3_db_handle(statement_.get()), code);
  ::sqlite3_reset(statement_.get());
  bound_ = 0;
  ARROW_RETURN_NOT_OK(failed);
  return false;
}

arrow::Status Statement::run() {
  return next().status();
}

std::string Statement::text(int column) const {
  const auto* bytes = static_cast<const char*>(::sqlite3_column_blob(statement_.get(), column));
  return bytes == nullptr ? "" : std::string(bytes, ::sqlite3_column_bytes(statement_.get(), column));
}

Json Statement::json(int column) const {
  return decode_json(text(column)).ValueOr(nullptr);
}

arrow::Result<Database> Database::open(const std::string& path, int flags, int patience_ms) {
  sqlite3* connection = nullptr;
  const int code =
      ::sqlite3_open_v2(path.c_str(), &connection, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, nullptr);
  Database database(connection);
  if (code != SQLITE_OK) return status_of(connection, code);
  ::sqlite3_busy_timeout(connection, patience_ms);
  // A pool of small blocks, which would be 48 KB for each connection of the driver's and speeds up what is not waited
  // for.
  ::sqlite3_db_config(connection, SQLITE_DBCONFIG_LOOKASIDE, nullptr, 0, 0);
  return database;
}

arrow::Result<Statement> Database::prepare(std::string_view sql) const {
  sqlite3_stmt* statement = nullptr;
  const int code =
      ::sqlite3_prepare_v2(connection_.get(), sql.data(), static_cast<int>(sql.size()), &statement, nullptr);
  if (code != SQLITE_OK) return status_of(connection_.get(), code);
  return Statement(statement);
}

arrow::Status Database::execute(const std::string& sql) const {
  const int code = ::sqlite3_exec(connection_.get(), sql.c_str(), nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? arrow::Status::OK() : status_of(connection_.get(), code);
}

arrow::Result<Transaction> Transaction::begin(const Database& database) {
  ARROW_RETURN_NOT_OK(database.execute("BEGIN IMMEDIATE"));
  return Transaction(&database);
}

Transaction::~Transaction() {
  if (database_ != nullptr) (void)database_->execute("ROLLBACK");
}

arrow::Status Transaction::commit() {
  ARROW_RETURN_NOT_OK(database_->execute("COMMIT"));
  database_ = nullptr;
  return arrow::Status::OK();
}

}  // namespace paceline::track
