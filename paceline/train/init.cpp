#include "paceline/train/init.h"

#include <cstdio>
#include <filesystem>
#include <iostream>
#include <optional>

#include "paceline/core/error.h"
#include "paceline/train/data/dataset_shards.h"
#include "paceline/train/driver.h"
#include "paceline/train/launch_overrides_internal.h"
#include "paceline/train/train_loop.h"
#include "paceline/train/uncaught_internal.h"
#include "paceline/train/validation.h"
#include "paceline/train/worker/language_runtime.h"
#include "paceline/worker/connection.h"

namespace paceline {
namespace train {
namespace {

std::optional<Driver> the_driver;

// Functions of this very program, found by their names.
class OwnProgram final : public LanguageRuntime {
 public:
  std::shared_ptr<comm::Group> connect(const comm::GroupOptions& options, const WorkerStart& start) override {
    loop_ = find_train_loop(start.welcome.train_loop);  // before anybody waits for this rank
    return LanguageRuntime::connect(options, start);
  }
  Json train(const WorkerStart& start) override {
    offer_datasets(start.attachment);
    start.progress.set_phase(Phase::training);
    return (*loop_)(Config(start.welcome.train_loop_config));
  }
  Metrics validate(const rpc::Welcome& welcome, std::string_view) override {
    const ValidationFn validate = find_validation(welcome.validation_fn);
    return validate(CheckpointAccess::published(welcome.checkpoint), Config(welcome.validation_config));
  }
  data::DataServiceOptions data_service(const rpc::Welcome&, std::string_view attachment) override {
    const RunDatasets datasets = decode_datasets(attachment);
    const auto open = [datasets](const std::string& name) -> arrow::Result<std::shared_ptr<data::DatasetReader>> {
      const auto plan = datasets.plans.find(name);
      if (plan == datasets.plans.end()) return arrow::Status::KeyError("there is no dataset '", name, "'");
      ARROW_ASSIGN_OR_RAISE(data::OpenPlan open, data::open(plan->second));
      return data::local_reader(std::move(open));
    };
    const ReadLimits limits = limits_of(datasets.config.execution_options);
    return {.open = open, .threads = limits.threads, .read_ahead_bytes = limits.read_ahead_bytes};
  }

 private:
  std::optional<TrainLoop> loop_;
};

[[noreturn]] void become_worker() {
  OwnProgram program;
  run_worker(program);
}

// What waits in them to be written is the driver's to write, not every worker's again.
void flush_streams() {
  std::cout.flush();
  std::clog.flush();
  std::fflush(nullptr);
}

}  // namespace

void become_driver(Driver driver) {
  if (!the_driver) the_driver.emplace(std::move(driver));
}

bool is_driver() {
  return the_driver.has_value();
}

const Driver& driver() {
  if (!the_driver) {
    throw UsageError(
        "fit() needs paceline::init(argc, argv) at the top of main(): workers are this program from there "
        "on");
  }
  return *the_driver;
}

}  // namespace train

void init(int argc, char** argv) {
  if (worker::Connection::offered()) train::become_worker();
  if (train::is_driver()) return;
  train::tell_uncaught_errors();
  train::launch_overrides();
  train::StartMethod start = train::start_method_at_init();
  train::flush_streams();
  auto guardian = agent::Guardian::fork_with_workers();
  if (!guardian.ok()) throw UsageError("paceline::init: " + guardian.status().message());
  if (!*guardian) {
    train::reseed();
    train::become_worker();
  }
  std::vector<std::string> program{std::filesystem::read_symlink("/proc/self/exe").string()};
  program.insert(program.end(), argv + (argc > 0 ? 1 : 0), argv + argc);
  train::become_driver({.program = std::move(program), .guardian = **std::move(guardian), .start = std::move(start)});
}

}  // namespace paceline
