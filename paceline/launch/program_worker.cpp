#include "paceline/launch/program_worker.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <memory>

#include "paceline/core/clock.h"
#include "paceline/core/posix/descriptor.h"
#include "paceline/core/posix/environment.h"
#include "paceline/launch/child.h"
#include "paceline/launch/environment.h"
#include "paceline/launch/error_file.h"
#include "paceline/launch/launch.h"
#include "paceline/launch/program_plan.h"
#include "paceline/launch/store_server.h"
#include "paceline/storage/local/durable.h"
#include "paceline/worker/connection.h"

namespace paceline::launch {
namespace {

constexpr int kCannotWork = 1;
constexpr const char* kPortKey = "paceline/master_port";
constexpr std::chrono::milliseconds kPortPatience{std::chrono::minutes(5)};

// A port on which nobody listens now.
arrow::Result<int64_t> free_port() {
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);  // on no interface; nothing listens
  socklen_t size = sizeof address;
  if (!socket || ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return errno_status("cannot find a free port for MASTER_PORT");
  }
  return ntohs(address.sin_port);
}

// Rank 0 chooses it, all learn it.
arrow::Result<int64_t> agree_on_port(const ProgramPlan& plan, Rank rank, rpc::KeyValueClient& store) {
  if (plan.master_port != 0) return plan.master_port;
  if (rank.value == 0) {
    ARROW_ASSIGN_OR_RAISE(const int64_t port, free_port());
    ARROW_RETURN_NOT_OK(store.set(kPortKey, std::to_string(port)));
    return port;
  }
  ARROW_ASSIGN_OR_RAISE(const std::string port, store.get(kPortKey, kPortPatience));
  return std::stoll(port);
}

// What is meant for the program, and comes to the whole group, passes this process by.
void ignore_signals() {
  for (int signal = 1; signal < SIGRTMIN; ++signal) {
    const bool of_a_bug = signal == SIGSEGV || signal == SIGBUS || signal == SIGILL || signal == SIGFPE ||
                          signal == SIGABRT || signal == SIGTRAP || signal == SIGSYS;
    if (!of_a_bug && signal != SIGCHLD) std::signal(signal, SIG_IGN);
  }
}

class ProgramWorker {
 public:
  ProgramWorker(worker::Connection& connection, const rpc::Strings& command)
      : connection_(connection), plan_(connection.welcome().train_loop_config.get<ProgramPlan>()) {
    plan_.command = command;
    if (!plan_.python_folder.empty()) plan_.python_folder = python_folder();
  }

  /// Returns when the program has ended with 0; ends this process otherwise.
  arrow::Status run(const worker::Assignment& place) {
    const std::shared_ptr<rpc::KeyValueClient> store = connection_.store();
    ARROW_ASSIGN_OR_RAISE(const int64_t port, agree_on_port(plan_, place.assign.rank, *store));
    ARROW_ASSIGN_OR_RAISE(server_, serve_store(store));
    const ErrorFile error_file = error_file_of(connection_.welcome().run_folder, place.identity.worker);
    const ProgramPlace at{.assign = place.assign,
                          .attempt = place.identity.attempt,
                          .threads = connection_.welcome().threads,
                          .master_port = port,
                          .store = server_->address(),
                          .error_file = error_file.path};
    connection_.progress().set_phase(Phase::program);
    const bool debugged = place.assign.rank.value == plan_.debug_rank;
    const Descriptor terminal(debugged ? ::open("/dev/tty", O_RDWR | O_CLOEXEC) : -1);
    ARROW_ASSIGN_OR_RAISE(const pid_t child,
                          start_child(program_command(plan_, place.assign),
                                      program_environment(plan_, at, child_environment()), terminal));
    connection_.on_stop([](const rpc::Stop& stop) { ::kill(0, static_cast<int>(stop.signal)); });
    end(wait_for_child(child), error_file);
    return arrow::Status::OK();
  }

 private:
  void end(const ExitStatus& status, const ErrorFile& error_file) {
    const bool stopped = connection_.stop_reason().has_value();
    connection_.on_stop({});
    if (status.exit_code == 0 && status.signal == 0 && !stopped) {
      connection_.send(rpc::pack(rpc::Finished{}));
      return;
    }
    if (stopped) {
      connection_.send(rpc::pack(rpc::Failed{.stopped = true}));
    } else if (const auto failed = parse_error_file(storage::read_file(error_file.path).ValueOr(""))) {
      connection_.send(rpc::pack(*failed));
    }
    if (error_file.is_temporary) ::unlink(error_file.path.c_str());
    (void)connection_.flush();
    end_like(status);
  }

  worker::Connection& connection_;
  ProgramPlan plan_;
  std::unique_ptr<StoreServer> server_;
};

arrow::Status work(worker::Connection& connection, const rpc::Strings& command) {
  if (connection.welcome().role != rpc::kProgramRole.name) {
    return arrow::Status::Invalid("the agent wants a ", connection.welcome().role, ", and paceline is none");
  }
  if (command.empty()) return arrow::Status::Invalid("no program stands in the command line");
  ProgramWorker worker(connection, command);
  while (true) {
    ARROW_ASSIGN_OR_RAISE(const auto place, connection.next_assignment());
    if (!place) ::_exit(0);  // not by way of destructors: a call of the store may be waiting still
    ARROW_RETURN_NOT_OK(worker.run(*place));
  }
}

}  // namespace

bool is_program_worker() {
  return worker::Connection::offered();
}

int run_program_worker(const rpc::Strings& command) {
  ignore_signals();
  const SystemClock clock;
  const auto connection = worker::Connection::connect(clock, own_versions());
  const arrow::Status status = connection.ok() ? work(**connection, command) : connection.status();
  if (connection.ok() && (*connection)->stop_reason()) {
    (*connection)->send(rpc::pack(rpc::Failed{.stopped = true}));
  } else {
    std::fprintf(stderr, "paceline: %s\n", status.message().c_str());
  }
  if (connection.ok()) (void)(*connection)->flush();
  std::fflush(nullptr);
  ::_exit(kCannotWork);
}

}  // namespace paceline::launch
