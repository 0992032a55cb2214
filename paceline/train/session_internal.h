// Session: the state behind the functions of session.h, for one generation of one worker. Not for users.
//
// One session at a time is current in a process; the train loop can be entered again with the next. What a report
// becomes is the ReportSink's affair: a message to the controller in workers, files of the run in local mode.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "paceline/checkpoint/stage.h"
#include "paceline/comm/group.h"
#include "paceline/core/config/scaling_config.h"
#include "paceline/core/error.h"
#include "paceline/core/progress.h"
#include "paceline/parallel/ddp/data_parallel.h"
#include "paceline/rpc/messages.h"
#include "paceline/state/step.h"
#include "paceline/train/session.h"

namespace paceline::train {

/// Where reports go. submit() must not block on other ranks when the report has no checkpoint.
class ReportSink {
 public:
  virtual ~ReportSink() = default;
  virtual void submit(rpc::Report report) = 0;
  virtual void show_progress(rpc::Progress progress) = 0;
};

struct SessionOptions {
  Identity identity;
  TrainContext::Values context;
  torch::Device device = torch::kCPU;
  std::shared_ptr<comm::Group> group;
  std::shared_ptr<rpc::KeyValueClient> store;  // null where there is no controller: then the group's own collectives do
  std::chrono::milliseconds timeout{std::chrono::minutes(30)};
  std::string checkpoint;  // path to start from, "" for none
  int64_t first_report = 1;
  ReportSink* sink = nullptr;
  Progress* progress = nullptr;  // null in local mode
};

class Session {
 public:
  explicit Session(SessionOptions options);
  ~Session();

  /// The session of this process; UsageError naming `function` when there is none.
  static Session& current(const char* function);
  static Session* current_or_null();

  const SessionOptions& options() const { return options_; }
  comm::Group& group() const { return *options_.group; }
  const std::shared_ptr<StepLedger>& ledger() const { return ledger_; }

  void report(const Metrics& metrics, const std::optional<Checkpoint>& checkpoint, const ReportOptions& options);
  /// Reports made so far in this session.
  int64_t reports() const { return reports_; }
  /// Begins a save(): gives its number. What an earlier one staged and nobody has reported is deleted.
  int64_t begin_save();
  /// A stage of this session: stages are never reused.
  checkpoint::Stage create_stage();
  /// The save() at hand staged this, relative to the run folder; "" for nothing on this rank.
  void finish_save(std::string staged) { unreported_stage_ = std::move(staged); }

  std::optional<Checkpoint> checkpoint() const;
  void set_checkpoint(const std::string& path);

  /// From any thread: from now on throw_if_stopped() throws, and collectives that wait fail.
  void stop(const std::string& reason);
  bool is_stopped() const { return stopped_; }
  void throw_if_stopped() const;
  /// Runs a collective: one that fails because the run is being stopped throws Stopped.
  template <class Call>
  auto collective(Call call) {
    throw_if_stopped();
    set_phase(Phase::collective);
    const auto end = [this] { set_phase(Phase::training); };
    try {
      if constexpr (std::is_void_v<decltype(call())>) {
        call();
        end();
      } else {
        auto result = call();
        end();
        return result;
      }
    } catch (const CollectiveError&) {
      throw_if_stopped();
      throw;
    }
  }

  void barrier();
  Json broadcast_from_rank_zero(const Json& value);

  void set_phase(Phase phase);
  void set_step(int64_t step);

  /// Data parallelism of the modules that prepare_model() has seen.
  void adopt(const torch::nn::Module& module, std::shared_ptr<parallel::DataParallel> model);
  /// Null when prepare_model() has not seen `module`.
  std::shared_ptr<parallel::DataParallel> data_parallel(const torch::nn::Module& module) const;
  /// A module that prepare_model() has left to this rank alone.
  void adopt_local(std::shared_ptr<torch::nn::Module> module) { local_modules_.push_back(std::move(module)); }
  const std::vector<std::shared_ptr<torch::nn::Module>>& local_modules() const { return local_modules_; }
  void void_step();

 private:
  std::string store_key(const char* what);
  void meet_in_store();
  std::string broadcast_through_store(const std::string& text);

  SessionOptions options_;
  std::shared_ptr<StepLedger> ledger_ = std::make_shared<StepLedger>();
  int64_t reports_ = 0;
  int64_t stages_ = 0;
  int64_t saves_ = 0;
  bool save_is_unreported_ = false;  // that of number saves_
  std::string unreported_stage_;
  int64_t meetings_ = 0;
  std::string last_barrier_key_;  // this rank's, of the barrier before
  std::atomic<bool> stopped_{false};
  mutable std::mutex mutex_;  // guards checkpoint_ and stop_reason_
  std::string checkpoint_;
  std::string stop_reason_;
  std::unordered_map<const torch::nn::Module*, std::shared_ptr<parallel::DataParallel>> models_;
  std::vector<std::shared_ptr<torch::nn::Module>> local_modules_;
};

/// The device of the worker with this local rank. With several GPUs each it is the first of its own.
torch::Device device_of(int64_t local_rank, const ScalingConfig& scaling);
/// Makes `device` that of this thread's new tensors and streams; nothing for the CPU.
void select_device(torch::Device device);

}  // namespace paceline::train
