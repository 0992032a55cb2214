// paceline checkpoint diff FIRST SECOND [-n N] [--json]
#include "paceline/checkpoint/diff.h"

#include "paceline/cli/command.h"
#include "paceline/cli/commands/checkpoint.h"
#include "paceline/cli/table.h"
#include "paceline/core/json.h"
#include "paceline/storage/location.h"

namespace paceline::cli {
namespace {

std::string text_of(const checkpoint::CheckpointDiff& diff, size_t most) {
  if (checkpoint::is_equal(diff)) return "equal: " + std::to_string(diff.equal) + " tensors\n";
  std::string text;
  for (const std::string& name : diff.only_first) text += "only in the first:  " + printable(name) + "\n";
  for (const std::string& name : diff.only_second) text += "only in the second: " + printable(name) + "\n";
  for (const auto& change : diff.changed) {
    text += "changed: " + printable(change.name) + ": " + change.first + " -> " + change.second + "\n";
  }
  for (const std::string& item : diff.values) text += "other values in item: " + printable(item) + "\n";
  if (!diff.differences.empty()) {
    Table table({"TENSOR", "LARGEST", "RELATIVE", "DIFFERING"});
    for (size_t i = 0; i < diff.differences.size() && i < most; ++i) {
      const auto& one = diff.differences[i];
      const auto number = [](double value) { return value < 0 ? "not compared" : number_text(value); };
      table.add({one.name, number(one.largest), number(one.relative),
                 std::to_string(one.differing) + " of " + std::to_string(one.elements)});
    }
    text += table.text(output_columns());
    if (diff.differences.size() > most) {
      text += "and " + std::to_string(diff.differences.size() - most) + " more tensors with smaller differences\n";
    }
  }
  return text + std::to_string(diff.equal) + " tensors are equal\n";
}

arrow::Result<checkpoint::CheckpointDiff> diff_of(const std::string& first, const std::string& second) {
  ARROW_ASSIGN_OR_RAISE(const storage::Location one, storage::resolve_here(first));
  ARROW_ASSIGN_OR_RAISE(const storage::Location other, storage::resolve_here(second));
  return checkpoint::diff(one, other);
}

int compare(const std::string& first, const std::string& second, size_t most, bool as_json) {
  const auto diff = diff_of(first, second);
  if (!diff.ok()) return report(diff.status());
  print(as_json ? encode_json(*diff) + "\n" : text_of(*diff, most));
  return checkpoint::is_equal(*diff) ? kDone : kFailed;
}

}  // namespace

void add_checkpoint_diff(CLI::App& group, int& exit_code) {
  CLI::App* command = group.add_subcommand("diff", "Compare two checkpoints tensor by tensor");
  command->footer(
      "Example: paceline checkpoint diff mnist/checkpoint_000001 mnist/checkpoint_000002\n"
      "Exit code 1: the checkpoints differ (as with diff), or could not be read (then standard error has the reason).");
  const auto first = add_checkpoint_path(*command, "FIRST");
  const auto second = add_checkpoint_path(*command, "SECOND");
  const auto most = std::make_shared<size_t>(20);
  command->add_option("-n,--limit", *most, "Show the N tensors with the largest differences")
      ->type_name("N")
      ->capture_default_str();
  const auto as_json = add_json(*command);
  command->callback([=, &exit_code] { exit_code = compare(*first, *second, *most, *as_json); });
}

}  // namespace paceline::cli
