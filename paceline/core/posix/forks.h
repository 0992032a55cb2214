// What becomes of objects in a fork of the process that made them.
//
// A fork has its parent's memory as it stood, but none of its threads: a mutex that one of them held stays locked, a
// thread that is joined never ends, and what a socket sends goes out in the parent's name. So a fork does not end such
// objects, but forgets them, and begins with new ones. Their memory is not given back there.
//
// Everything here may be used by any thread.
#pragma once

#include <unistd.h>

#include <atomic>
#include <memory>
#include <utility>

namespace paceline {

/// The process in which it was made.
class HomeProcess {
 public:
  /// Whether that is this one; false in its forks.
  bool is_here() const { return ::getpid() == pid_; }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = ::getpid();
};

/// An object that ends with its last owner, but not in a fork.
template <class T, class... Arguments>
std::shared_ptr<T> make_shared_at_home(Arguments&&... arguments) {
  return std::shared_ptr<T>(new T(std::forward<Arguments>(arguments)...), [home = HomeProcess()](T* object) {
    if (home.is_here()) delete object;
  });
}

/// A value of which each process has its own: a fork begins with T().
///
///     PerProcess<std::mutex> mutex_;
///     const std::lock_guard lock(*mutex_);
template <class T>
class PerProcess {
 public:
  PerProcess() = default;
  ~PerProcess() {
    const Own* const own = own_.load();
    if (own->home.is_here()) delete own;
  }
  PerProcess(const PerProcess&) = delete;
  PerProcess& operator=(const PerProcess&) = delete;

  T& operator*() const { return own().value; }
  T* operator->() const { return &own().value; }

 private:
  struct Own {
    HomeProcess home;
    T value = T();
  };

  Own& own() const {
    Own* known = own_.load(std::memory_order_acquire);
    if (known->home.is_here()) return *known;
    auto fresh = std::make_unique<Own>();
    if (own_.compare_exchange_strong(known, fresh.get())) return *fresh.release();
    return *known;  // another thread of the fork was quicker
  }

  mutable std::atomic<Own*> own_ = new Own();
};

}  // namespace paceline
