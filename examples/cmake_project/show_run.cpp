// Shows a run's losses and what its latest checkpoint holds: show_run RUN_FOLDER.
#include <paceline/checkpoint/store.h>
#include <paceline/track/metrics_history.h>

#include <iostream>

arrow::Status show(const std::string& run_folder) {
  ARROW_ASSIGN_OR_RAISE(const auto history, paceline::track::read_history(run_folder));
  for (const auto& row : history) {
    if (const auto* metrics = paceline::track::shown_metrics(row)) {
      std::cout << "report " << row.report << ": " << *metrics << "\n";
    }
  }
  ARROW_ASSIGN_OR_RAISE(const auto checkpoints, paceline::checkpoint::Store(run_folder).list());
  if (checkpoints.empty()) return arrow::Status::OK();
  ARROW_ASSIGN_OR_RAISE(const auto manifest, paceline::checkpoint::read_manifest(checkpoints.back().path));
  for (const auto& [name, tensor] : manifest.tensors) {
    std::cout << name << ": " << tensor.dtype << " " << nlohmann::json(tensor.shape) << "\n";
  }
  return arrow::Status::OK();
}

int main(int argc, char** argv) {
  const auto status = argc == 2 ? show(argv[1]) : arrow::Status::Invalid("usage: show_run RUN_FOLDER");
  if (!status.ok()) std::cerr << status.message() << "\n";
  return status.ok() ? 0 : 1;
}
