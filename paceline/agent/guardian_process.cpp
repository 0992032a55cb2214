#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "paceline/agent/fork/fork_servers_internal.h"
#include "paceline/agent/fork/worker_fork_internal.h"
#include "paceline/agent/guardian_internal.h"
#include "paceline/agent/guardian_messages.h"
#include "paceline/agent/out_of_memory_internal.h"
#include "paceline/agent/process_tree_internal.h"
#include "paceline/agent/spawn_internal.h"
#include "paceline/agent/stack_helper_internal.h"
#include "paceline/core/posix/socket_pair.h"
#include "paceline/rpc/frame.h"
#include "paceline/rpc/profile_kind.h"
#include "paceline/storage/local/durable.h"
#include "paceline/storage/local/run_lock.h"

namespace paceline::agent {
namespace {

// What a process, and what it executes, has in its environment: whose it is, wherever it moves.
constexpr const char* kProcessVariable = "PACELINE_PROCESS";

std::string mark_of(int64_t connection, const Identity& identity) {
  return std::to_string(::getpid()) + ":" + std::to_string(connection) + ":" + std::to_string(identity.worker.value);
}

class GuardianProcess {
 public:
  GuardianProcess(Descriptor lease, Descriptor driver, Descriptor child_signals, bool forks_workers)
      : lease_(std::move(lease)),
        driver_(std::move(driver)),
        child_signals_(std::move(child_signals)),
        forks_workers_(forks_workers) {}

  /// Serves until the lease ends, then ends everything below: nullopt. Or this is a process that it has forked: what it
  /// is to become, once this object, with all that the guardian has open, is gone.
  std::optional<ForkedProcess> run();

 private:
  struct Connection {
    Descriptor socket;
    rpc::FrameReader reader;
    int64_t sequence = 0;
  };
  struct Child {
    int64_t connection = 0;
    Identity identity;
    bool killed = false;  // by us
  };
  struct Ended {
    Child child;
    ExitStatus status;
    MemoryFacts memory;
  };

  /// Waits for the next events and handles them; false when the lease has ended, and in a process that was forked.
  bool serve();
  bool accept();
  void receive(int64_t connection);
  void close(int64_t connection);
  void handle(int64_t connection, rpc::Envelope& envelope);
  void start(int64_t connection, const rpc::Envelope& envelope);
  void fork_worker(const ForkOrder& order, const Spawn& request);
  void tell_started(const ForkOrder& order, arrow::Result<SpawnedProcess> process);
  void kill_tree(pid_t pid, Child& child);
  void take_stacks(int64_t connection, rpc::Envelope& envelope);
  void take_profiles(int64_t connection, rpc::Envelope& envelope);
  void name_crash(rpc::Envelope& envelope);
  void send(int64_t connection, rpc::Envelope envelope);
  arrow::Status write(Connection& connection, rpc::Envelope envelope);

  void take_child_events();
  void take_end(pid_t pid);
  bool kill_orphans();
  bool comes_from_running(pid_t pid) const;
  void end_everything();
  void remove_leftovers();

  Descriptor lease_;
  Descriptor driver_;
  Descriptor child_signals_;
  const bool forks_workers_;
  std::optional<ForkedProcess> forked_;  // this is no guardian any more
  OutOfMemoryCounter out_of_memory_ = OutOfMemoryCounter::of_this_process();
  int64_t last_connection_ = 0;
  std::map<int64_t, Connection> connections_;
  std::map<int64_t, rpc::Leftovers> leftovers_;  // by connection; outlives it, because it ends before the driver does
  std::map<pid_t, Child> running_;
  std::set<pid_t> helpers_;
  std::map<int64_t, std::vector<ProfiledWorker>> profiled_;  // by connection, of whom more is to come
  ForkServers fork_servers_{[this](const ForkOrder& order, arrow::Result<SpawnedProcess> process) {
    tell_started(order, std::move(process));
  }};
  std::vector<Ended> ended_;  // reaped, but something of their trees may still be there
  std::array<std::byte, size_t{64} << 10> buffer_;
};

std::optional<ForkedProcess> GuardianProcess::run() {
  while (serve()) {
  }
  if (forked_) return std::move(forked_);
  end_everything();
  remove_leftovers();
  return std::nullopt;
}

bool GuardianProcess::serve() {
  std::vector<pollfd> events = {
      {lease_.get(), POLLIN, 0}, {driver_.get(), POLLIN, 0}, {child_signals_.get(), POLLIN, 0}};
  const std::vector<int> fork_servers = fork_servers_.descriptors();
  for (const int descriptor : fork_servers) events.push_back({descriptor, POLLIN, 0});
  std::vector<int64_t> ids;
  for (const auto& [id, connection] : connections_) {
    events.push_back({connection.socket.get(), POLLIN, 0});
    ids.push_back(id);
  }
  if (::poll(events.data(), events.size(), -1) < 0) return errno == EINTR;
  if (events[1].revents != 0) return false;
  if (events[2].revents != 0) {
    signalfd_siginfo signal;
    [[maybe_unused]] const ssize_t size = ::read(child_signals_.get(), &signal, sizeof signal);
    take_child_events();
  }
  for (size_t i = 0; i < fork_servers.size(); ++i) {
    if (events[i + 3].revents != 0) fork_servers_.receive(fork_servers[i]);
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    if (events[i + 3 + fork_servers.size()].revents != 0) receive(ids[i]);
  }
  if (forked_) return false;
  return events[0].revents == 0 || accept();
}

bool GuardianProcess::accept() {
  std::byte byte;
  auto received = receive_some(lease_.get(), {&byte, 1});
  if (!received.ok() || received->closed) return false;
  for (Descriptor& socket : received->descriptors) {
    ::fcntl(socket.get(), F_SETFL, O_NONBLOCK);
    connections_[++last_connection_].socket = std::move(socket);
  }
  return true;
}

void GuardianProcess::receive(int64_t id) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;  // closed meanwhile, because it could not be written to
  Connection& connection = found->second;
  auto received = receive_some(connection.socket.get(), buffer_);
  if (!received.ok() || received->closed) return close(id);
  const std::span<const std::byte> bytes(buffer_.data(), received->bytes);
  if (!connection.reader.feed(bytes, std::move(received->descriptors)).ok()) return close(id);
  while (connections_.count(id) != 0) {
    auto envelope = connection.reader.next();
    if (!envelope.ok()) return close(id);
    if (!envelope->has_value()) return;
    handle(id, **envelope);
  }
}

void GuardianProcess::close(int64_t id) {
  connections_.erase(id);
  profiled_.erase(id);
  for (auto& [pid, child] : running_) {
    if (child.connection == id) kill_tree(pid, child);
  }
}

void GuardianProcess::handle(int64_t connection, rpc::Envelope& envelope) {
  if (envelope.type == Spawn::kType) {
    start(connection, envelope);
  } else if (envelope.type == rpc::Leftovers::kType) {
    leftovers_[connection] = rpc::unpack<rpc::Leftovers>(envelope).ValueOr(rpc::Leftovers{});
  } else if (envelope.type == TakeStacks::kType) {
    take_stacks(connection, envelope);
  } else if (envelope.type == TakeProfiles::kType) {
    take_profiles(connection, envelope);
  } else if (envelope.type == NameCrash::kType) {
    name_crash(envelope);
  } else if (envelope.type == KillTree::kType) {
    // A process that has ended by itself before we came to kill it shall be reported as such.
    take_child_events();
    for (auto& [pid, child] : running_) {
      if (child.connection == connection && child.identity == envelope.identity) kill_tree(pid, child);
    }
  }
}

void GuardianProcess::start(int64_t connection, const rpc::Envelope& envelope) {
  if (running_.empty()) out_of_memory_.forget();
  auto request = rpc::unpack<Spawn>(envelope);
  if (!request.ok()) return tell_started({connection, envelope.identity}, request.status());
  request->environment[kProcessVariable] = mark_of(connection, envelope.identity);
  if (!request->fork_server.empty()) return fork_servers_.fork(*request, {connection, envelope.identity});
  if (request->fork) return fork_worker({connection, envelope.identity}, *request);
  tell_started({connection, envelope.identity}, spawn(*request));
}

void GuardianProcess::fork_worker(const ForkOrder& order, const Spawn& request) {
  if (!forks_workers_) return tell_started(order, arrow::Status::Invalid("this guardian can fork no workers"));
  auto forked = fork_process(request);
  if (!forked.ok()) return tell_started(order, forked.status());
  if (auto* process = std::get_if<SpawnedProcess>(&*forked)) return tell_started(order, std::move(*process));
  forked_ = std::get<ForkedProcess>(*std::move(forked));
  connections_.clear();  // nothing more is received
}

void GuardianProcess::tell_started(const ForkOrder& order, arrow::Result<SpawnedProcess> process) {
  if (!process.ok()) {
    return send(order.connection, rpc::pack(Spawned{.error = process.status().message()}, order.identity));
  }
  Child& child = running_[process->pid] = {.connection = order.connection, .identity = order.identity};
  if (connections_.count(order.connection) == 0) return kill_tree(process->pid, child);  // closed meanwhile
  rpc::Envelope reply = rpc::pack(Spawned{.pid = process->pid}, order.identity);
  reply.descriptors.push_back(std::move(process->pidfd));
  reply.descriptors.push_back(std::move(process->standard_output));
  reply.descriptors.push_back(std::move(process->standard_error));
  reply.descriptors.push_back(std::move(process->channel));
  send(order.connection, std::move(reply));
}

void GuardianProcess::kill_tree(pid_t pid, Child& child) {
  // What has left its group is killed as an orphan once `pid` itself has ended.
  child.killed = true;
  ::kill(-pid, SIGKILL);
  ::kill(pid, SIGKILL);
}

void GuardianProcess::take_stacks(int64_t connection, rpc::Envelope& envelope) {
  const auto request = rpc::unpack<TakeStacks>(envelope);
  if (!request.ok() || envelope.descriptors.empty()) return;
  std::vector<std::pair<WorkerId, pid_t>> wanted;
  for (const auto& [pid, child] : running_) {
    const bool asked = std::ranges::find(request->workers, child.identity.worker) != request->workers.end();
    if (asked && child.connection == connection) wanted.emplace_back(child.identity.worker, pid);
  }
  // One that cannot be forked: the pipe closes with nothing in it.
  const auto helper = fork_stack_helper(wanted, std::move(envelope.descriptors.front()));
  if (helper.ok()) helpers_.insert(*helper);
}

// As take_stacks(); a worker that has ended meanwhile may have left samples.
void GuardianProcess::take_profiles(int64_t connection, rpc::Envelope& envelope) {
  const auto request = rpc::unpack<TakeProfiles>(envelope);
  if (!request.ok() || (request->is_last && envelope.descriptors.empty())) return;
  Descriptor output;
  if (request->is_last) {
    output = std::move(envelope.descriptors.back());
    envelope.descriptors.pop_back();
  }
  std::map<WorkerId, pid_t> pids;
  for (const auto& [pid, child] : running_) {
    if (child.connection == connection) pids[child.identity.worker] = pid;
  }
  std::vector<ProfiledWorker>& wanted = profiled_[connection];
  auto memory = envelope.descriptors.begin();
  for (size_t i = 0; i < request->workers.size(); ++i) {
    ProfiledWorker one{.worker = request->workers[i]};
    if (i < request->sampling.size() && request->sampling[i] && memory != envelope.descriptors.end()) {
      one.memory = std::move(*memory++);
    }
    if (i < request->problems.size()) one.problem = request->problems[i];
    const auto found = pids.find(one.worker);
    if (found != pids.end()) one.pid = found->second;
    if (found != pids.end() || one.memory) wanted.push_back(std::move(one));
  }
  if (!request->is_last) return;
  std::vector<ProfiledWorker> all = std::exchange(wanted, {});
  profiled_.erase(connection);
  const auto helper = request->kind == rpc::kMemoryProfile ? fork_heap_helper(std::move(all), std::move(output))
                      : rpc::shows_waits(request->kind)
                          ? fork_wait_helper(all, request->seconds, std::move(output))
                          : fork_profile_helper(std::move(all), request->seconds, request->rate, std::move(output));
  if (helper.ok()) helpers_.insert(*helper);
}

void GuardianProcess::name_crash(rpc::Envelope& envelope) {
  if (envelope.descriptors.size() < 2) return;
  const auto helper = fork_crash_helper(std::move(envelope.descriptors[1]), std::move(envelope.descriptors[0]));
  if (helper.ok()) helpers_.insert(*helper);
}

void GuardianProcess::send(int64_t id, rpc::Envelope envelope) {
  const auto found = connections_.find(id);
  if (found != connections_.end() && !write(found->second, std::move(envelope)).ok()) close(id);
}

arrow::Status GuardianProcess::write(Connection& connection, rpc::Envelope envelope) {
  envelope.sequence = ++connection.sequence;
  ARROW_ASSIGN_OR_RAISE(const std::string frame, rpc::encode_frame_start(envelope));
  std::vector<int> descriptors;
  for (const Descriptor& descriptor : envelope.descriptors) descriptors.push_back(descriptor.get());
  std::span<const std::byte> rest = std::as_bytes(std::span(frame));
  while (!rest.empty()) {
    ARROW_ASSIGN_OR_RAISE(const size_t sent, send_some(connection.socket.get(), rest, descriptors));
    rest = rest.subspan(sent);
    if (sent > 0) {
      descriptors.clear();
      continue;
    }
    // Full: an agent that is stopped. Its driver's end still has to be noticed.
    std::array<pollfd, 2> events = {{{connection.socket.get(), POLLOUT, 0}, {driver_.get(), POLLIN, 0}}};
    if (::poll(events.data(), events.size(), -1) < 0 && errno != EINTR) return errno_status("waiting for the agent");
    if (events[1].revents != 0) return arrow::Status::IOError("the driver has ended");
  }
  return arrow::Status::OK();
}

// One SIGCHLD can stand for many events, so this takes all there are.
void GuardianProcess::take_child_events() {
  while (true) {
    siginfo_t event{};
    const int any = WEXITED | WSTOPPED | WCONTINUED;
    if (::waitid(P_ALL, 0, &event, any | WNOHANG | WNOWAIT) != 0 || event.si_pid == 0) break;
    const bool ended = event.si_code != CLD_STOPPED && event.si_code != CLD_CONTINUED;
    if (ended) {
      take_end(event.si_pid);
      continue;
    }
    ::waitid(P_PID, event.si_pid, &event, WSTOPPED | WCONTINUED | WNOHANG);
    const auto found = running_.find(event.si_pid);
    if (found == running_.end()) continue;
    const Child child = found->second;
    send(child.connection, rpc::pack(Suspended{.suspended = event.si_code == CLD_STOPPED}, child.identity));
  }
  if (ended_.empty() || kill_orphans()) return;
  for (const Ended& ended : std::exchange(ended_, {})) {
    send(ended.child.connection,
         rpc::pack(Exited{.status = ended.status, .memory = ended.memory}, ended.child.identity));
  }
}

void GuardianProcess::take_end(pid_t pid) {
  const auto found = running_.find(pid);
  helpers_.erase(pid);
  fork_servers_.note_end(pid);
  // While it is not reaped, its number, and so the group's, is nobody else's.
  if (found != running_.end()) ::kill(-pid, SIGKILL);
  int wait_status = 0;
  rusage usage{};
  if (::wait4(pid, &wait_status, 0, &usage) != pid || found == running_.end()) return;
  ExitStatus status = exit_status_from_wait(wait_status);
  if (status.signal == SIGKILL) {
    status.ended_by_paceline = found->second.killed;
    status.out_of_memory = !found->second.killed && out_of_memory_.take();
  }
  MemoryFacts memory;
  if (status.signal == SIGKILL && !status.ended_by_paceline) {
    memory = out_of_memory_.facts();
    memory.peak_bytes = int64_t{usage.ru_maxrss} * 1024;
  }
  ended_.push_back({found->second, status, std::move(memory)});
  running_.erase(found);
}

// Kills what has been re-parented to us because its parent has ended, and says whether there was any: each one's end is
// an event that brings us here again, with its own children. Spared: what belongs to the group of a living process, and
// what was executed below one: daemons of ranks outlive the end of a validation.
bool GuardianProcess::kill_orphans() {
  bool found = false;
  for (const pid_t pid : children_of(::getpid())) {
    const bool own = running_.count(pid) != 0 || helpers_.count(pid) != 0 || fork_servers_.contains(pid);
    if (own || running_.count(::getpgid(pid)) != 0 || comes_from_running(pid)) continue;
    ::kill(pid, SIGKILL);
    found = true;
  }
  return found;
}

bool GuardianProcess::comes_from_running(pid_t pid) const {
  const std::string mark = variable_of(pid, kProcessVariable);
  return !mark.empty() && std::ranges::any_of(running_, [&](const auto& one) {
    return mark_of(one.second.connection, one.second.identity) == mark;
  });
}

void GuardianProcess::end_everything() {
  for (auto& [pid, child] : running_) kill_tree(pid, child);
  while (true) {
    for (const pid_t pid : children_of(::getpid())) ::kill(pid, SIGKILL);
    if (::waitpid(-1, nullptr, 0) < 0 && errno == ECHILD) return;
  }
}

// What runs of a driver that died have left. Where another driver has the run already, it tidies up itself.
void GuardianProcess::remove_leftovers() {
  for (const auto& [connection, left] : leftovers_) {
    if (left.run_folder.empty()) continue;
    const auto lock = storage::RunLock::acquire_after_death(left.run_folder);
    if (!lock.ok()) continue;
    for (const std::string& file : left.files) {
      // A link that leads elsewhere by now is another driver's, on a machine that the lock does not reach.
      std::error_code no_link;
      const std::string target = std::filesystem::read_symlink(file, no_link);
      if (!no_link && std::ranges::find(left.files, target) == left.files.end()) continue;
      ::remove(file.c_str());
    }
    for (const std::string& folder : left.folders) {
      [[maybe_unused]] const arrow::Status removed = storage::remove_all(folder);
    }
  }
}

constexpr int kCannotBegin = 127;  // as a program that cannot be executed

// Default for what means a bug, and for children; nothing else shall end the guardian: Ctrl-C and a closed terminal
// reach it too, and its lease says when to end.
void set_signals() {
  for (int signal = 1; signal < NSIG; ++signal) {
    const bool bug = signal == SIGSEGV || signal == SIGBUS || signal == SIGILL || signal == SIGFPE ||
                     signal == SIGABRT || signal == SIGTRAP || signal == SIGSYS;
    ::signal(signal, bug || signal == SIGCHLD ? SIG_DFL : SIG_IGN);
  }
  sigset_t blocked;
  ::sigemptyset(&blocked);
  ::sigaddset(&blocked, SIGCHLD);
  ::sigprocmask(SIG_SETMASK, &blocked, nullptr);
}

// Leaves open: 0 and 1 (nothing), 2 (standard error), kLease, kDriver.
void keep_descriptors(Descriptor lease, Descriptor driver) {
  const int high_lease = ::fcntl(lease.release(), F_DUPFD_CLOEXEC, kDriver + 1);
  const int high_driver = ::fcntl(driver.release(), F_DUPFD_CLOEXEC, kDriver + 1);
  const int nothing = ::open("/dev/null", O_RDWR);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(nothing, STDOUT_FILENO);
  if (::fcntl(STDERR_FILENO, F_GETFD) < 0) ::dup2(nothing, STDERR_FILENO);
  ::dup3(high_lease, kLease, O_CLOEXEC);
  ::dup3(high_driver, kDriver, O_CLOEXEC);
  ::close_range(kDriver + 1, ~0U, 0);
}

}  // namespace

void run_guardian(Descriptor lease, Descriptor driver, const std::optional<SignalSetup>& worker_signals) {
  std::array<char, 16> program_name{};
  ::prctl(PR_GET_NAME, program_name.data());
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::prctl(PR_SET_NAME, "paceline-guard");
  ::setpgid(0, 0);
  set_signals();
  keep_descriptors(std::move(lease), std::move(driver));
  sigset_t child_signal;
  ::sigemptyset(&child_signal);
  ::sigaddset(&child_signal, SIGCHLD);
  Descriptor child_signals(::signalfd(-1, &child_signal, SFD_CLOEXEC | SFD_NONBLOCK));
  const bool forks_workers = worker_signals.has_value();
  auto forked = GuardianProcess(Descriptor(kLease), Descriptor(kDriver), std::move(child_signals), forks_workers).run();
  if (!forked) ::_exit(0);
  ::prctl(PR_SET_NAME, program_name.data());
  const arrow::Status status = forked->take_place();
  if (!status.ok()) {
    std::fprintf(stderr, "paceline: a forked worker cannot begin: %s\n", status.message().c_str());
    ::_exit(kCannotBegin);
  }
  apply(*worker_signals);
}

}  // namespace paceline::agent
