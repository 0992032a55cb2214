// paceline agent --token-file FILE [--join HOST:PORT…] [--name NAME] [--address ADDRESS] [--label NAME=VALUE…]
//                [--resource NAME=AMOUNT…] [--cpus N] [--gpus N] [--keep] [--with-parent]
#include <poll.h>
#include <signal.h>
#include <stdlib.h>  // NOLINT(modernize-deprecated-headers): mkdtemp()
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <map>
#include <stop_token>
#include <thread>

#include "paceline/agent/agent.h"
#include "paceline/agent/guardian.h"
#include "paceline/cli/command.h"
#include "paceline/cli/leaving_notice.h"
#include "paceline/core/posix/host_name.h"
#include "paceline/core/posix/network_interface.h"
#include "paceline/core/posix/thread.h"
#include "paceline/storage/local/run_lock.h"
#include "paceline/transport/connector.h"
#include "paceline/transport/trust_file.h"

namespace paceline::cli {
namespace {

// The controller was lost, or never found: another try may find it (EX_TEMPFAIL of sysexits.h).
constexpr int kTryAgain = 75;

// A folder on another machine does not tell what happens in it.
constexpr int kLookEveryMilliseconds = 1000;

struct AgentFlags {
  std::string token_file;
  std::vector<std::string> join;
  agent::NodeOptions node;
  bool keep = false;
  bool with_parent = false;
};

// The signals that end this program, as a descriptor. Threads that are started later block them too.
class EndSignals {
 public:
  EndSignals() {
    sigset_t signals;
    ::sigemptyset(&signals);
    for (const int signal : {SIGTERM, SIGINT, SIGHUP}) ::sigaddset(&signals, signal);
    ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    descriptor_ = Descriptor(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  }
  /// Waits for `other` (-1: for nothing), at most `milliseconds` (-1: for ever); whether a signal has come.
  bool wait(int other, int milliseconds) {
    pollfd events[2] = {{descriptor_.get(), POLLIN, 0}, {other, POLLIN, 0}};
    while (::poll(events, 2, milliseconds) < 0 && errno == EINTR) {
    }
    signalfd_siginfo info;
    if (::read(descriptor_.get(), &info, sizeof info) == sizeof info) signal_ = static_cast<int>(info.ssi_signo);
    return signal_ != 0;
  }
  int signal() const { return signal_; }

 private:
  Descriptor descriptor_;
  int signal_ = 0;
};

// At once, also into a file or a pipe.
void tell(const std::string& text) {
  print("paceline agent: " + text);
  std::fflush(stdout);
}

// Waits until the file is there. False when a signal has come.
bool wait_for_file(const std::string& path, EndSignals& signals) {
  const Descriptor watch(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  const std::filesystem::path folder = std::filesystem::absolute(path).parent_path();
  ::inotify_add_watch(watch.get(), folder.c_str(), IN_CREATE | IN_MOVED_TO);
  bool told = false;
  while (!std::filesystem::exists(path)) {
    if (!std::exchange(told, true)) tell("waiting for the driver to write " + path + "\n");
    if (signals.wait(watch.get(), kLookEveryMilliseconds)) return false;
    char events[4096];
    while (::read(watch.get(), events, sizeof events) > 0) {
    }
  }
  return true;
}

// What standard input says of a run: all of it, or the next line where those of other runs follow. "" at its end, and
// when a signal has come. `rest` has what was read of later lines.
std::string read_input(bool others_follow, std::string& rest, EndSignals& signals) {
  while (!others_follow || rest.find('\n') == std::string::npos) {
    if (signals.wait(STDIN_FILENO, -1)) return "";
    char part[4096];
    const ssize_t size = ::read(STDIN_FILENO, part, sizeof part);
    if (size <= 0) return std::exchange(rest, {});
    rest.append(part, static_cast<size_t>(size));
  }
  const size_t end = rest.find('\n') + 1;
  const std::string line = rest.substr(0, end);
  rest.erase(0, end);
  return line;
}

std::string host_of(const std::string& address) {
  const std::string host = address.substr(0, address.rfind(':'));
  return host.starts_with('[') ? host.substr(1, host.size() - 2) : host;
}

// Runs `work` on a thread, and asks it to stop when a signal comes.
template <class Work>
auto interruptible(EndSignals& signals, Work work) {
  const Descriptor done(::eventfd(0, EFD_CLOEXEC));
  std::stop_source stop;
  decltype(work(stop.get_token())) result = arrow::Status::Cancelled("nothing was done");
  std::thread thread = start_thread([&] {
    result = work(stop.get_token());
    const uint64_t one = 1;
    (void)!::write(done.get(), &one, sizeof one);
  });
  if (signals.wait(done.get(), -1)) stop.request_stop();
  thread.join();
  return result;
}

// For what the processes of one run put on this machine's disk. It is locked, so that the guardian knows that nobody
// has it any more, should this process die.
class NodeFolder {
 public:
  static arrow::Result<std::unique_ptr<NodeFolder>> make() {
    std::string path = (std::filesystem::temp_directory_path() / "paceline_agent_XXXXXX").string();
    if (::mkdtemp(path.data()) == nullptr) return errno_status("making the folder " + path);
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

// One run, from its first word to its end. OK when its controller ended it in order.
arrow::Status serve(const AgentFlags& flags, arrow::Result<transport::TrustFile> trusted,
                    const agent::Guardian& guardian, EndSignals& signals, LeavingNotice& leaving) {
  ARROW_ASSIGN_OR_RAISE(transport::TrustFile trust, std::move(trusted));
  if (!flags.join.empty()) trust.addresses = flags.join;
  const auto lease = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(trust.lease_s));
  ARROW_ASSIGN_OR_RAISE(const auto folder, NodeFolder::make());
  agent::AgentOptions options{.node = flags.node, .folder = folder->path()};
  if (options.node.name.empty()) options.node.name = host_name();
  auto connected = interruptible(signals, [&](std::stop_token stop) {
    return transport::connect({.addresses = trust.addresses,
                               .run = trust.run,
                               .name = options.node.name,
                               .credentials = trust.credentials,
                               .lease = lease},
                              stop);
  });
  if (signals.signal() != 0) return arrow::Status::OK();
  ARROW_RETURN_NOT_OK(connected.status());
  if (options.node.address.empty()) {
    ARROW_ASSIGN_OR_RAISE(options.node.address, address_towards(host_of(trust.addresses.front())));
  }
  tell("node " + options.node.name + " at " + options.node.address + " has joined a run\n");
  ARROW_ASSIGN_OR_RAISE(std::unique_ptr<agent::Agent> agent,
                        agent::start_agent(*std::move(connected), guardian, std::move(options)));
  const Descriptor done(::eventfd(0, EFD_CLOEXEC));
  arrow::Status ended;
  std::thread waiting = start_thread([&] {
    ended = agent->wait();
    const uint64_t one = 1;
    (void)!::write(done.get(), &one, sizeof one);
  });
  leaving.tell_through(agent.get());
  if (signals.wait(done.get(), -1)) agent->end();
  waiting.join();
  leaving.tell_through(nullptr);
  if (signals.signal() == 0 && ended.ok()) tell("the run is over\n");
  return ended;
}

int run_agent(const AgentFlags& flags) {
  auto guardian = agent::Guardian::fork_now();  // before there are threads
  if (!guardian.ok()) return report(guardian.status());
  EndSignals signals;
  if (flags.with_parent) ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  LeavingNotice leaving;
  const bool reads_input = flags.token_file == "-";
  std::string input;
  do {
    if (!reads_input && !wait_for_file(flags.token_file, signals)) break;
    const std::string text = reads_input ? read_input(flags.keep, input, signals) : "";
    if (signals.signal() != 0 || (reads_input && flags.keep && text.empty())) break;
    auto trust = reads_input ? transport::decode_trust_file(text) : transport::read_trust_file(flags.token_file);
    const arrow::Status served = serve(flags, std::move(trust), *guardian, signals, leaving);
    if (signals.signal() != 0) break;
    if (!served.ok() && !flags.keep) {
      report(served);
      return served.IsIOError() ? kTryAgain : kFailed;
    }
    if (!served.ok()) tell("the run is lost: " + served.message() + "\n");
  } while (flags.keep);
  return signals.signal() == 0 ? kDone : 128 + signals.signal();
}

// "zone=a" of --label zone=a.
CLI::Validator named_value() {
  return CLI::Validator(
      [](std::string& text) {
        const size_t equals = text.find('=');
        return equals == std::string::npos || equals == 0 ? "wanted NAME=VALUE, got \"" + text + "\"" : std::string();
      },
      "NAME=VALUE");
}

}  // namespace

void add_agent(CLI::App& program, int& exit_code) {
  CLI::App* command = program.add_subcommand(
      "agent", "Offer this machine to a run: start, watch and end its workers here for as long as it lasts");
  command->footer(
      "Example: paceline agent --token-file /shared/run.token\n"
      "SIGUSR1 tells the run that this machine will be taken away in two minutes, or in as many seconds as the "
      "signal's\n"
      "value says (kill -q 90 -s USR1 PID): its loss is no failure then.\n"
      "Exit codes: 0 the run is over, 75 its driver was lost or not found, 1 anything else");
  const auto flags = std::make_shared<AgentFlags>();
  const auto labels = std::make_shared<std::vector<std::string>>();
  const auto resources = std::make_shared<std::vector<std::string>>();
  command
      ->add_option("--token-file", flags->token_file,
                   "File that the driver writes (ScalingConfig.token_file); waited for; - is standard input")
      ->required();
  command->add_option("--join", flags->join, "HOST:PORT of the driver, where the file's does not lead there");
  command->add_option("--name", flags->node.name, "Name of this node; default: the host's");
  command->add_option("--address", flags->node.address,
                      "Address at which workers on other nodes reach those here; default: the one towards the driver");
  command->add_option("--label", *labels, "A label of this node, for label_selector; may be repeated")
      ->check(named_value());
  command->add_option("--resource", *resources, "What this node has besides, for resources_per_worker; may be repeated")
      ->check(named_value());
  command->add_option("--cpus", flags->node.cores, "CPUs to offer; default: those of this machine that it may use")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--gpus", flags->node.gpus, "GPUs to offer; default: those of this machine that it sees")
      ->check(CLI::NonNegativeNumber);
  command->add_flag(
      "--keep", flags->keep,
      "Stay after a run, and join the next for which the file is written, or the next line of standard input comes");
  command->add_flag("--with-parent", flags->with_parent,
                    "End when the process that has started this one ends, also when it is killed");
  command->callback([=, &exit_code] {
    for (const std::string& label : *labels) {
      flags->node.labels[label.substr(0, label.find('='))] = label.substr(label.find('=') + 1);
    }
    for (const std::string& resource : *resources) {
      const std::string amount = resource.substr(resource.find('=') + 1);
      char* end = nullptr;
      flags->node.resources[resource.substr(0, resource.find('='))] = std::strtod(amount.c_str(), &end);
      if (amount.empty() || *end != '\0') {
        exit_code = kWrongUse;
        report(arrow::Status::Invalid("--resource ", resource, ": wanted a number behind the \"=\""));
        return;
      }
    }
    exit_code = run_agent(*flags);
  });
}

}  // namespace paceline::cli
