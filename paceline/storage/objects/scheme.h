// Schemes: the kinds of object store that a location can name, one row each.
//
// Everything that differs between them is in the row: what a location starts with, how messages write it, which options
// of it may be shown, where its credentials come from, how it is opened. To add one, write its opener and its row in
// scheme.cpp. Pure data; the openers are thread-safe.
#pragma once

#include <arrow/result.h>

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace arrow::fs {
class FileSystem;
}

namespace paceline::storage {

struct Scheme {
  /// What its locations start with, in lower case and without "://": the first is the one that messages use.
  std::vector<std::string_view> names;
  /// What Arrow calls the type of its file systems: "gcs"; "" where Arrow has none.
  std::string_view arrow_type;
  /// "Google Cloud Storage".
  std::string_view service;
  /// How a user writes a location: "gs://BUCKET/FOLDER".
  std::string_view written;
  /// Where credentials are taken from, for messages.
  std::string_view credentials;
  /// Options of its URIs that hold no secret. All others are taken for one.
  std::vector<std::string_view> open_options;
  /// Whether a host may follow the scheme, which may have a port; otherwise it is a bucket, which has none.
  bool has_host = false;
  /// Whether its file systems are the program's own (custom.h), which nobody can write as a URI. They may have folders,
  /// which have to be made.
  bool is_custom = false;
  /// Whether the Arrow that this was built with has it.
  bool is_built_in = false;
  /// Gives the file system, and the place of `uri` in it. Invalid or IOError for a URI that Arrow does not take.
  arrow::Result<std::shared_ptr<arrow::fs::FileSystem>> (*open)(const std::string& uri, std::string* path) = nullptr;
};

/// All there are, also those that are not built in.
std::span<const Scheme> schemes();
/// The row of a location that starts with one of its names, in any case; null for others.
const Scheme* scheme_of(std::string_view location);
/// "s3://BUCKET/FOLDER, gs://BUCKET/FOLDER or …": what a user can write, for messages.
std::string written_forms();

}  // namespace paceline::storage
