// paceline dashboard [--storage-path PATH…] [--host ADDRESS] [--port N] [--external-url URL] [--read-only]
// [--web-root FOLDER] [--insecure-no-tls] [--token-file FILE]
#include "paceline/dashboard/dashboard.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>

#include "paceline/cli/command.h"
#include "paceline/cli/commands/index.h"
#include "paceline/cli/table.h"
#include "paceline/core/posix/descriptor.h"
#include "paceline/rpc/messages.h"
#include "paceline/storage/location.h"

namespace paceline::cli {
namespace {

struct DashboardFlags {
  dashboard::DashboardOptions options;
  std::vector<std::string> storage_paths;
  /// It is a driver's (controller/dashboard_process.h): its address alone is printed, and the driver's end is its own.
  bool is_for_driver = false;
};

// At once, also into a file or a pipe.
void tell(const std::string& text) {
  print("paceline dashboard: " + text + "\n");
  std::fflush(stdout);
}

// What ends the dashboard: signals, which are blocked in every thread that is started meanwhile, and, where it is a
// driver's, the end of that.
class End {
 public:
  explicit End(bool is_for_driver) {
    ::sigemptyset(&signals_);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&signals_, signal);
    ::pthread_sigmask(SIG_BLOCK, &signals_, &before_);
    const char* const channel = is_for_driver ? std::getenv(rpc::kChannelVariable) : nullptr;
    if (channel != nullptr) driver_ = static_cast<int>(std::strtol(channel, nullptr, 10));
  }
  // From the second on they end the program as they always do.
  ~End() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  // `on_wish`: the driver wants another address.
  void wait(const std::function<void()>& on_wish) const {
    const Descriptor signalled(::signalfd(-1, &signals_, SFD_CLOEXEC));
    std::array<pollfd, 2> events{pollfd{signalled.get(), POLLIN, 0}, pollfd{driver_, POLLIN, 0}};
    while (true) {
      if (::poll(events.data(), events.size(), -1) < 0) continue;
      signalfd_siginfo taken{};  // or it would end the program as soon as it is not blocked any more
      if (events[0].revents != 0) return (void)!::read(signalled.get(), &taken, sizeof taken);
      char wish = 0;
      if (::read(driver_, &wish, 1) != 1) return;
      on_wish();
    }
  }

 private:
  sigset_t signals_{}, before_{};
  int driver_ = -1;
};

// What is in the storage paths becomes known; each as the run store has it.
arrow::Result<std::vector<std::string>> index_storage_paths(const std::vector<std::string>& given) {
  std::vector<std::string> paths;
  for (const std::string& path : given) {
    ARROW_ASSIGN_OR_RAISE(const storage::Location location, storage::resolve_here(path));
    paths.push_back(location.text());
  }
  if (given.empty()) return paths;
  ARROW_ASSIGN_OR_RAISE(const IndexOutcome outcome, index_runs(given));
  for (const IndexProblem& problem : outcome.problems)
    tell("not shown: " + printable(problem.path + ": " + problem.error));
  return paths;
}

// A line with the address, and others with further codes; whoever does not read them keeps nobody waiting.
void tell_driver(const std::string& url) {
  print(url + "\n");
  std::fflush(stdout);
}

void tell_user(const dashboard::Dashboard& running, const DashboardFlags& flags) {
  if (!flags.options.external_url.empty()) {
    tell("listens at " + flags.options.address + ":" + std::to_string(running.port()) + ", for the proxy");
  }
  tell("open " + running.url());
  if (!running.token_file().empty()) {
    const auto reach = dashboard::reach_of(flags.options.address);
    const bool is_on_network = reach.ok() && !reach->is_loopback;
    tell(std::string(is_on_network ? "it can be reached from other machines, unencrypted; " : "") +
         "who has no code needs the token in " + running.token_file());
  }
  const std::string& token_file = running.metrics_token_file();
  tell((token_file.empty() ? "" : "Prometheus reads /metrics with the token in " + token_file + "; ") +
       "Ctrl-C ends this");
}

arrow::Status serve(const DashboardFlags& flags) {
  dashboard::DashboardOptions options = flags.options;
  ARROW_ASSIGN_OR_RAISE(options.storage_paths, index_storage_paths(flags.storage_paths));
  options.is_announced = !flags.is_for_driver;  // it ends with its driver, and other runs may go on
  if (flags.is_for_driver) {
    ::fcntl(STDOUT_FILENO, F_SETFL, O_NONBLOCK);
    options.tell_next = tell_driver;
  } else {
    options.tell = tell;
  }
  std::unique_ptr<dashboard::Dashboard> running;
  {
    const End end(flags.is_for_driver);
    ARROW_ASSIGN_OR_RAISE(running, dashboard::Dashboard::start(std::move(options)));
    flags.is_for_driver ? tell_driver(running->url()) : tell_user(*running, flags);
    end.wait([&] { tell_driver(running->another_url()); });
  }
  running->stop();
  return arrow::Status::OK();
}

}  // namespace

void add_dashboard(CLI::App& program, int& exit_code) {
  CLI::App* command = program.add_subcommand(
      "dashboard", "Serve a web page on this machine that shows all runs, live and past, until Ctrl-C");
  command->footer(
      "Example: paceline dashboard --storage-path ~/paceline_results\n"
      "The address that it prints opens the page once; then it prints the next. From another machine: ssh -L\n"
      "8265:127.0.0.1:8265 HOST.");
  const auto flags = std::make_shared<DashboardFlags>();
  const auto port = std::make_shared<int>(0);
  command
      ->add_option("--storage-path", flags->storage_paths,
                   "Show only the runs in this storage path, which is read first; may be repeated")
      ->type_name("PATH")
      ->expected(1)
      ->take_all();
  command
      ->add_option("--host", flags->options.address,
                   "Address to listen at; default: 127.0.0.1. One that other machines reach needs --insecure-no-tls")
      ->type_name("ADDRESS");
  command->add_flag("--insecure-no-tls", flags->options.insecure_no_tls,
                    "Let other machines in without encryption, with a token, on a network that you trust");
  command
      ->add_option("--token-file", flags->options.token_file,
                   "File with a token that opens the page and lasts, made where it is not there; default: for what "
                   "others reach dashboard_token in the state directory, else none")
      ->type_name("FILE");
  auto* const port_option =
      command->add_option("--port", *port, "Port to listen at; default: 8265, or any that is free where that is taken")
          ->check(CLI::Validator(CLI::Range(0, 65535)).description(""))
          ->type_name("N");
  command
      ->add_option("--external-url", flags->options.external_url,
                   "Address at which a reverse proxy on this machine has it: https://HOST/PREFIX")
      ->type_name("URL");
  command->add_flag("--read-only", flags->options.read_only,
                    "Refuse to stop runs, to take stacks and profiles, and all else that does something to a run");
  command->add_option("--web-root", flags->options.web_root, "Serve the page's files from this folder, to work on them")
      ->type_name("FOLDER");
  command->add_flag("--for-driver", flags->is_for_driver)->group("");  // not in --help
  command->callback([=, &exit_code] {
    if (port_option->count() > 0) flags->options.port = static_cast<uint16_t>(*port);
    exit_code = report(serve(*flags));
  });
}

}  // namespace paceline::cli
