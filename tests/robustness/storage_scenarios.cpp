// The driver program of the storage tests: `storage_scenarios STORAGE RUN` reports checkpoints from two workers.
//
// Environment: REPORTS, how many (0: until it is stopped); KIBIBYTES, the size of each checkpoint; or FILES, a folder
// that each checkpoint is a copy of.
#include <paceline/paceline.h>

#include <cstdio>
#include <filesystem>

namespace {

int64_t number(const char* variable, int64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::stoll(text);
}

void report_checkpoints() {
  if (auto checkpoint = paceline::get_checkpoint()) {
    std::printf("continue from %s\n", std::filesystem::path(checkpoint->path()).filename().c_str());
  }
  const char* files = std::getenv("FILES");
  auto model = paceline::prepare_model(torch::nn::Linear(256, number("KIBIBYTES", 1)));  // rows of 1 KiB
  const int64_t reports = number("REPORTS", 5);
  for (int64_t step = 1; reports == 0 || step <= reports; ++step) {
    paceline::barrier();  // as in data-parallel loops, no rank runs ahead of another that starves
    paceline::report({{"step", step}},
                     files ? paceline::Checkpoint::from_directory(files) : paceline::Checkpoint::save(model));
  }
}
PACELINE_TRAIN_LOOP(report_checkpoints);

}  // namespace

int main(int argc, char** argv) {
  paceline::init(argc, argv);
  try {
    const auto result =
        paceline::TorchTrainer(report_checkpoints, {.scaling_config = {.num_workers = 2},
                                                    .run_config = {.name = argv[2], .storage_path = argv[1]}})
            .fit();
    std::printf("state %s\nfolder %s\n", result.state.c_str(), result.path.c_str());
    return 0;
  } catch (const paceline::TrainingFailedError& error) {
    std::printf("TrainingFailedError: %s\n", error.what());
    return 1;
  } catch (const paceline::Error& error) {
    std::printf("Error: %s\n", error.what());
    return 2;
  }
}
