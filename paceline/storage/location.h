// Location: where a folder or file is, as one text: an absolute local path, or the URI of an object store such as
// "s3://bucket/runs?region=eu-west-1", which may hold keys. Pure, except that resolve_location() resolves "~",
// and resolve_here() relative paths.
#pragma once

#include <arrow/result.h>

#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace paceline::storage {

/// A place whose keys are for those who open it only. Whatever makes text of it (text(), a stream, "+", JSON) has "…"
/// in their place; they go to other processes by with_credentials(), in messages and the environment, and never to a
/// disk. A location that was read from a text without them is told apart when it is opened, which then says what is
/// missing. A value; equal are those of the same text.
///
///     const Location run("s3://KEY:SECRET@bucket/run");
///     std::cout << run;                             // s3://KEY:…@bucket/run
///     open_storage(join(run, "checkpoint_000001"));  // with the key
class Location {
 public:
  Location() = default;
  Location(std::string full);                                       // NOLINT: what a user writes is one
  Location(const char* full) : Location(std::string(full)) {}       // NOLINT: the same
  Location(std::string_view full) : Location(std::string(full)) {}  // NOLINT: the same

  /// For people and records: without keys and passwords. A local path as it is.
  const std::string& text() const { return text_; }
  /// The whole text, for what opens the location, or hands it to a process that does.
  const std::string& with_credentials() const { return full_; }
  /// Whether it was made from a text() in which "…" stands for a key.
  bool lacks_credentials() const;
  /// `message`, which may quote the location, without its keys.
  std::string redacted(std::string message) const;

  bool empty() const { return full_.empty(); }
  /// Whether it is an object store's. "file://…" is local.
  bool is_uri() const;

  friend bool operator==(const Location& a, const Location& b) { return a.text_ == b.text_; }
  friend std::string operator+(const Location& location, std::string_view text) {
    return location.text_ + std::string(text);
  }
  friend std::string operator+(std::string text, const Location& location) { return std::move(text) + location.text_; }
  friend std::ostream& operator<<(std::ostream& stream, const Location& location);
  friend void to_json(nlohmann::json& json, const Location& location);

 private:
  std::string full_;
  std::string text_;
};

/// A location from what a user wrote: local as resolve_folder() (local/durable.h) has it, or that of an object store
/// (objects/scheme.h) with a bucket. Invalid for other schemes, for an object store without a bucket, and for a key
/// with a character that must be escaped. Without a trailing slash.
arrow::Result<Location> resolve_location(std::string_view text, const std::string& directory);

/// The same of a user of this process: relative to its current directory. IOError, too, for a relative path where that
/// directory is gone.
arrow::Result<Location> resolve_here(std::string_view text);

/// Location::is_uri() of a text.
bool is_uri(std::string_view location);
/// "run/checkpoint_000042" below the location: before the options of a URI, and escaped there.
Location join(const Location& location, const std::string& name);
/// The location's last part, without options and escapes.
std::string last_part(const Location& location);

}  // namespace paceline::storage
