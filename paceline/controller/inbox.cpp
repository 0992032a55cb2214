#include "paceline/controller/inbox.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>

namespace paceline::controller {

uint64_t take_count(int event) {
  uint64_t count = 0;
  return ::read(event, &count, sizeof count) == sizeof count ? count : 0;
}

Inbox::Inbox() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void Inbox::push(Incoming incoming) {
  const std::lock_guard lock(mutex_);
  waiting_.push_back(std::move(incoming));
  if (waiting_.size() > 1) return;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(event_.get(), &one, sizeof one);
}

std::vector<Incoming> Inbox::take() {
  const std::lock_guard lock(mutex_);
  take_count(event_.get());
  return std::exchange(waiting_, {});
}

void Inbox::wait(int other, std::optional<Time> deadline, const Clock& clock) {
  std::array<pollfd, 2> events = {pollfd{event_.get(), POLLIN, 0}, pollfd{other, POLLIN, 0}};
  timespec left{};
  if (deadline) {
    const auto rest = std::max(Duration::zero(), *deadline - clock.now());
    left.tv_sec = std::chrono::duration_cast<std::chrono::seconds>(rest).count();
    left.tv_nsec = (rest % std::chrono::seconds(1)).count();
  }
  ::ppoll(events.data(), events.size(), deadline ? &left : nullptr, nullptr);
}

}  // namespace paceline::controller
