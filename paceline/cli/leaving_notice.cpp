#include "paceline/cli/leaving_notice.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "paceline/core/posix/thread.h"

namespace paceline::cli {
namespace {

// Of a signal without a value.
constexpr double kUsualSeconds = 120;

sigset_t notice() {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGUSR1);
  return signals;
}

}  // namespace

LeavingNotice::LeavingNotice() : end_(::eventfd(0, EFD_CLOEXEC)) {
  const sigset_t signals = notice();
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signals_ = Descriptor(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  thread_ = start_thread([this] { hear(); });
}

LeavingNotice::~LeavingNotice() {
  const uint64_t one = 1;
  (void)!::write(end_.get(), &one, sizeof one);
  thread_.join();
}

void LeavingNotice::tell_through(agent::Agent* agent) {
  const std::lock_guard lock(mutex_);
  agent_ = agent;
  if (agent_ == nullptr || !seconds_) return;
  agent_->announce_leaving(*seconds_);
  seconds_.reset();
}

void LeavingNotice::hear() {
  while (true) {
    pollfd events[2] = {{signals_.get(), POLLIN, 0}, {end_.get(), POLLIN, 0}};
    while (::poll(events, 2, -1) < 0 && errno == EINTR) {
    }
    if (events[1].revents != 0) return;
    signalfd_siginfo said;
    if (::read(signals_.get(), &said, sizeof said) != sizeof said) continue;
    const double seconds = said.ssi_code == SI_QUEUE && said.ssi_int > 0 ? said.ssi_int : kUsualSeconds;
    const std::lock_guard lock(mutex_);
    if (agent_ != nullptr) {
      agent_->announce_leaving(seconds);
    } else {
      seconds_ = seconds;
    }
  }
}

}  // namespace paceline::cli
