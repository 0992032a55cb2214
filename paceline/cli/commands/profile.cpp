// paceline profile RUN [--rank N] [--cpu | --off-cpu | --memory | --timeline [--steps N]] [--seconds S] [-o FILE]
// [--json]
#include "paceline/stacks/profile.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <stop_token>
#include <thread>

#include "paceline/cli/agent_program.h"
#include "paceline/cli/command.h"
#include "paceline/cli/commands/profile_summary.h"
#include "paceline/cli/run_lookup.h"
#include "paceline/core/run_layout.h"
#include "paceline/rpc/profile_kind.h"
#include "paceline/run/reader.h"
#include "paceline/storage/local/durable.h"
#include "paceline/views/run_actions.h"

namespace paceline::cli {
namespace {

struct ProfileSettings {
  std::string run;
  int64_t rank = -1;
  std::string kind = rpc::kProfileKinds.front().name;
  std::optional<int64_t> seconds;
  int64_t steps = 0;
  std::string output;
  bool as_json = false;
};

// Ctrl-C, or what else ends a program, while the run takes a profile: nobody waits for it any more.
class Interruption {
 public:
  Interruption()
      : is_over_(::eventfd(0, EFD_CLOEXEC)), thread_([this] {
          if (signals_.wait({is_over_.get()}, std::nullopt) != 0) has_come_.request_stop();
        }) {}
  ~Interruption() {
    const uint64_t one = 1;
    (void)!::write(is_over_.get(), &one, sizeof one);
    thread_.join();
  }
  std::stop_token token() const { return has_come_.get_token(); }

 private:
  HeardSignals signals_{{SIGINT, SIGTERM, SIGHUP}};
  Descriptor is_over_;
  std::stop_source has_come_;
  std::thread thread_;
};

// "" for the name of a file that a profile can be written into.
std::string problem_of_profile_path(const std::string& path) {
  if (path.ends_with(".json") || path.ends_with(".json.gz") || path.ends_with(".folded") || path.ends_with(".txt"))
    return "";
  return "\"" + path +
         "\" names no kind of profile; wanted a file that ends with .json (speedscope), or .folded or .txt (a line for "
         "each stack)";
}

// A timeline is in the folder already.
arrow::Status write_timeline(const ProfileSettings& settings, const run::RunProfile& taken) {
  std::vector<int64_t> ranks;
  for (const stacks::Profile& profile : taken.profiles) {
    if (is_sampled(profile)) ranks.push_back(profile.rank);
  }
  if (ranks.size() != 1) {
    return arrow::Status::Invalid("a file has the timeline of one rank, and there are ", ranks.size(),
                                  ": say which with --rank; all are in ", taken.folder);
  }
  ARROW_ASSIGN_OR_RAISE(const std::string timeline,
                        storage::read_file(taken.folder + "/" + run_layout::timeline_of(ranks.front())));
  return storage::write_atomically(settings.output, timeline);
}

arrow::Status write_profile(const stacks::Profiles& profiles, const std::string& run, const std::string& path) {
  const std::string text = path.ends_with(".json") ? encode_json(stacks::to_speedscope(profiles, "run " + run)) + "\n"
                                                   : stacks::to_folded(profiles);
  return storage::write_atomically(path, text);
}

void check_output(const ProfileSettings& settings) {
  const bool is_timeline = rpc::find_profile_kind(settings.kind)->is_timeline;
  if (settings.output.empty() || settings.output.ends_with(".json.gz") == is_timeline) return;
  throw CLI::ValidationError("--output", std::string("wanted a file that ends with ") +
                                             (is_timeline ? ".json.gz" : ".json, .folded or .txt") +
                                             " for this kind of profile, got " + settings.output);
}

// Before anything is sampled for it.
arrow::Status check_place_of(const std::string& output) {
  const std::filesystem::path parent = std::filesystem::path(output).parent_path();
  const std::string folder = parent.empty() ? "." : parent.string();
  const auto refused = [&](const auto&... why) {
    return arrow::Status::Invalid("cannot write ", output, ": ", why...);
  };
  if (!std::filesystem::is_directory(folder)) return refused("there is no folder ", folder);
  if (std::filesystem::is_directory(output)) return refused("it is a folder");
  if (::access(folder.c_str(), W_OK) != 0) return refused("nothing can be written into the folder ", folder);
  return arrow::Status::OK();
}

arrow::Status profile(const ProfileSettings& settings) {
  const bool is_timeline = rpc::find_profile_kind(settings.kind)->is_timeline;
  if (!settings.output.empty()) ARROW_RETURN_NOT_OK(check_place_of(settings.output));
  ARROW_ASSIGN_OR_RAISE(const FoundRun found, find_run(settings.run));
  ARROW_ASSIGN_OR_RAISE(const track::RunRecord record, run::read_run_folder(found.folder));
  const track::RunRow& run = record.run;
  if (is_timeline && !track::is_over(run) && !settings.output.empty() && settings.rank < 0 && run.world_size > 1) {
    return arrow::Status::Invalid("a file has the timeline of one rank: say which of the ", run.world_size,
                                  " with --rank; without -o those of all are kept in the run's folder");
  }
  const int64_t seconds = settings.seconds.value_or(rpc::default_profile_seconds(settings.steps));
  const Interruption interruption;
  ARROW_ASSIGN_OR_RAISE(const run::RunProfile taken,
                        views::ask_run_for_profile(run,
                                                   {.rank = settings.rank,
                                                    .seconds = static_cast<double>(seconds),
                                                    .who = asker("profile"),
                                                    .kind = settings.kind,
                                                    .steps = settings.steps},
                                                   interruption.token()));
  const bool has_any = std::ranges::any_of(taken.profiles, &is_sampled);
  const bool is_wanted = !settings.output.empty() && has_any;
  arrow::Status written;
  if (is_wanted) {
    written = is_timeline ? write_timeline(settings, taken) : write_profile(taken.profiles, run.name, settings.output);
  }
  if (settings.as_json) {
    print(encode_json(summary_json(taken.profiles, taken.folder)) + "\n");
  } else {
    print(rpc::shows_waits(settings.kind) ? waits_summary_of(taken.profiles) : summary_of(taken.profiles));
    if (is_wanted && written.ok()) print("written to " + settings.output + "\n");
    if (!taken.folder.empty()) print("kept in " + taken.folder + "\n");
    if (!taken.problem.empty()) print(taken.problem + "\n");
  }
  if (has_any) return written;
  return arrow::Status::IOError("no worker was sampled: ", first_problem(taken.profiles));
}

std::string flag_of(const rpc::ProfileKind& kind) {
  std::string flag = std::string("--") + kind.name;
  std::ranges::replace(flag, '_', '-');
  return flag;
}

}  // namespace

void add_profile(CLI::App& program, int& exit_code) {
  CLI::App* command = program.add_subcommand(
      "profile",
      "Show where a live run's workers spend their time or wait, who allocates memory, or which operators run when; "
      "training continues");
  command->footer(
      "Example: paceline profile mnist --rank 1 -o rank_1.json\n"
      "Open a .json file at https://www.speedscope.app. C++ is sampled in the worker itself, Python by py-spy where it "
      "is installed.");
  const auto settings = std::make_shared<ProfileSettings>();
  const auto run = add_run(*command);
  command->add_option("--rank", settings->rank, "Only the worker with this rank")
      ->check(CLI::Validator(CLI::Range(int64_t{0}, int64_t{1} << 31)).description(""))
      ->type_name("N");
  std::vector<CLI::Option*> flags;
  for (const rpc::ProfileKind& kind : rpc::kProfileKinds) {
    CLI::Option* const flag =
        command->add_flag_callback(flag_of(kind), [settings, &kind] { settings->kind = kind.name; }, kind.what);
    for (CLI::Option* const other : flags) flag->excludes(other);
    flags.push_back(flag);
  }
  command
      ->add_option("--seconds", settings->seconds,
                   "Sample for so long, from 1 to 60; default: 5, with --steps 60 at most")
      ->check(CLI::Validator(CLI::Range(rpc::kShortestProfile, rpc::kLongestProfile)).description(""))
      ->type_name("S");
  command->add_option("--steps", settings->steps, "Of --timeline: until so many whole steps have ended")
      ->check(CLI::Validator(CLI::Range(int64_t{1}, rpc::kMostProfiledSteps)).description(""))
      ->type_name("N")
      ->needs("--timeline");
  add_output(*command, settings->output,
             "Write the profile into this file: .json (speedscope), .folded or .txt (a line for each stack); a "
             "timeline, of one rank, as .json.gz")
      ->check(problem_of_profile_path)
      ->type_name("FILE");
  const auto as_json = add_json(*command);
  command->callback([=, &exit_code] {
    settings->run = *run;
    settings->as_json = *as_json;
    check_output(*settings);
    exit_code = report(profile(*settings));
  });
}

}  // namespace paceline::cli
