#include "paceline/controller/inbox.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "paceline/rpc/messages.h"

namespace paceline::controller {
namespace {

/// The lines of a worker's output in `incoming`; null when it is something else, or its writer waits.
const Json* output_lines(const Incoming& incoming) {
  const auto* message = std::get_if<FromAgent>(&incoming);
  if (message == nullptr || message->envelope.type != rpc::Output::kType) return nullptr;
  if (message->envelope.body.value("waits", false)) return nullptr;
  const auto lines = message->envelope.body.find("lines");
  return lines != message->envelope.body.end() && lines->is_array() ? &*lines : nullptr;
}

size_t bytes_of(const Json& lines) {
  size_t bytes = 0;
  for (const Json& line : lines) {
    bytes += sizeof(Json) + (line.is_string() ? line.get_ref<const std::string&>().size() : 0);
  }
  return bytes;
}

}  // namespace

uint64_t take_count(int event) {
  uint64_t count = 0;
  return ::read(event, &count, sizeof count) == sizeof count ? count : 0;
}

Inbox::Inbox() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void Inbox::push(Incoming incoming) {
  const std::lock_guard lock(mutex_);
  if (const Json* lines = output_lines(incoming)) {
    const size_t bytes = bytes_of(*lines);
    if (output_bytes_ > 0 && output_bytes_ + bytes > kMostOutputBytes) {
      lines_left_out_ += static_cast<int64_t>(lines->size());
      return;
    }
    output_bytes_ += bytes;
  }
  waiting_.push_back(std::move(incoming));
  if (waiting_.size() > 1) return;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(event_.get(), &one, sizeof one);
}

std::vector<Incoming> Inbox::take() {
  const std::lock_guard lock(mutex_);
  take_count(event_.get());
  if (lines_left_out_ > 0) waiting_.emplace_back(OutputLeftOut{std::exchange(lines_left_out_, 0)});
  output_bytes_ = 0;
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
