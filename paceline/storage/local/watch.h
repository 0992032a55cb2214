// Watch: reports when files change, by inotify instead of polling.
//
// On a network file system it misses changes made by other machines. Not thread-safe. Errors: IOError.
#pragma once

#include <arrow/result.h>

#include <string>

#include "paceline/core/posix/descriptor.h"

namespace paceline::storage {

class Watch {
 public:
  static arrow::Result<Watch> create();
  /// Watches a file, or a folder with the files right in it: writing, making, renaming, deleting. May be called again.
  arrow::Status add(const std::string& path);
  /// Readable when something has changed since the last clear().
  int descriptor() const { return events_.get(); }
  void clear();

 private:
  explicit Watch(Descriptor events) : events_(std::move(events)) {}
  Descriptor events_;
};

}  // namespace paceline::storage
