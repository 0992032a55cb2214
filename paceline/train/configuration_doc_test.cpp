// docs/configuration.md is written from the declarations of the settings. PACELINE_UPDATE_DOCS=1 writes it anew.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "paceline/amp/grad_scaler.h"
#include "paceline/core/config/run_config.h"
#include "paceline/core/config/scaling_config.h"
#include "paceline/core/config/validation_config.h"
#include "paceline/loader/options.h"
#include "paceline/parallel/ddp/data_parallel.h"
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

std::string document() {
  std::ostringstream out;
  out << "# Configuration\n\nEvery setting, as it is declared in the code (this page is written from the declarations "
         "and checked by a test).\nA wrong value throws `ConfigError` naming field, value and what is allowed, before "
         "any work is done.\n\nPython's classes take defaults, help and checks from the same declarations: "
         "`help(paceline.train.RunConfig)`. Where Ray\nTrain has another name for a field, that is its name there.\n";
  describe<ScalingConfig>(out, "ScalingConfig", "How many workers, and what each of them gets.");
  describe<RunConfig>(out, "RunConfig", "What a run is called, where it is stored, how it fails, what it keeps.");
  describe<FailureConfig>(out, "FailureConfig", "How often a run is tried again, and how a dead worker is recognised.");
  describe<DebugConfig>(out, "DebugConfig", "What is watched while a run trains; docs/diagnosis.md explains it.");
  describe<CheckpointConfig>(out, "CheckpointConfig", "Which checkpoints of a run stay.");
  describe<TrackerConfig>(out, "TrackerConfig",
                          "Where metrics go beside the run folder: one place each (tracking.md).");
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
  if (std::getenv("PACELINE_UPDATE_DOCS") != nullptr) std::ofstream(CONFIGURATION_DOC) << document();
  std::ifstream file(CONFIGURATION_DOC);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), document()) << "write it anew: PACELINE_UPDATE_DOCS=1 ctest -R ConfigurationDoc";
}

}  // namespace
}  // namespace paceline
