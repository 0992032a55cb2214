// paceline list [-n N] [--state STATE] [--json]
#include <cstdint>

#include "paceline/cli/command.h"
#include "paceline/cli/table.h"
#include "paceline/core/clock.h"
#include "paceline/run/working_folder.h"
#include "paceline/views/run_list.h"

namespace paceline::cli {

using namespace views;
namespace {

struct Selection {
  size_t most = 0;  // 0: all
  std::string state;
};

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
    if (!is_in_state(known, selection.state)) return true;
    if (as_json) {
      all.push_back(listed(known));
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
      ->check(problem_of_state);
  const auto as_json = add_json(*command);
  command->callback([selection, as_json, &exit_code] { exit_code = report(list(*selection, *as_json)); });
}

}  // namespace paceline::cli
