// paceline stacks RUN [--rank N] [--json]
#include "paceline/stacks/stack.h"

#include "paceline/cli/command.h"
#include "paceline/cli/run_lookup.h"
#include "paceline/run/reader.h"
#include "paceline/views/run_actions.h"

namespace paceline::cli {
namespace {

arrow::Status show_stacks(const std::string& text, int64_t rank, bool as_json) {
  ARROW_ASSIGN_OR_RAISE(const FoundRun found, find_run(text));
  ARROW_ASSIGN_OR_RAISE(const track::RunRecord record, run::read_run_folder(found.folder));
  const track::RunRow& run = record.run;
  ARROW_ASSIGN_OR_RAISE(const auto workers, views::stacks_of_run(run, rank));
  if (as_json) {
    print(encode_json(workers) + "\n");
  } else if (workers.empty()) {
    print("no worker of run " + run.name + " lives now\n");
  }
  for (size_t i = 0; i < workers.size() && !as_json; ++i) print((i == 0 ? "" : "\n") + to_text(workers[i]));
  return arrow::Status::OK();
}

}  // namespace

void add_stacks(CLI::App& program, int& exit_code) {
  CLI::App* command =
      program.add_subcommand("stacks", "Show what every thread of a live run's workers is doing; training continues");
  command->footer("Example: paceline stacks mnist --rank 1");
  const auto run = add_run(*command);
  const auto rank = std::make_shared<int64_t>(-1);
  command->add_option("--rank", *rank, "Only the worker with this rank")
      ->check(CLI::Validator(CLI::Range(int64_t{0}, int64_t{1} << 31)).description(""))
      ->type_name("N");
  const auto as_json = add_json(*command);
  command->callback([run, rank, as_json, &exit_code] { exit_code = report(show_stacks(*run, *rank, *as_json)); });
}

}  // namespace paceline::cli
