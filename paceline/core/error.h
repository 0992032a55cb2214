// The errors that users of the public API see: paceline::Error and the classes derived from it.
//
// Inside the control plane expected failures are arrow::Status values; only the public API turns them into exceptions.
// A message says what happened, on which rank and node, what was wanted and what was found, and what to do next.
#pragma once

#include <arrow/result.h>
#include <arrow/status.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace paceline {

/// Base of everything that Paceline throws.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A setting has a value that is not allowed, or a configuration value is missing or has another type.
class ConfigError : public Error {
 public:
  using Error::Error;
};

/// A function was called where it has no meaning, such as report() outside a worker.
class UsageError : public Error {
 public:
  using Error::Error;
};

/// A file or folder could not be read or written, or does not hold what it should.
class StorageError : public Error {
 public:
  using Error::Error;
};

/// Why a collective failed.
enum class CollectiveCause {
  this_rank,   ///< what this rank asked for cannot be done
  other_rank,  ///< another rank did not come, went away or is late, as far as the backend can tell
  stopped      ///< this rank was told to stop, and left the collective
};

/// The workers could not agree: a collective failed or timed out, or ranks differ where they must not.
class CollectiveError : public Error {
 public:
  /// `message`: operation and rank, wanted and got.
  explicit CollectiveError(const std::string& message, CollectiveCause cause = CollectiveCause::this_rank)
      : Error(message), cause_(cause) {}

  /// Which rank caused it, as far as this rank can tell.
  CollectiveCause cause() const noexcept { return cause_; }

 private:
  CollectiveCause cause_;
};

/// Throws the kind of Error that fits `status` (ConfigError for Invalid, StorageError for IOError, …); does nothing if
/// it is ok.
void throw_if_error(const arrow::Status& status);

/// The value of `result`, or throws as throw_if_error().
template <class T>
T value_or_throw(arrow::Result<T> result) {
  throw_if_error(result.status());
  return std::move(result).ValueUnsafe();
}

}  // namespace paceline
