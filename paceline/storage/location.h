// Locations: where a folder is, as one text: an absolute local path, or the URI of an object store such as
// "s3://bucket/runs?region=eu-west-1". Pure functions, except that relative paths and "~" are resolved.
#pragma once

#include <arrow/result.h>

#include <string>
#include <string_view>

namespace paceline::storage {

/// A location from what a user wrote: local as resolve_folder() (local/durable.h) has it, or that of an object store
/// (objects/scheme.h) with a bucket. Invalid for other schemes and for an object store without a bucket. Without a
/// trailing slash.
arrow::Result<std::string> resolve_location(std::string_view text, const std::string& directory);

/// Whether the location is an object store's. "file://…" is local.
bool is_uri(std::string_view location);
/// "run/checkpoint_000042" below the location: before the options of a URI, and escaped there.
std::string join(const std::string& location, const std::string& name);
/// The location's last part, without options and escapes.
std::string last_part(const std::string& location);
/// For messages, logs and names of folders: without keys and passwords.
std::string without_secrets(const std::string& location);

}  // namespace paceline::storage
