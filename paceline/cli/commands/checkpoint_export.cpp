// paceline checkpoint export PATH -o OUT [--item ITEM] [--max-shard-size SIZE] [--json]
#include "paceline/checkpoint/export.h"

#include "paceline/checkpoint/tensor_reader.h"
#include "paceline/cli/command.h"
#include "paceline/cli/commands/checkpoint.h"
#include "paceline/cli/table.h"
#include "paceline/core/bytes_text.h"
#include "paceline/storage/location.h"

namespace paceline::cli {
namespace {

struct ExportSettings {
  std::string output;
  std::string item;
  bool all = false;
  int64_t most_shard_bytes = checkpoint::kMostShardBytes;
};

// The model is what others want; a checkpoint that has none is exported whole.
arrow::Result<std::string> item_of(const storage::Location& path, const ExportSettings& settings) {
  if (settings.all || !settings.item.empty()) return settings.item;
  ARROW_ASSIGN_OR_RAISE(const auto reader, checkpoint::TensorReader::open(path));
  return checkpoint::tensors_of_item(reader.manifest(), "model").ok() ? "model" : "";
}

arrow::Status export_tensors(const std::string& text, const ExportSettings& settings, bool as_json) {
  ARROW_ASSIGN_OR_RAISE(const storage::Location path, storage::resolve_here(text));
  ARROW_ASSIGN_OR_RAISE(const std::string item, item_of(path, settings));
  const bool for_torch = settings.output.ends_with(".pt") || settings.output.ends_with(".pth");
  ARROW_ASSIGN_OR_RAISE(const auto exported, for_torch ? checkpoint::export_torch(path, item, settings.output)
                                                       : checkpoint::export_safetensors(path, item, settings.output,
                                                                                        settings.most_shard_bytes));
  if (as_json) {
    print(encode_json(
              {{"files", exported.files}, {"item", item}, {"tensors", exported.tensors}, {"bytes", exported.bytes}}) +
          "\n");
    return arrow::Status::OK();
  }
  for (const std::string& file : exported.files) print(printable(file) + "\n");
  print(std::to_string(exported.tensors) + " tensors" + (item.empty() ? "" : " of \"" + item + "\"") + ", " +
        bytes_text(exported.bytes) + "\n");
  return arrow::Status::OK();
}

}  // namespace

void add_checkpoint_export(CLI::App& group, int& exit_code) {
  CLI::App* command =
      group.add_subcommand("export", "Write a checkpoint's tensors for PyTorch in Python or for Hugging Face");
  command->footer(
      "Examples: paceline checkpoint export mnist/checkpoint_000042 -o exported\n"
      "          paceline checkpoint export mnist/checkpoint_000042 -o model.pt\n"
      "If OUT ends with .pt or .pth, it is a file for torch.load(weights_only=True). Otherwise it is a folder for\n"
      "model.safetensors, or for several files with an index. Sharded tensors are put together.");
  const auto path = add_checkpoint_path(*command, "PATH");
  const auto settings = std::make_shared<ExportSettings>();
  add_output(*command, settings->output, "Folder, or a file that ends with .pt")->required()->type_name("OUT");
  auto* item = command
                   ->add_option("--item", settings->item,
                                "Export only this item's tensors, under their names in it; by default \"model\" if "
                                "there is one")
                   ->type_name("ITEM");
  command->add_flag("--all", settings->all, "Export the tensors of all items, named ITEM/NAME")->excludes(item);
  command->add_option("--max-shard-size", settings->most_shard_bytes, "Largest size of a safetensors file: 5GB, 500MB")
      ->transform(CLI::AsSizeValue(true).description(""))
      ->type_name("SIZE");
  const auto as_json = add_json(*command);
  command->callback([=, &exit_code] { exit_code = report(export_tensors(*path, *settings, *as_json)); });
}

}  // namespace paceline::cli
