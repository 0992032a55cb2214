#include "paceline/cli/agent_program.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>  // NOLINT(modernize-deprecated-headers): mkdtemp()
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <stop_token>
#include <thread>
#include <utility>

#include "paceline/core/posix/host_name.h"
#include "paceline/core/posix/network_interface.h"
#include "paceline/core/posix/thread.h"
#include "paceline/storage/local/run_lock.h"
#include "paceline/transport/connector.h"

namespace paceline::cli {
namespace {

using Moment = std::chrono::steady_clock::time_point;

// A folder on another machine does not tell what happens in it.
constexpr std::chrono::seconds kLookEvery{1};
// After this long it is said who does not answer.
constexpr std::chrono::seconds kSayAfter{3};
// A driver that was killed has left its file; the next may be on its way.
constexpr std::chrono::minutes kForAnother{10};

arrow::Status interrupted() {
  return arrow::Status::Cancelled("a signal came");
}

Moment now() {
  return std::chrono::steady_clock::now();
}

// Another for each file that is put there, and after a change of its rights; "" while there is none.
std::string version_of(const std::string& path) {
  struct stat facts{};
  if (::stat(path.c_str(), &facts) != 0) return "";
  return std::to_string(facts.st_dev) + " " + std::to_string(facts.st_ino) + " " +
         std::to_string(facts.st_ctim.tv_sec) + " " + std::to_string(facts.st_ctim.tv_nsec);
}

// Wakes whoever waits for its descriptor when something happens in the file's folder.
class FolderWatch {
 public:
  explicit FolderWatch(const std::string& file) : watch_(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {
    const std::filesystem::path folder = std::filesystem::absolute(file).parent_path();
    ::inotify_add_watch(watch_.get(), folder.c_str(), IN_CREATE | IN_MOVED_TO | IN_DELETE | IN_ATTRIB);
  }
  int descriptor() const { return watch_.get(); }
  void clear() const {
    char events[4096];
    while (::read(watch_.get(), events, sizeof events) > 0) {
    }
  }

 private:
  Descriptor watch_;
};

// For what the processes of one run put on this machine's disk. It is locked, so that the guardian knows that nobody
// has it any more, should this process die.
class NodeFolder {
 public:
  static arrow::Result<std::unique_ptr<NodeFolder>> make() {
    const char* const variable = std::getenv("TMPDIR");
    const std::string parent = variable == nullptr || *variable == '\0' ? "/tmp" : variable;
    std::string path = parent + "/paceline_agent_XXXXXX";
    if (::mkdtemp(path.data()) == nullptr) {
      return arrow::Status::Invalid("this node has no room for its workers' files: making a folder in ", parent,
                                    " (TMPDIR): ", std::strerror(errno),
                                    ". Set TMPDIR to a folder that can be written");
    }
    ARROW_ASSIGN_OR_RAISE(storage::RunLock lock, storage::RunLock::acquire(path));
    return std::make_unique<NodeFolder>(std::move(path), std::move(lock));
  }
  NodeFolder(std::string path, storage::RunLock lock) : path_(std::move(path)), lock_(std::move(lock)) {}
  NodeFolder(const NodeFolder&) = delete;
  NodeFolder& operator=(const NodeFolder&) = delete;
  ~NodeFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
  const storage::RunLock lock_;
};

// Work on a thread, whose end a descriptor tells.
class Background {
 public:
  template <class Work>
  explicit Background(Work work)
      : done_(::eventfd(0, EFD_CLOEXEC)), thread_(start_thread([this, work = std::move(work)]() mutable {
          work();
          const uint64_t one = 1;
          (void)!::write(done_.get(), &one, sizeof one);
        })) {}
  ~Background() { thread_.join(); }
  int descriptor() const { return done_.get(); }
  bool is_done() const {
    pollfd event{done_.get(), POLLIN, 0};
    return ::poll(&event, 1, 0) > 0;
  }

 private:
  const Descriptor done_;
  std::thread thread_;
};

}  // namespace

HeardSignals::HeardSignals(const std::vector<int>& signals) {
  sigset_t heard;
  ::sigemptyset(&heard);
  for (const int signal : signals) {
    struct sigaction action{};
    const bool is_ignored =
        signal == SIGHUP && ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
    if (!is_ignored) ::sigaddset(&heard, signal);
  }
  ::pthread_sigmask(SIG_BLOCK, &heard, nullptr);
  descriptor_ = Descriptor(::signalfd(-1, &heard, SFD_CLOEXEC | SFD_NONBLOCK));
}

int HeardSignals::wait(const std::vector<int>& others, std::optional<Moment> deadline) {
  std::vector<pollfd> events = {{descriptor_.get(), POLLIN, 0}};
  for (const int other : others) events.push_back({other, POLLIN, 0});
  while (true) {
    int milliseconds = -1;
    if (deadline) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline - now());
      milliseconds = static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1'000'000));
    }
    if (::poll(events.data(), events.size(), milliseconds) >= 0 || errno != EINTR) break;
  }
  signalfd_siginfo info;
  if (::read(descriptor_.get(), &info, sizeof info) != sizeof info) return 0;
  return last_ = static_cast<int>(info.ssi_signo);
}

// Until there is a file of another version than `known`.
arrow::Status AgentProgram::wait_for_file(const std::string& known, std::optional<Moment> deadline) {
  const FolderWatch watch(options_.token_file);
  bool told = !known.empty();
  while (true) {
    const std::string version = version_of(options_.token_file);
    if (!version.empty() && version != known) return arrow::Status::OK();
    if (!std::exchange(told, true)) {
      options_.tell("waiting for the driver to write " + options_.token_file + options_.file_hint);
    }
    if (deadline && now() >= *deadline) {
      return arrow::Status::IOError("the driver did not write ", options_.token_file, " within the time that it had");
    }
    const Moment next = now() + kLookEvery;
    if (signals_.wait({watch.descriptor()}, deadline ? std::min(next, *deadline) : next) != 0) return interrupted();
    watch.clear();
  }
}

// Gives up where a signal comes, and where another file takes the place of the one that `trust` is.
arrow::Result<std::unique_ptr<rpc::Channel>> AgentProgram::connect(const transport::TrustFile& trust,
                                                                   const std::string& name, const std::string& version,
                                                                   std::optional<Moment> deadline) {
  transport::ConnectOptions options{
      .addresses = trust.addresses,
      .run = trust.run,
      .name = name,
      .credentials = trust.credentials,
      .lease = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(trust.lease_s))};
  if (deadline) options.patience = std::max<Duration>(*deadline - now(), Duration(0));
  std::stop_source stop;
  arrow::Result<std::unique_ptr<rpc::Channel>> channel = interrupted();
  {
    const Background connecting([&] { channel = transport::connect(std::move(options), stop.get_token()); });
    const FolderWatch watch(options_.token_file);
    const Moment say_at = now() + kSayAfter;
    bool said = false;
    while (!connecting.is_done()) {
      const bool came = signals_.wait({connecting.descriptor(), watch.descriptor()}, now() + kLookEvery) != 0;
      watch.clear();
      if (came || (reads_file() && version_of(options_.token_file) != version)) stop.request_stop();
      if (said || now() < say_at || connecting.is_done()) continue;
      options_.tell("the driver does not answer at " + trust.addresses.front() + " yet; trying again");
      said = true;
    }
  }
  if (signals_.last() != 0) return interrupted();
  return channel;
}

// What standard input says of a run. "" at its end, and when a signal has come.
std::string AgentProgram::read_input() {
  while (!options_.others_follow || input_.find('\n') == std::string::npos) {
    if (signals_.wait({STDIN_FILENO}, std::nullopt) != 0) return "";
    char part[4096];
    const ssize_t size = ::read(STDIN_FILENO, part, sizeof part);
    if (size <= 0) return std::exchange(input_, {});
    input_.append(part, static_cast<size_t>(size));
  }
  const size_t end = input_.find('\n') + 1;
  const std::string line = input_.substr(0, end);
  input_.erase(0, end);
  return line;
}

arrow::Result<transport::TrustFile> AgentProgram::read_trust() {
  if (reads_file()) return transport::read_trust_file(options_.token_file);
  const std::string text = read_input();
  if (signals_.last() != 0) return interrupted();
  no_more_ = options_.others_follow && text.empty();
  if (no_more_) return arrow::Status::Cancelled("standard input is at its end");
  return transport::decode_trust_file(text);
}

arrow::Result<AgentProgram::Joined> AgentProgram::join() {
  std::optional<Moment> deadline;
  if (options_.patience) {
    deadline = now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(*options_.patience);
  }
  const std::string name = options_.agent.node.name;
  std::string known;
  arrow::Status problem;
  while (true) {
    if (reads_file()) {
      const arrow::Status there = wait_for_file(known, deadline);
      if (!there.ok()) return there.IsCancelled() || problem.ok() ? there : problem;
    }
    const std::string version = reads_file() ? version_of(options_.token_file) : "";
    if (reads_file() && version.empty()) continue;  // it has gone meanwhile
    version_ = version;
    auto trust = read_trust();
    if (reads_file() && version_of(options_.token_file) != version) continue;  // another's already
    ARROW_RETURN_NOT_OK(trust.status());
    if (!options_.join.empty()) trust->addresses = options_.join;
    auto channel = connect(*trust, name.empty() ? host_name() : name, version, deadline);
    if (channel.ok()) return Joined{*std::move(channel), host_of(trust->addresses.front())};
    if (signals_.last() != 0) return channel.status();
    if (reads_file() && version_of(options_.token_file) != version) continue;
    if (!reads_file() || options_.others_follow || (deadline && now() >= *deadline)) return channel.status();
    if (!deadline) deadline = now() + kForAnother;
    problem = channel.status();
    known = version;
    options_.tell(problem.message() + "; " + options_.token_file + " may be of an earlier run: waiting for a new one");
  }
}

// Until the run, or a signal, has ended the agent.
void AgentProgram::wait(agent::Agent& agent, int done) {
  int interrupts = 0;
  int ends = 0;
  while (true) {
    const int signal = signals_.wait({done}, std::nullopt);
    if (signal == 0) return;
    const bool interrupts_run = options_.interrupts_stop_run && signal != SIGTERM && signal != SIGHUP;
    if (interrupts_run && ++interrupts < 3) {
      agent.ask_for_stop(std::string("SIG") + ::sigabbrev_np(signal));
      continue;
    }
    const double grace_s = interrupts_run || ++ends > 1 ? 0 : options_.grace_s;
    agent.end({.grace_s = grace_s, .reason = "this node leaves the run", .signal = signal});
  }
}

bool AgentProgram::rest(std::chrono::seconds time) {
  if (reads_file()) return !wait_for_file(version_, now() + time).IsCancelled();
  return signals_.wait({}, now() + time) == 0;
}

AgentEnd AgentProgram::serve() {
  version_ = version_of(options_.token_file);
  // First: a node without room for it cannot serve, which who starts agents has to hear.
  const auto folder = NodeFolder::make();
  if (!folder.ok()) return {.status = folder.status()};
  auto joined = join();
  if (!joined.ok()) {
    const bool is_expected = signals_.last() != 0 || no_more_;
    return {
        .status = is_expected ? arrow::Status::OK() : joined.status(), .signal = signals_.last(), .no_more = no_more_};
  }
  agent::AgentOptions options = options_.agent;
  if (options.node.name.empty()) options.node.name = host_name();
  if (options.node.address.empty()) {
    const auto address = address_towards(joined->host);
    if (!address.ok()) return {.status = address.status()};
    options.node.address = *address;
  }
  options.folder = (*folder)->path();
  options.sample_interval_ms = agent::kSampleIntervalMs;
  options_.tell("node " + options.node.name + " at " + options.node.address + " has joined a run");
  auto agent = agent::start_agent(std::move(joined->channel), guardian_, std::move(options));
  if (!agent.ok()) return {.status = agent.status()};
  AgentEnd end;
  {
    const Background waiting([&] { end.status = (*agent)->wait(); });
    if (options_.leaving != nullptr) options_.leaving->tell_through(agent->get());
    wait(**agent, waiting.descriptor());
  }
  if (options_.leaving != nullptr) options_.leaving->tell_through(nullptr);
  end.dismissal = (*agent)->dismissal();
  end.signal = signals_.last();
  return end;
}

}  // namespace paceline::cli
