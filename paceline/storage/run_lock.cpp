#include "paceline/storage/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "paceline/core/json.h"
#include "paceline/storage/local.h"

namespace paceline::storage {
namespace {

std::string host_name() {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return name;
}

// " by process 123 on host Y", or nothing where the file does not say.
std::string holder(const std::string& path) {
  const auto text = read_file(path);
  const auto json = text.ok() ? decode_json(*text) : arrow::Result<Json>(text.status());
  if (!json.ok() || !json->is_object()) return " by another process";
  return " by process " + json->value("pid", Json()).dump() + " on host " +
         json->value("host", std::string("(unknown)"));
}

}  // namespace

arrow::Result<RunLock> RunLock::acquire(const std::string& run_folder) {
  const std::string path = run_folder + "/run.lock";
  Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!file) return errno_status("opening " + path);
  while (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) return errno_status("locking " + path);
    return arrow::Status::AlreadyExists("the run in ", run_folder, " is held", holder(path),
                                        "; wait until it has ended, stop it with `paceline stop ", run_folder,
                                        "`, or give this run another name");
  }
  const std::string content = encode_json({{"pid", ::getpid()}, {"host", host_name()}}) + "\n";
  if (::ftruncate(file.get(), 0) != 0 ||
      ::pwrite(file.get(), content.data(), content.size(), 0) != static_cast<ssize_t>(content.size())) {
    return errno_status("writing " + path);
  }
  return RunLock(std::move(file));
}

}  // namespace paceline::storage
