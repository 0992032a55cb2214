#include "paceline/storage/local/run_lock.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <limits>
#include <mutex>
#include <set>
#include <thread>

#include "paceline/core/json.h"
#include "paceline/core/posix/host_name.h"
#include "paceline/core/posix/pidfd.h"
#include "paceline/core/record.h"
#include "paceline/core/run_layout.h"
#include "paceline/storage/local/durable.h"

namespace paceline::storage {

// What the lock's file says.
#define PACELINE_LOCK_HOLDER_FIELDS(FIELD) \
  FIELD(int64_t, pid, 0)                   \
  FIELD(std::string, host, "")
PACELINE_RECORD(LockHolder, PACELINE_LOCK_HOLDER_FIELDS);

namespace {

// What a holder that has died leaves to its guardian is done in this time.
constexpr std::chrono::seconds kTidyingTime{10};
constexpr std::chrono::milliseconds kTidyingPause{5};

// The locks' descriptors: a process that the user's program forks, without exec, must not hold the lock with us. An
// flock is the open file's, which both would share, so the child closes its copies.
struct HeldFiles {
  std::mutex mutex;
  std::set<int> numbers;
};

HeldFiles& held_files() {
  static HeldFiles* held = [] {
    auto* files = new HeldFiles;  // never destroyed: forks may happen during exit()
    ::pthread_atfork([] { held_files().mutex.lock(); }, [] { held_files().mutex.unlock(); },
                     [] {
                       for (const int number : held_files().numbers) ::close(number);
                       held_files().numbers.clear();
                       held_files().mutex.unlock();
                     });
    return files;
  }();
  return *held;
}

// An empty one where nothing is known.
LockHolder holder_of(const std::string& path) {
  try {
    return decode_json(read_file(path).ValueOr("")).ValueOr(Json::object()).get<LockHolder>();
  } catch (const Json::exception&) {
    return {};
  }
}

// " by process 123 on host Y".
std::string describe(const LockHolder& holder) {
  if (holder.pid == 0) return " by another process";
  return " by process " + std::to_string(holder.pid) + " on host " + (holder.host.empty() ? "(unknown)" : holder.host);
}

bool has_died(const LockHolder& holder) {
  if (holder.pid <= 0 || holder.pid > std::numeric_limits<pid_t>::max() || holder.host != host_name()) return false;
  const auto process = open_pidfd(static_cast<pid_t>(holder.pid));
  if (!process.ok()) return true;
  pollfd end{process->get(), POLLIN, 0};  // readable also of one whose parent has not waited for it yet
  return ::poll(&end, 1, 0) == 1;
}

// False: another process holds it.
arrow::Result<bool> lock_now(const Descriptor& file, const std::string& path) {
  while (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return false;
    if (errno != EINTR) return errno_status("locking " + path);
  }
  return true;
}

}  // namespace

RunLock::RunLock(Descriptor file) : file_(std::move(file)) {
  const std::lock_guard lock(held_files().mutex);
  held_files().numbers.insert(file_.get());
}

RunLock::~RunLock() {
  if (!file_) return;
  const std::lock_guard lock(held_files().mutex);
  // In a forked child, which has closed it already, the number may be another file's.
  if (held_files().numbers.erase(file_.get()) == 0) {
    (void)file_.release();
    return;
  }
  ::flock(file_.get(), LOCK_UN);  // also while a child that was forked just now has not let go of it yet
}

arrow::Result<RunLock> RunLock::acquire(const std::string& run_folder) {
  const std::string path = run_folder + "/" + run_layout::kLock;
  Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!file) return errno_status("opening " + path);
  const auto deadline = std::chrono::steady_clock::now() + kTidyingTime;
  while (true) {
    ARROW_ASSIGN_OR_RAISE(const bool locked, lock_now(file, path));
    if (locked) break;
    const LockHolder holder = holder_of(path);
    if (!has_died(holder) || std::chrono::steady_clock::now() > deadline) {
      return arrow::Status::AlreadyExists("the run in ", run_folder, " is held", describe(holder),
                                          "; wait until it has ended, stop it with `paceline stop ", run_folder,
                                          "`, or give this run another name");
    }
    // Its guardian tidies up after it (acquire_after_death), which takes a moment. flock() cannot wait for so long
    // only.
    std::this_thread::sleep_for(kTidyingPause);
  }
  const std::string content = encode_json(LockHolder{.pid = ::getpid(), .host = host_name()}) + "\n";
  if (::ftruncate(file.get(), 0) != 0 ||
      ::pwrite(file.get(), content.data(), content.size(), 0) != static_cast<ssize_t>(content.size())) {
    return errno_status("writing " + path);
  }
  return RunLock(std::move(file));
}

arrow::Result<RunLock> RunLock::acquire_after_death(const std::string& run_folder) {
  const std::string path = run_folder + "/" + run_layout::kLock;
  Descriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!file) return errno_status("opening " + path);
  ARROW_ASSIGN_OR_RAISE(const bool locked, lock_now(file, path));
  if (!locked) return arrow::Status::AlreadyExists("another process holds the run in ", run_folder);
  return RunLock(std::move(file));
}

}  // namespace paceline::storage
