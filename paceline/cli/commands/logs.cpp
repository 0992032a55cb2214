// paceline logs RUN [--rank N | --controller] [--attempt N] [-n N] [-f] [--json]
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <map>

#include "paceline/cli/command.h"
#include "paceline/cli/run_lookup.h"
#include "paceline/core/posix/pidfd.h"
#include "paceline/core/run_layout.h"
#include "paceline/run/reader.h"
#include "paceline/storage/local/line_reader.h"
#include "paceline/storage/local/watch.h"
#include "paceline/views/known_runs.h"
#include "paceline/views/log_files.h"

namespace paceline::cli {

using namespace views;
namespace {

struct LogSettings {
  std::string run;
  LogChoice choice;
  int64_t last_lines = -1;  // -1: all
  bool follow = false;
  bool as_json = false;
};

// Prints lines with whose they are.
class LinePrinter {
 public:
  LinePrinter(const LogSettings& settings) : settings_(settings) {}  // NOLINT(google-explicit-constructor)

  void print_line(const LogFile& log, std::string_view line) const {
    if (settings_.as_json) {
      const Json rank = log.rank ? Json(*log.rank) : Json(nullptr);
      const Json worker = log.worker != 0 ? Json(log.worker) : Json(nullptr);
      return print(encode_json({{"rank", rank}, {"worker", worker}, {"line", std::string(line)}}) + "\n");
    }
    std::string text;
    // One rank was asked for: its lines are plain.
    if (!settings_.choice.rank && log.worker != 0) {
      text = log.rank ? "(rank " + std::to_string(*log.rank) + ") " : "(worker " + std::to_string(log.worker) + ") ";
    }
    print(text + std::string(line) + "\n");
  }

 private:
  const LogSettings& settings_;
};

// One log from its oldest piece on; rotation is followed.
class LogTail {
 public:
  explicit LogTail(LogFile log) : log_(std::move(log)), reader_(log_.path) {}

  // What is there by now, or its last lines.
  arrow::Status print_beginning(const LinePrinter& printer, int64_t last_lines) {
    std::deque<std::string> kept;
    const auto take = [&](std::string_view line) {
      if (last_lines < 0) {
        printer.print_line(log_, line);
      } else {
        kept.emplace_back(line);
        if (std::ssize(kept) > last_lines) kept.pop_front();
      }
      return arrow::Status::OK();
    };
    for (const std::string& piece : pieces_of(log_.path)) {
      if (piece == log_.path) {
        ARROW_RETURN_NOT_OK(reader_.read(take));
      } else {
        ARROW_RETURN_NOT_OK(storage::LineReader(piece).read(take));
      }
    }
    for (const std::string& line : kept) printer.print_line(log_, line);
    return arrow::Status::OK();
  }

  arrow::Status print_news(const LinePrinter& printer) {
    const auto take = [&](std::string_view line) {
      printer.print_line(log_, line);
      return arrow::Status::OK();
    };
    const bool replaced = reader_.was_replaced();
    ARROW_RETURN_NOT_OK(reader_.read(take));  // the rest of the file that was open, whatever its name is now
    if (!replaced) return arrow::Status::OK();
    reader_ = storage::LineReader(log_.path);
    return reader_.read(take);
  }

 private:
  LogFile log_;
  storage::LineReader reader_;
};

class LogView {
 public:
  LogView(const LogSettings& settings, const std::string& folder)
      : settings_(settings), printer_(settings), run_(folder) {}

  arrow::Status show() {
    ARROW_RETURN_NOT_OK(run_.read());
    // What is not there is an error now only: it may come while it is followed.
    ARROW_ASSIGN_OR_RAISE(const auto chosen, choose_logs(run_.record(), settings_.choice));
    const bool are_there =
        std::ranges::any_of(chosen, [](const LogFile& log) { return std::filesystem::exists(log.path); });
    if (!are_there && !settings_.follow) {
      return arrow::Status::IOError(
          "run ", run_.record().run.name, " has no such log in ", run_.record().run.path, "/", run_layout::kLogs,
          "; a train loop that ran in its driver (num_workers = 0) wrote where the driver did");
    }
    return print_logs(settings_.last_lines);
  }

  // Until the run ends or its driver is gone.
  arrow::Status follow() {
    ARROW_ASSIGN_OR_RAISE(storage::Watch watch, storage::Watch::create());
    ARROW_RETURN_NOT_OK(watch.add(run_.record().run.path + "/" + run_layout::kLogs));
    ARROW_RETURN_NOT_OK(watch.add(run::journal_path(run_.record().run.path)));
    ARROW_RETURN_NOT_OK(run_.read());
    // A driver that is killed writes nothing any more; its end is told by itself. On another machine it cannot be.
    Descriptor driver;
    if (driver_state(run_.record().run) == DriverState::alive) {
      driver = open_pidfd(static_cast<pid_t>(run_.record().run.pid)).ValueOr(Descriptor());
    }
    while (true) {
      const DriverState fate = driver_state(run_.record().run);
      const bool over = fate == DriverState::none || fate == DriverState::gone;
      ARROW_RETURN_NOT_OK(print_logs(-1));
      std::fflush(stdout);
      if (over) return arrow::Status::OK();
      std::array<pollfd, 2> events{{{watch.descriptor(), POLLIN, 0}, {driver.get(), POLLIN, 0}}};
      if (::poll(events.data(), events.size(), -1) < 0 && errno != EINTR) return errno_status("waiting for news");
      watch.clear();
      ARROW_RETURN_NOT_OK(run_.read());
    }
  }

 private:
  // Logs of workers that have come meanwhile are shown from their start.
  arrow::Status print_logs(int64_t last_lines) {
    for (LogFile& log : choose_logs(run_.record(), settings_.choice).ValueOr({})) {
      const auto found = tails_.find(log.path);
      if (found != tails_.end()) {
        ARROW_RETURN_NOT_OK(found->second.print_news(printer_));
        continue;
      }
      LogTail tail(log);
      ARROW_RETURN_NOT_OK(tail.print_beginning(printer_, last_lines));
      tails_.emplace(log.path, std::move(tail));
    }
    return arrow::Status::OK();
  }

  const LogSettings& settings_;
  LinePrinter printer_;
  run::RunReader run_;
  std::map<std::string, LogTail> tails_;
};

arrow::Status logs(const LogSettings& settings) {
  ARROW_ASSIGN_OR_RAISE(const FoundRun found, find_run(settings.run));
  LogView view(settings, found.folder);
  ARROW_RETURN_NOT_OK(view.show());
  return settings.follow ? view.follow() : arrow::Status::OK();
}

}  // namespace

void add_logs(CLI::App& program, int& exit_code) {
  CLI::App* command =
      program.add_subcommand("logs", "Show what a run's workers wrote, by rank, or what its controller decided");
  command->footer(
      "Example: paceline logs mnist --rank 1 -f\n"
      "With --json each line is an object with \"rank\", \"worker\" (null for the controller) and \"line\".");
  const auto settings = std::make_shared<LogSettings>();
  const auto run = add_run(*command);
  auto* rank = command->add_option("--rank", settings->choice.rank, "Only this rank's lines, without the rank in front")
                   ->type_name("N");
  command->add_flag("--controller", settings->choice.controller, "Show the controller's decisions instead")
      ->excludes(rank);
  command->add_option("--attempt", settings->choice.attempt, "Show the workers of this attempt instead of the last")
      ->type_name("N");
  command->add_option("-n,--lines", settings->last_lines, "Begin with the last N lines of each log")->type_name("N");
  command->add_flag("-f,--follow", settings->follow, "Follow the logs until the run ends");
  const auto as_json = add_json(*command);
  command->callback([=, &exit_code] {
    settings->run = *run;
    settings->as_json = *as_json;
    exit_code = report(logs(*settings));
  });
}

}  // namespace paceline::cli
