// paceline list [-n N] [--state STATE] [--json]
#include <algorithm>
#include <cstdint>

#include "paceline/cli/command.h"
#include "paceline/cli/known_runs.h"
#include "paceline/cli/table.h"
#include "paceline/core/clock.h"
#include "paceline/core/spelling.h"
#include "paceline/policy/state.h"
#include "paceline/run/working_folder.h"

namespace paceline::cli {
namespace {

struct Selection {
  size_t most = 0;  // 0: all
  std::string state;
};

Json json_of(const KnownRun& known) {
  Json json = known.run;
  json.erase("journal_bytes");
  json.erase("history_bytes");
  json["location"] = run::run_location(known.run.path);
  json["driver"] = known.driver;
  json["gone"] = known.gone;
  return json;
}

bool is_meant(const KnownRun& known, const std::string& state) {
  return state.empty() || known.run.state == state || known.state_text() == state;
}

// The states of runs, and what the list says in their place.
std::vector<std::string> known_states() {
  std::vector<std::string> states = {"driver died", "deleted"};
  for (int state = 0; state <= static_cast<int>(policy::State::aborted); ++state) {
    states.push_back(policy::to_string(static_cast<policy::State>(state)));
  }
  return states;
}

// "" for a state that there is.
std::string problem_of(const std::string& state) {
  const std::vector<std::string> known = known_states();
  if (std::ranges::find(known, state) != known.end()) return "";
  std::string names;
  for (const std::string& one : known) names += (names.empty() ? "" : ", ") + one;
  return "no run is ever in the state \"" + state + "\"; there are: " + names + suggestion(state, known);
}

// Each run is written as it comes: of ten thousand only what is shown is held.
class Listing {
 public:
  void add(const KnownRun& known) {
    const track::RunRow& run = known.run;
    ++count_;
    table_.add({run.name, known.state_text(), ago_text(now_ - run.opened), std::to_string(run.world_size),
                std::to_string(run.report), known.metrics, run::run_location(run.path).text()});
  }
  std::string text() const {
    if (count_ == 0) return "no runs; `paceline index FOLDER` adds the runs in a storage path\n";
    return table_.text(output_columns());
  }

 private:
  double now_ = to_seconds(SystemClock().now());
  size_t count_ = 0;
  Table table_{{"NAME", "STATE", "OPENED", "WORKERS", "REPORT", "METRICS", "FOLDER"}};
};

arrow::Status list(const Selection& selection, bool as_json) {
  Listing listing;
  Json all = Json::array();
  size_t left = selection.most > 0 ? selection.most : SIZE_MAX;
  const auto metrics = as_json ? track::RunStore::Metrics::values : track::RunStore::Metrics::text;
  ARROW_RETURN_NOT_OK(visit_known_runs(metrics, [&](const KnownRun& known) {
    if (!is_meant(known, selection.state)) return true;
    if (as_json) {
      all.push_back(json_of(known));
    } else {
      listing.add(known);
    }
    return --left > 0;
  }));
  print(as_json ? encode_json(all) + "\n" : listing.text());
  return arrow::Status::OK();
}

}  // namespace

void add_list(CLI::App& program, int& exit_code) {
  CLI::App* command = program.add_subcommand("list", "List runs, the most recently opened first");
  command->footer("Example: paceline list -n 10 --state running");
  const auto selection = std::make_shared<Selection>();
  command->add_option("-n,--limit", selection->most, "List at most N runs")->type_name("N");
  command->add_option("--state", selection->state, "List only runs in this state, as the column STATE names it")
      ->type_name("STATE")
      ->check(problem_of);
  const auto as_json = add_json(*command);
  command->callback([selection, as_json, &exit_code] { exit_code = report(list(*selection, *as_json)); });
}

}  // namespace paceline::cli
