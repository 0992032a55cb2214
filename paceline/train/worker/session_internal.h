// Session: the state behind the functions of session.h, for one generation of one worker. Not for users.
//
// One session at a time is current in a process; the train loop can be entered again with the next. What a report
// becomes is the ReportSink's affair: a message to the controller in workers, a meeting of the ranks in the calling
// process.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "paceline/checkpoint/stage.h"
#include "paceline/comm/group.h"
#include "paceline/core/config/debug_config.h"
#include "paceline/core/config/scaling_config.h"
#include "paceline/core/error.h"
#include "paceline/core/progress.h"
#include "paceline/parallel/parallel_model.h"
#include "paceline/rpc/messages.h"
#include "paceline/state/step.h"
#include "paceline/storage/location.h"
#include "paceline/train/data/dataset_shards.h"
#include "paceline/train/nan_watch.h"
#include "paceline/train/session.h"
#include "paceline/train/torch_config.h"
#include "paceline/train/worker/arena_internal.h"
#include "paceline/train/worker/step_owner_internal.h"
#include "paceline/train/worker/upload_internal.h"
#include "paceline/train/worker/upload_queue_internal.h"

namespace paceline::train {

/// Where reports go. submit() must not block on other ranks when the report has no checkpoint.
class ReportSink {
 public:
  virtual ~ReportSink() = default;
  virtual void submit(rpc::Report report) = 0;
  /// The files of a report that was `uploading`. Never called where takes_from_any_thread() is false.
  // NOLINTNEXTLINE(performance-unnecessary-value-param): overriders move it
  virtual void submit_files(rpc::CheckpointUploaded) {}
  /// Whether report() of that number may go on. Where not, wait_for_room() waits until it may; it throws an Error when
  /// that will not be.
  virtual bool has_room_for(int64_t report) const { return true; }
  virtual void wait_for_room(int64_t report) {}
  /// Whether submit() and fail() may be called from another thread than the train loop's. Where not, report() waits
  /// for its files in every mode.
  virtual bool takes_from_any_thread() const = 0;
  /// The loop goes on, but one of its reports cannot be made any more.
  virtual void fail(const std::exception_ptr& error) = 0;
  /// What the request says. Throws an Error when there is no answer.
  virtual PublishedCheckpoints checkpoints(const rpc::CheckpointsRequest& request) = 0;
  /// Whether somebody wants a checkpoint: one call of the train loop, on every rank.
  virtual bool checkpoint_requested() { return false; }
  virtual void show_progress(rpc::ProgressBar progress) = 0;
};

struct SessionOptions {
  Identity identity;
  std::string driver;  // its name in the paths of stages
  TrainContext::Values context;
  torch::Device device = torch::kCPU;  // the first of devices
  // As rpc::Assign has them.
  std::string address;
  std::string master_address;
  std::vector<torch::Device> devices{torch::kCPU};
  std::shared_ptr<comm::Group> group;
  /// Where `group` is null: the group that the program has made, if it has one now.
  std::function<std::shared_ptr<comm::Group>()> find_group;
  std::shared_ptr<rpc::KeyValueClient> store;  // null where there is no controller: then the group's own collectives do
  std::chrono::milliseconds timeout{std::chrono::minutes(30)};
  std::string run_folder;  // local, where files are staged; "" where nothing is stored
  /// The run's object store, to which stages are sent; null where the driver sees `run_folder`.
  std::shared_ptr<storage::Storage> stages;
  storage::Location checkpoint;  // to start from, "" for none
  int64_t first_report = 1;
  bool has_validation = false;
  std::function<arrow::Result<Descriptor>()> connect_data;  // null: the node has no data process
  ReportSink* sink = nullptr;
  Progress* progress = nullptr;  // null in the calling process
  DebugConfig debug_config;
};

class Session {
 public:
  explicit Session(SessionOptions options);
  ~Session();

  /// The session of this process; UsageError naming `function` when there is none.
  static Session& current(const char* function);
  static Session* current_or_null();

  const SessionOptions& options() const { return options_; }
  /// UsageError where the program connects its ranks itself, and has not.
  std::shared_ptr<comm::Group> group() const;
  const std::shared_ptr<StepLedger>& ledger() const { return ledger_; }
  /// The datasets of the run.
  DatasetShards& datasets() { return datasets_; }

  void report(const Metrics& metrics, const std::optional<Checkpoint>& checkpoint, const ReportOptions& options);
  /// Reports made so far in this session.
  int64_t reports() const { return reports_; }
  /// Waits until all reports are handed over; throws what has kept one from it.
  void finish_uploads() { uploads_.drain(); }
  /// The loop has returned: waits for that, and for the publications behind which the user's folders are deleted.
  void finish();
  /// Begins a save(): gives its number. What an earlier one staged and nobody has reported is deleted.
  int64_t begin_save();
  /// Where the next stage goes, with where datasets are by now: stages are never reused.
  StagePlace next_stage();
  /// The save() at hand stages this; "" for nothing on this rank.
  void finish_save(Upload staged) { unreported_ = std::move(staged); }
  /// Starts work on a thread, once not too much is under way.
  Upload start_upload(std::function<std::string()> work);
  /// An arena that no upload uses. Hold it for as long as its copies are needed. Waits as start_upload() does.
  std::shared_ptr<Arena> free_arena();

  /// The latest published; first waits until the one that this rank has reported last, not with `async`, is.
  std::optional<Checkpoint> checkpoint();
  std::vector<ReportedCheckpoint> checkpoints(CheckpointConsistencyMode mode, std::optional<double> timeout_s);
  /// The checkpoint of report number `report` is published.
  void set_checkpoint(const storage::Location& location, int64_t report);

  bool checkpoint_requested();

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

  /// As collective(), for a `call` of the user's: CollectiveError when the ranks' calls do not fit together.
  void checked_collective(Collective kind, const std::string& operation, const torch::Tensor& tensor,
                          const std::function<void()>& call);
  void barrier();
  Json broadcast_from_rank_zero(const Json& value);

  void set_phase(Phase phase);
  /// A loader of this session has got a batch, which is a step of that number where the loop trains with it.
  void set_step(int64_t step);
  /// An optimizer has stepped, which is a step of the loop where no loader counts them.
  void count_step();

  /// What prepare_model() has made of a module; kept as long as somebody else holds the module.
  void adopt(std::shared_ptr<parallel::ParallelModel> model);
  /// Null when prepare_model() has not seen `module`.
  std::shared_ptr<parallel::ParallelModel> parallel_model(const torch::nn::Module& module) const;
  /// Lets go of models whose modules nobody holds any more. At every step, report and prepare_model().
  void forget_gone_models();
  /// Holds `module` as long as the session lives.
  void keep(std::shared_ptr<torch::nn::Module> module);
  /// The gradients of the module are watched, if that is wanted.
  void watch(const torch::nn::Module& module);
  void watch(const std::string& name, const torch::Tensor& parameter);
  void void_step();

 private:
  Upload upload(const Checkpoint& checkpoint, const ReportOptions& options, const std::string& folder_name);
  void check_validation(const std::optional<Checkpoint>& checkpoint, const ReportOptions& options) const;
  void wait_for_room();
  void wait_for_controller(int64_t report);
  void wait_until_committed(int64_t report);
  void wait_for_own_checkpoint();
  void finish_deletions();
  void fail(const std::exception_ptr& error);
  std::string store_key(const char* what);
  const std::shared_ptr<GroupProgress>& meeting_progress();
  void meet_in_store();
  std::string broadcast_through_store(const std::string& text);

  SessionOptions options_;
  const storage::FileId run_folder_id_;
  std::shared_ptr<StepLedger> ledger_ = std::make_shared<StepLedger>();
  DatasetShards datasets_;
  int64_t reports_ = 0;
  int64_t own_checkpoint_ = 0;  // number of the last report with a checkpoint that was handed over when it returned
  int64_t stages_ = 0;
  int64_t saves_ = 0;
  bool save_is_unreported_ = false;  // that of number saves_
  Upload unreported_;
  std::vector<std::shared_ptr<Arena>> arenas_;
  int64_t meetings_ = 0;
  std::shared_ptr<GroupProgress> meeting_progress_;  // where they are counted
  std::string last_barrier_key_;                     // this rank's, of the barrier before
  std::atomic<bool> stopped_{false};
  std::mutex steps_mutex_;
  StepOwner steps_of_;
  int64_t steps_before_batches_ = 0;  // of optimizers, beyond the batches until they counted again: steps never go back
  mutable std::mutex mutex_;          // guards checkpoint_, committed_, the deletions and stop_reason_
  std::condition_variable news_;
  storage::Location checkpoint_;
  int64_t committed_ = 0;                                  // number of the last report whose checkpoint is published
  std::map<int64_t, std::string> deleted_when_published_;  // the user's folders, by report
  std::vector<std::future<void>> deletions_;               // under way
  std::string stop_reason_;
  mutable std::mutex models_mutex_;  // guards models_
  std::vector<std::shared_ptr<parallel::ParallelModel>> models_;
  std::vector<std::shared_ptr<torch::nn::Module>> kept_;
  std::shared_ptr<NanWatch> nan_watch_;  // null where none is wanted
  UploadQueue uploads_;                  // last: its threads call this session
};

/// While it lives there is no session: what belongs to a train loop is refused. For functions of the user that run
/// inside a call of the session.
class WithoutSession {
 public:
  WithoutSession();
  ~WithoutSession();
  WithoutSession(const WithoutSession&) = delete;
  WithoutSession& operator=(const WithoutSession&) = delete;

 private:
  Session* const session_;
};

/// The options of the rank at the place that `context` says: its devices, of which the first becomes that of this
/// thread's new tensors and streams, and what the settings say. The group and what the run tells come later.
SessionOptions options_at_place(TrainContext::Values context, const ScalingConfig& scaling,
                                const TorchConfig& torch_config, const DebugConfig& debug_config);
/// How that rank's group is made.
comm::GroupOptions group_options(const SessionOptions& options, const TorchConfig& torch_config);

}  // namespace paceline::train
