// docs/configuration.md is written from the declarations of the settings. PACELINE_UPDATE_DOCS=1 writes it anew.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "paceline/amp/grad_scaler.h"
#include "paceline/core/config/run_config.h"
#include "paceline/core/config/scaling_config.h"
#include "paceline/core/config/validation_config.h"
#include "paceline/loader/options.h"
#include "paceline/parallel/ddp/data_parallel.h"
#include "paceline/storage/local/durable.h"
#include "paceline/train/prepare_model.h"
#include "paceline/train/torch_config.h"

namespace paceline {
namespace {

std::string default_text(const Json& value) {
  if (value.is_null()) return "not set";
  return value.is_object() && !value.empty() ? "see below" : "`" + encode_json(value) + "`";
}

template <class C>
void describe(std::ostream& out, const char* name, const char* what) {
  out << "\n## " << name << "\n\n" << what << "\n\n| field | default | allowed | meaning |\n|---|---|---|---|\n";
  for (const FieldInfo& field : C::fields()) {
    out << "| `" << field.name << "` | " << default_text(field.default_value) << " | " << field.allowed << " | "
        << field.help << " |\n";
  }
}

// All but the page's head, which stands in the page alone.
std::string tables() {
  std::ostringstream out;
  describe<ScalingConfig>(out, "ScalingConfig", "How many workers, and what each of them gets.");
  describe<RunConfig>(out, "RunConfig", "What a run is called, where it is stored, how it fails, what it keeps.");
  describe<FailureConfig>(out, "FailureConfig",
                          "How often a run restarts after failures, and how a dead worker is recognised.");
  describe<DebugConfig>(out, "DebugConfig", "What is watched while a run trains; docs/diagnosis.md explains it.");
  describe<CheckpointConfig>(out, "CheckpointConfig", "Which checkpoints of a run are kept.");
  describe<TrackerConfig>(out, "TrackerConfig",
                          "A place to which metrics go in addition to the run folder (tracking.md).");
  describe<ValidationTaskConfig>(out, "ValidationTaskConfig",
                                 "What one validation of a checkpoint gets, in `ValidationConfig::task_config` for the "
                                 "whole run and in `ReportOptions::validation` for one checkpoint.");
  describe<TorchConfig>(out, "TorchConfig", "How the workers' process group is made.");
  describe<DataLoaderOptions>(out, "DataLoaderOptions", "How `prepare_data_loader` makes batches.");
  describe<PrepareModelOptions>(out, "PrepareModelOptions", "What `prepare_model` does to a model.");
  describe<DdpOptions>(out, "DdpOptions", "Data parallelism, in `PrepareModelOptions::ddp`.");
  describe<GradScalerOptions>(out, "GradScalerOptions", "How `GradScaler` keeps float16 gradients from vanishing.");
  return out.str();
}

TEST(ConfigurationDoc, IsWhatTheDeclarationsSay) {
  const std::string page = storage::read_file(CONFIGURATION_DOC).ValueOrDie();
  const size_t head = page.find("\n## ");
  ASSERT_NE(head, std::string::npos);
  if (std::getenv("PACELINE_UPDATE_DOCS") != nullptr) {
    std::ofstream(CONFIGURATION_DOC) << page.substr(0, head) << tables();
    return;
  }
  EXPECT_EQ(page.substr(head), tables()) << "write it anew: PACELINE_UPDATE_DOCS=1 ctest -R ConfigurationDoc";
}

}  // namespace
}  // namespace paceline
