// paceline dashboard [--storage-path PATH…] [--host ADDRESS] [--port N] [--external-url URL] [--read-only]
// [--web-root FOLDER]
#include "paceline/dashboard/dashboard.h"

#include <array>
#include <csignal>
#include <cstdio>
#include <filesystem>

#include "paceline/cli/command.h"
#include "paceline/cli/commands/index.h"
#include "paceline/cli/table.h"
#include "paceline/storage/location.h"

namespace paceline::cli {
namespace {

struct DashboardFlags {
  dashboard::DashboardOptions options;
  std::vector<std::string> storage_paths;
};

// At once, also into a file or a pipe.
void tell(const std::string& text) {
  print("paceline dashboard: " + text + "\n");
  std::fflush(stdout);
}

// Signals that end the dashboard; waited for on the main thread, so that every other is started with them blocked.
class EndSignals {
 public:
  EndSignals() {
    ::sigemptyset(&signals_);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&signals_, signal);
    ::pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  }
  // From the second on they end the program as they always do.
  ~EndSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  void wait() const {
    int signal = 0;
    while (::sigwait(&signals_, &signal) != 0) {
    }
  }

 private:
  sigset_t signals_{}, before_{};
};

// What is in the storage paths becomes known; each as the run store has it.
arrow::Result<std::vector<std::string>> index_storage_paths(const std::vector<std::string>& given) {
  std::vector<std::string> paths;
  for (const std::string& path : given) {
    ARROW_ASSIGN_OR_RAISE(const storage::Location location,
                          storage::resolve_location(path, std::filesystem::current_path().string()));
    paths.push_back(location.text());
  }
  if (given.empty()) return paths;
  ARROW_ASSIGN_OR_RAISE(const IndexOutcome outcome, index_runs(given));
  for (const IndexProblem& problem : outcome.problems)
    tell("not shown: " + printable(problem.path + ": " + problem.error));
  return paths;
}

arrow::Status serve(const DashboardFlags& flags) {
  dashboard::DashboardOptions options = flags.options;
  ARROW_ASSIGN_OR_RAISE(options.storage_paths, index_storage_paths(flags.storage_paths));
  options.tell = tell;
  std::unique_ptr<dashboard::Dashboard> running;
  {
    const EndSignals signals;
    ARROW_ASSIGN_OR_RAISE(running, dashboard::Dashboard::start(std::move(options)));
    if (!flags.options.external_url.empty()) {
      tell("listens at " + flags.options.address + ":" + std::to_string(running->port()) + ", for the proxy");
    }
    tell("open " + running->url());
    tell("Prometheus reads /metrics with the token in " + running->token_file() + "; Ctrl-C ends this");
    signals.wait();
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
  command->add_option("--host", flags->options.address, "Address of the loopback to listen at; default: 127.0.0.1")
      ->type_name("ADDRESS");
  auto* const port_option =
      command->add_option("--port", *port, "Port to listen at; default: 8265, or any that is free where that is taken")
          ->check(CLI::Validator(CLI::Range(0, 65535)).description(""))
          ->type_name("N");
  command
      ->add_option("--external-url", flags->options.external_url,
                   "Address at which a reverse proxy on this machine has it: https://HOST/PREFIX")
      ->type_name("URL");
  command->add_flag("--read-only", flags->options.read_only, "Refuse to stop runs, and all else that changes any");
  command->add_option("--web-root", flags->options.web_root, "Serve the page's files from this folder, to work on them")
      ->type_name("FOLDER");
  command->callback([=, &exit_code] {
    if (port_option->count() > 0) flags->options.port = static_cast<uint16_t>(*port);
    exit_code = report(serve(*flags));
  });
}

}  // namespace paceline::cli
