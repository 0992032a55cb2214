#include "paceline/controller/dashboard_process.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "paceline/agent/guardian_messages.h"
#include "paceline/core/posix/environment.h"

namespace paceline::controller {
namespace {

// What both pipes give until a line has come from the first, or both are at their end.
struct Said {
  std::string line;
  std::string error;
};

arrow::Result<Said> listen_to(int output, int error_output, std::chrono::steady_clock::time_point deadline) {
  Said said;
  std::string text;
  std::array<pollfd, 2> pipes{pollfd{output, POLLIN, 0}, pollfd{error_output, POLLIN, 0}};
  while (pipes[0].fd >= 0 || pipes[1].fd >= 0) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return arrow::Status::IOError("it does not say within the time that it listens");
    if (::poll(pipes.data(), pipes.size(), static_cast<int>(left.count())) < 0 && errno != EINTR) {
      return errno_status("waiting for it");
    }
    for (pollfd& pipe : pipes) {
      if (pipe.fd < 0 || pipe.revents == 0) continue;
      std::array<char, 4096> part{};
      const ssize_t count = ::read(pipe.fd, part.data(), part.size());
      if (count <= 0) {
        pipe.fd = -1;
        continue;
      }
      (pipe.fd == output ? text : said.error).append(part.data(), static_cast<size_t>(count));
    }
    if (const size_t end = text.find('\n'); end != std::string::npos) {
      said.line = text.substr(0, end);
      return said;
    }
  }
  return said;
}

}  // namespace

arrow::Result<DashboardProcess> DashboardProcess::start(const agent::Guardian& guardian, const std::string& program,
                                                        std::chrono::milliseconds patience) {
  if (program.empty()) {
    return arrow::Status::Invalid("there is no program \"paceline\" in PATH, which serves the dashboard; install it");
  }
  ARROW_ASSIGN_OR_RAISE(Descriptor connected, guardian.connect());
  auto connection = std::make_unique<rpc::BlockingSocket>(std::move(connected));
  agent::Spawn spawn{.arguments = {program, "dashboard", "--for-driver"}, .environment = child_environment()};
  spawn.environment.erase(rpc::kChannelVariable);  // which the guardian sets anew
  ARROW_RETURN_NOT_OK(connection->send(rpc::pack(spawn, {.worker = WorkerId{1}})));
  ARROW_ASSIGN_OR_RAISE(auto answer, connection->receive());
  if (!answer) return arrow::Status::IOError("the guardian has ended");
  ARROW_ASSIGN_OR_RAISE(const auto spawned, rpc::unpack<agent::Spawned>(*answer));
  constexpr size_t kEnds = 4;  // pidfd, standard output and error, channel
  if (answer->descriptors.size() != kEnds) return arrow::Status::IOError(spawned.error);
  std::vector<Descriptor> ends = std::move(answer->descriptors);
  auto said = listen_to(ends[1].get(), ends[2].get(), std::chrono::steady_clock::now() + patience);
  if (!said.ok()) return said.status().WithMessage(program, " dashboard: ", said.status().message());
  if (!said->line.starts_with("http")) {
    return arrow::Status::IOError(program, " dashboard: ", said->error.empty() ? said->line : said->error);
  }
  return DashboardProcess(std::move(connection), std::move(ends), std::move(said->line));
}

// A byte is a wish for another code, which it answers with a line; it writes one too when the last code was used. Where
// it does not answer, the address is the one before.
std::string DashboardProcess::url() {
  constexpr std::chrono::seconds kPatience{2};
  if (!std::exchange(is_given_, true)) return url_;
  const char wish = '+';
  if (::send(ends_[3].get(), &wish, 1, MSG_NOSIGNAL) != 1) return url_;
  const auto said = listen_to(ends_[1].get(), -1, std::chrono::steady_clock::now() + kPatience);
  if (said.ok() && said->line.starts_with("http")) url_ = said->line;
  return url_;
}

bool DashboardProcess::is_running() const {
  pollfd pidfd{ends_.front().get(), POLLIN, 0};
  return ::poll(&pidfd, 1, 0) == 0;
}

}  // namespace paceline::controller
