// paceline rm RUN… [--yes] [--json] and paceline prune [--older-than AGE] [--failed] [--gone] [--yes] [--json]
#include <unistd.h>

#include <iostream>

#include "paceline/cli/command.h"
#include "paceline/cli/commands/removal.h"
#include "paceline/cli/run_lookup.h"
#include "paceline/cli/table.h"
#include "paceline/core/clock.h"
#include "paceline/run/working_folder.h"

namespace paceline::cli {

using namespace views;
namespace {

struct Removed {
  std::vector<std::string> paths;
  std::vector<arrow::Status> problems;
};

Removed remove_all(const std::vector<FoundRun>& runs) {
  Removed removed;
  for (const FoundRun& run : runs) {
    const arrow::Status status = remove_run(run);
    if (status.ok()) {
      removed.paths.push_back(run.folder);
    } else {
      removed.problems.push_back(status);
    }
  }
  return removed;
}

// What was done, and the exit code.
int tell(const Removed& removed, bool as_json) {
  int exit_code = kDone;
  for (const arrow::Status& problem : removed.problems) exit_code = report(problem);
  if (as_json) {
    print(encode_json({{"dry_run", false}, {"removed", removed.paths}}) + "\n");
  } else {
    for (const std::string& path : removed.paths) print("deleted " + printable(path) + "\n");
  }
  return exit_code;
}

// Invalid: nobody can be asked.
arrow::Result<bool> is_agreed(const std::string& question) {
  if (::isatty(STDIN_FILENO) == 0) {
    return arrow::Status::Invalid(question, " Nobody can be asked (standard input is not a terminal); add --yes");
  }
  std::cerr << question << " [y/N] " << std::flush;
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "Y" || answer == "yes";
}

int remove(const std::vector<std::string>& runs, bool yes, bool as_json) {
  std::vector<FoundRun> found;
  for (const std::string& run : runs) {
    auto one = find_run(run);
    if (!one.ok()) return report(one.status());
    found.push_back(*std::move(one));
  }
  if (!yes) {
    std::string list;
    for (const FoundRun& run : found) list += "\n  " + printable(run.location.text());
    const auto agreed = is_agreed("Delete with all checkpoints:" + list + "\n?");
    if (!agreed.ok()) return report(agreed.status());
    if (!*agreed) return report(arrow::Status::Cancelled("nothing was deleted"));
  }
  return tell(remove_all(found), as_json);
}

struct PruneSettings {
  PruneCriteria criteria;
  bool yes = false;
};

void show_plan(const std::vector<KnownRun>& runs, bool as_json) {
  if (as_json) {
    Json paths = Json::array();
    for (const KnownRun& known : runs) paths.push_back(known.run.path);
    return print(encode_json({{"dry_run", true}, {"would_remove", paths}}) + "\n");
  }
  if (runs.empty()) return print("nothing to delete\n");
  const double now = to_seconds(SystemClock().now());
  Table table({"NAME", "STATE", "SINCE", "FOLDER"});
  for (const KnownRun& known : runs) {
    table.add({known.run.name, known.state_text(), ago_text(now - known.run.since), known.run.path});
  }
  print(table.text(output_columns()) + "nothing was deleted yet; --yes deletes " +
        (runs.size() == 1 ? "this run" : "these " + std::to_string(runs.size()) + " runs") + "\n");
}

arrow::Result<std::vector<KnownRun>> planned(const PruneCriteria& criteria) {
  ARROW_ASSIGN_OR_RAISE(const auto runs, known_runs());
  return select_for_pruning(runs, criteria, to_seconds(SystemClock().now()));
}

int prune(const PruneSettings& settings, bool as_json) {
  const PruneCriteria& criteria = settings.criteria;
  if (!criteria.older_than_s && !criteria.failed && !criteria.gone) {
    return report(
        arrow::Status::KeyError("which runs? Give one or more of --older-than AGE, --failed, --gone; prune takes the "
                                "runs that meet all of them"));
  }
  const auto runs = planned(criteria);
  if (!runs.ok()) return report(runs.status());
  if (!settings.yes) {
    show_plan(*runs, as_json);
    return kDone;
  }
  std::vector<FoundRun> found;
  for (const KnownRun& known : *runs) found.push_back({known.run.path, run::run_location(known.run.path)});
  return tell(remove_all(found), as_json);
}

}  // namespace

void add_rm(CLI::App& program, int& exit_code) {
  CLI::App* command = program.add_subcommand("rm", "Delete runs with their checkpoints; refuses live runs");
  command->footer("Example: paceline rm mnist_old --yes");
  const auto runs = std::make_shared<std::vector<std::string>>();
  const auto yes = std::make_shared<bool>(false);
  command->add_option("RUN", *runs, "Names of runs, beginnings that only one name has, run folders, or URIs")
      ->required()
      ->type_name("");
  command->add_flag("-y,--yes", *yes, "Do not ask");
  const auto as_json = add_json(*command);
  command->callback([=, &exit_code] { exit_code = remove(*runs, *yes, *as_json); });
}

void add_prune(CLI::App& program, int& exit_code) {
  CLI::App* command = program.add_subcommand(
      "prune", "Delete the runs that meet all the given criteria; without --yes only lists them");
  command->footer("Example: paceline prune --failed --older-than 30d");
  const auto settings = std::make_shared<PruneSettings>();
  command
      ->add_option_function<std::string>(
          "--older-than",
          [settings](const std::string& text) {
            const auto age = parse_age(text);
            if (!age.ok()) throw CLI::ValidationError("--older-than", age.status().message());
            settings->criteria.older_than_s = *age;
          },
          "Runs that have been in their state for longer than this: 90s, 15min, 12h, 30d, 8w")
      ->type_name("AGE");
  command->add_flag("--failed", settings->criteria.failed, "Runs that errored, were aborted, or whose driver died");
  command->add_flag("--gone", settings->criteria.gone, "Runs whose folder was deleted: the run store forgets them");
  command->add_flag("-y,--yes", settings->yes, "Delete them");
  const auto as_json = add_json(*command);
  command->callback([=, &exit_code] { exit_code = prune(*settings, *as_json); });
}

}  // namespace paceline::cli
