#include "paceline/data/function/forked_processes.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <sstream>

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

void ForkedProcesses::let_go_in_fork() {
  const Descriptor nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  ::dup3(nothing.get(), connection_->socket.descriptor(), O_CLOEXEC);
}

ForkedProcesses::ForkedProcesses(Descriptor server) : connection_(std::make_shared<Connection>(std::move(server))) {}

arrow::Result<std::unique_ptr<FunctionProcess>> ForkedProcesses::start(
    const std::map<std::string, std::string>& variables) {
  const std::lock_guard lock(connection_->mutex);
  arrow::Status status = connection_->socket.send(rpc::pack(ForkFunctionProcess{variables}));
  if (status.ok()) {
    auto answer = connection_->socket.receive();
    if (answer.ok() && *answer) return process_of(std::move(**answer));
    status = answer.status();
  }
  return arrow::Status::IOError("the process from which those that call functions are forked has ended",
                                status.ok() ? "" : ": ", status.message(),
                                "; what it wrote to standard error says why");
}

arrow::Result<std::unique_ptr<FunctionProcess>> ForkedProcesses::process_of(rpc::Envelope answer) {
  ARROW_ASSIGN_OR_RAISE(const auto forked, rpc::unpack<FunctionProcessForked>(answer));
  if (answer.descriptors.size() == 3) {
    return std::make_unique<Process>(connection_, static_cast<pid_t>(forked.pid), std::move(answer.descriptors));
  }
  return arrow::Status::IOError("a process that calls functions cannot be forked: ", forked.error);
}

}  // namespace paceline::data
