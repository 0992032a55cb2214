// paceline checkpoint verify PATH
#include <cstdio>

#include "paceline/checkpoint/store.h"
#include "paceline/cli/command.h"

namespace paceline::cli {
namespace {

// "1 file", "2 files".
std::string counted(int64_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

arrow::Status verify(const std::string& path) {
  ARROW_RETURN_NOT_OK(checkpoint::verify(path));
  ARROW_ASSIGN_OR_RAISE(const auto manifest, checkpoint::read_manifest(path));
  int64_t bytes = 0;
  for (const auto& [name, file] : manifest.files) bytes += file.size;
  std::printf("%s is whole: %s, %s, %s\n", path.c_str(), counted(std::ssize(manifest.files), "file").c_str(),
              counted(std::ssize(manifest.tensors), "tensor").c_str(), counted(bytes, "byte").c_str());
  return arrow::Status::OK();
}

}  // namespace

void add_checkpoint(CLI::App& program, int& exit_code) {
  CLI::App* group = program.add_subcommand("checkpoint", "Commands for checkpoints");
  group->require_subcommand(1);
  CLI::App* command = group->add_subcommand("verify", "Compare every file of a checkpoint with its manifest");
  const auto path = std::make_shared<std::string>();
  command->add_option("path", *path, "Folder of the checkpoint: RUN_FOLDER/checkpoint_000042")->required();
  command->callback([path, &exit_code] { exit_code = report(verify(*path)); });
}

}  // namespace paceline::cli
