#include "paceline/data/function/forked_processes.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <sstream>

#include "paceline/core/notice.h"
#include "paceline/core/posix/kernel_file.h"

namespace paceline::data {

class ForkedProcesses::Process : public FunctionProcess {
 public:
  Process(std::shared_ptr<Connection> server, pid_t pid, std::vector<Descriptor> descriptors)
      : server_(std::move(server)),
        pid_(pid),
        socket_(std::move(descriptors[0])),
        pidfd_(std::move(descriptors[1])),
        end_(std::move(descriptors[2])) {}
  ~Process() override { (void)server_->socket.send(rpc::pack(EndFunctionProcess{pid_})); }

  pid_t pid() const override { return pid_; }
  Descriptor take_socket() override { return std::move(socket_); }
  void kill() override { ::syscall(SYS_pidfd_send_signal, pidfd_.get(), SIGKILL, nullptr, 0); }
  void show_stack() override { ::syscall(SYS_pidfd_send_signal, pidfd_.get(), SIGUSR2, nullptr, 0); }

  std::optional<ExitStatus> wait() override {
    int status = 0;
    ssize_t got = 0;
    do {
      got = ::read(end_.get(), &status, sizeof status);
    } while (got < 0 && errno == EINTR);
    if (got != sizeof status) return std::nullopt;  // the server has ended before
    return exit_status_from_wait(status);
  }

  int64_t memory() const override {
    std::istringstream pages(read_kernel_file("/proc/" + std::to_string(pid_) + "/statm"));
    int64_t all = 0;
    int64_t resident = 0;
    int64_t shared = 0;
    pages >> all >> resident >> shared;
    return (resident - shared) * ::sysconf(_SC_PAGESIZE);
  }

 private:
  const std::shared_ptr<Connection> server_;
  const pid_t pid_;
  Descriptor socket_;
  const Descriptor pidfd_;
  const Descriptor end_;
};

ForkedProcesses::ForkedProcesses(Descriptor server, Begin begin, std::chrono::milliseconds patience)
    : begin_(std::move(begin)), patience_(patience), connection_(std::make_shared<Connection>(std::move(server))) {}

// Without the mutex, which a thread may have that is not there.
void ForkedProcesses::let_go_in_fork() {
  const Descriptor nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  ::dup3(nothing.get(), connection_->socket.descriptor(), O_CLOEXEC);
}

void ForkedProcesses::end() {
  const std::lock_guard lock(mutex_);
  has_ended_ = true;
  connection_->socket.shut_down();
}

std::shared_ptr<ForkedProcesses::Connection> ForkedProcesses::connection() const {
  const std::lock_guard lock(mutex_);
  return connection_;
}

arrow::Status ForkedProcesses::begin_again() {
  const auto gone = arrow::Status::IOError("the process from which those that call functions are forked has ended");
  {
    const std::lock_guard lock(mutex_);
    if (has_ended_) return gone;
  }
  ARROW_ASSIGN_OR_RAISE(Descriptor server, begin_());
  auto connection = std::make_shared<Connection>(std::move(server));
  const std::lock_guard lock(mutex_);
  if (has_ended_) return gone;
  connection_ = std::move(connection);
  return arrow::Status::OK();
}

arrow::Result<rpc::Envelope> ForkedProcesses::ask(Connection& server,
                                                  const std::map<std::string, std::string>& variables) const {
  ARROW_RETURN_NOT_OK(server.socket.send(rpc::pack(ForkFunctionProcess{variables})));
  // It imports what functions need before its first answer.
  ARROW_ASSIGN_OR_RAISE(const bool is_there, server.socket.wait(patience_));
  if (!is_there) {
    notice("the process from which those that call functions of datasets are forked has not answered for " +
           std::to_string(patience_.count() / 1000) +
           " s, and is waited for: it imports what the functions need, or is " + "stopped");
  }
  ARROW_ASSIGN_OR_RAISE(auto answer, server.socket.receive());
  if (!answer) return arrow::Status::IOError("it has closed the connection");
  return *std::move(answer);
}

arrow::Result<std::unique_ptr<FunctionProcess>> ForkedProcesses::start(
    const std::map<std::string, std::string>& variables) {
  const std::lock_guard lock(starting_);
  auto answer = ask(*connection(), variables);
  if (!answer.ok()) {
    ARROW_RETURN_NOT_OK(begin_again());
    answer = ask(*connection(), variables);
  }
  if (!answer.ok()) {
    return arrow::Status::IOError("the process from which those that call functions are forked has ended, and another ",
                                  "one too: ", answer.status().message(), "; what it wrote to standard error says why");
  }
  ARROW_ASSIGN_OR_RAISE(const auto forked, rpc::unpack<FunctionProcessForked>(*answer));
  if (answer->descriptors.size() == 3) {
    return std::make_unique<Process>(connection(), static_cast<pid_t>(forked.pid), std::move(answer->descriptors));
  }
  return arrow::Status::IOError("a process that calls functions cannot be forked: ", forked.error);
}

}  // namespace paceline::data
