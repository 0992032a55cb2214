#include "paceline/storage/local/watch.h"

#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace paceline::storage {

arrow::Result<Watch> Watch::create() {
  Descriptor events(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  if (events) return Watch(std::move(events));
  if (errno == EMFILE) {
    return arrow::Status::IOError(
        "no file can be watched: this user has as many watchers as fs.inotify.max_user_instances allows; raise it "
        "(sysctl), or follow without -f");
  }
  return errno_status("watching files");
}

arrow::Status Watch::add(const std::string& path) {
  constexpr uint32_t kChanges = IN_MODIFY | IN_CREATE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_DELETE_SELF;
  if (::inotify_add_watch(events_.get(), path.c_str(), kChanges) < 0) return errno_status("watching " + path);
  return arrow::Status::OK();
}

void Watch::clear() {
  std::array<char, 4096> events;
  while (::read(events_.get(), events.data(), events.size()) > 0) {
  }
}

}  // namespace paceline::storage
