// paceline checkpoint ls | verify | now | diff | export
#include "paceline/cli/commands/checkpoint.h"

#include "paceline/checkpoint/store.h"
#include "paceline/cli/command.h"
#include "paceline/cli/run_lookup.h"
#include "paceline/cli/table.h"
#include "paceline/core/bytes_text.h"
#include "paceline/core/clock.h"
#include "paceline/run/reader.h"
#include "paceline/track/status_line.h"
#include "paceline/views/checkpoint_list.h"
#include "paceline/views/run_actions.h"

namespace paceline::cli {
namespace {

// "1 file", "2 files".
std::string counted(int64_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

arrow::Status verify(const std::string& text, bool as_json) {
  ARROW_ASSIGN_OR_RAISE(const storage::Location path, storage::resolve_here(text));
  ARROW_ASSIGN_OR_RAISE(const views::VerifiedCheckpoint found, views::verify_checkpoint(path));
  if (as_json) {
    Json json = found;
    json["path"] = path;
    print(encode_json(json) + "\n");
  }
  if (!found.is_whole) return arrow::Status::IOError(found.problem);
  if (!as_json) {
    print(printable(path.text()) + " is whole: " + counted(found.files, "file") + ", " +
          counted(found.tensors, "tensor") + ", " + counted(found.bytes, "byte") + "\n");
  }
  return arrow::Status::OK();
}

arrow::Status ls(const std::string& run, bool as_json) {
  ARROW_ASSIGN_OR_RAISE(const FoundRun found, find_run(run));
  ARROW_ASSIGN_OR_RAISE(const auto checkpoints, views::list_checkpoints(found.location));
  Table table({"CHECKPOINT", "WRITTEN", "SIZE", "FILES", "TENSORS", "METRICS"});
  const double now = to_seconds(SystemClock().now());
  for (const views::ListedCheckpoint& one : checkpoints) {
    table.add({one.name, ago_text(now - one.time), bytes_text(one.bytes), std::to_string(one.files),
               std::to_string(one.tensors), track::metrics_text(one.metrics)});
  }
  if (as_json) {
    print(encode_json(checkpoints) + "\n");
  } else {
    print(checkpoints.empty() ? "no checkpoints\n" : table.text(output_columns()));
  }
  return arrow::Status::OK();
}

arrow::Status ask_for_checkpoint(const std::string& run, bool as_json) {
  ARROW_ASSIGN_OR_RAISE(const FoundRun found, find_run(run));
  ARROW_ASSIGN_OR_RAISE(const track::RunRecord record, run::read_run_folder(found.folder));
  ARROW_RETURN_NOT_OK(views::ask_run_for_checkpoint(record.run, asker("checkpoint now")));
  // Whether the loop then reports one nobody knows before it does.
  if (as_json) {
    print(encode_json({{"run", record.run.name}}) + "\n");
    return arrow::Status::OK();
  }
  print("the ranks hear that they are to save a checkpoint at one of their next steps; `paceline checkpoint ls " + run +
        "` lists it once their loop has reported it\n");
  return arrow::Status::OK();
}

}  // namespace

std::shared_ptr<std::string> add_checkpoint_path(CLI::App& command, const std::string& name) {
  const auto path = std::make_shared<std::string>();
  command.add_option(name, *path, "Folder of the checkpoint: RUN_FOLDER/checkpoint_000042, a path or a URI")
      ->required()
      ->type_name("");
  return path;
}

void add_checkpoint_ls(CLI::App& group, int& exit_code) {
  CLI::App* command = group.add_subcommand("ls", "List the checkpoints of a run, oldest first");
  command->footer("Example: paceline checkpoint ls mnist");
  const auto run = add_run(*command);
  const auto as_json = add_json(*command);
  command->callback([=, &exit_code] { exit_code = report(ls(*run, *as_json)); });
}

void add_checkpoint_verify(CLI::App& group, int& exit_code) {
  CLI::App* command = group.add_subcommand("verify", "Compare every file of a checkpoint with its manifest");
  command->footer("Example: paceline checkpoint verify ~/paceline_results/mnist/checkpoint_000042");
  const auto path = add_checkpoint_path(*command, "PATH");
  const auto as_json = add_json(*command);
  command->callback([=, &exit_code] { exit_code = report(verify(*path, *as_json)); });
}

void add_checkpoint_now(CLI::App& group, int& exit_code) {
  CLI::App* command = group.add_subcommand("now", "Ask a live run to save a checkpoint");
  command->footer(
      "Example: paceline checkpoint now mnist\n"
      "The train loop saves it, at one of its next steps, if it calls checkpoint_requested(); training continues.");
  const auto run = add_run(*command);
  const auto as_json = add_json(*command);
  command->callback([=, &exit_code] { exit_code = report(ask_for_checkpoint(*run, *as_json)); });
}

void add_checkpoint(CLI::App& program, int& exit_code) {
  CLI::App* group = program.add_subcommand("checkpoint", "List, verify, ask for, compare and export checkpoints");
  group->require_subcommand(1);
  add_checkpoint_ls(*group, exit_code);
  add_checkpoint_verify(*group, exit_code);
  add_checkpoint_now(*group, exit_code);
  add_checkpoint_diff(*group, exit_code);
  add_checkpoint_export(*group, exit_code);
}

}  // namespace paceline::cli
