// A condition variable whose notify_all() never waits.
//
// That of glibc before 2.41 may: until each thread that was woken the time before has run, which is some milliseconds
// where the processors are busy (nptl/pthread_cond_common.c, __condvar_quiesce_and_switch_g1). For who tells waiting
// threads something between two steps of a training that is too long. Linux only: a futex that counts the calls.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>
#include <mutex>

namespace paceline {

/// As std::condition_variable is used: state that is waited for changes with a mutex held, which waiters give to
/// wait(). Any thread may call the functions. No thread may wait when it ends.
///
///     condition.wait(lock, [&] { return !queue.empty(); });  // and elsewhere, after push_back():
///     condition.notify_all();
class Condition {
 public:
  Condition() = default;
  Condition(const Condition&) = delete;
  Condition& operator=(const Condition&) = delete;

  /// Gives `lock` back until notify_all() is called, or for no reason.
  void wait(std::unique_lock<std::mutex>& lock) {
    ++waiting_;
    const uint32_t calls = calls_;
    lock.unlock();
    ::syscall(SYS_futex, &calls_, FUTEX_WAIT_PRIVATE, calls, nullptr, nullptr, 0);
    --waiting_;
    lock.lock();
  }

  template <class Predicate>
  void wait(std::unique_lock<std::mutex>& lock, Predicate is_so) {
    while (!is_so()) wait(lock);
  }

  /// Wakes all who wait.
  void notify_all() {
    ++calls_;
    if (waiting_ > 0) ::syscall(SYS_futex, &calls_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
  }

 private:
  static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t), "the kernel reads it");
  std::atomic<uint32_t> calls_ = 0;
  std::atomic<uint32_t> waiting_ = 0;
};

}  // namespace paceline
