#include "paceline/core/posix/connections_of_forks.h"

#include <pthread.h>
#include <unistd.h>

#include <utility>

namespace paceline {

ConnectionsOfForks& ConnectionsOfForks::instance() {
  static auto* const connections = new ConnectionsOfForks();  // detached threads outlast the statics
  return *connections;
}

ConnectionsOfForks::ConnectionsOfForks() {
  ::pthread_atfork([] { instance().mutex_.lock(); }, [] { instance().mutex_.unlock(); },
                   [] {
                     for (const int descriptor : std::exchange(instance().descriptors_, {})) ::close(descriptor);
                     instance().mutex_.unlock();
                   });
}

void ConnectionsOfForks::add(int descriptor) {
  const std::lock_guard lock(mutex_);
  descriptors_.push_back(descriptor);
}

void ConnectionsOfForks::remove(int descriptor) {
  const std::lock_guard lock(mutex_);
  std::erase(descriptors_, descriptor);
}

}  // namespace paceline
