// Which errors of an object store pass by themselves, and what a user can do about the others. Pure functions.
#pragma once

#include <arrow/status.h>

#include <string>
#include <string_view>

namespace paceline::storage {

/// Whether the same call may succeed later: throttling, server errors (500, 503), dropped connections, timeouts. Not:
/// missing buckets and permissions, full disks and all other errors of this machine.
bool is_transient(const arrow::Status& status);

/// "; make the bucket, or …" for errors with a known remedy, else "". `credentials`: where this store takes them from.
std::string remedy(const arrow::Status& status, std::string_view credentials);

}  // namespace paceline::storage
