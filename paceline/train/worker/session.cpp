#include "paceline/train/session.h"

#include <ATen/Context.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <mutex>

#include "paceline/checkpoint/store.h"
#include "paceline/comm/same_call.h"
#include "paceline/core/error.h"
#include "paceline/storage/local/durable.h"
#include "paceline/train/worker/session_internal.h"

namespace paceline {
namespace train {
namespace {

std::atomic<Session*> current_session{nullptr};
pid_t session_process = 0;       // of the last that was made
std::recursive_mutex reporting;  // one thread of the loop's reports at a time

void check_folder_name(const std::string& name) {
  if (name.empty()) return;
  const auto status = checkpoint::check_folder_name(name);
  if (!status.ok()) throw ConfigError("report()'s checkpoint_dir_name is \"" + name + "\"; " + status.message());
}

// The journal holds a checkpoint's metrics a few levels down.
void check_depth(const Json& metrics) {
  constexpr int kLevelsAbove = 20;
  if (!is_too_deep(metrics, kLevelsAbove)) return;
  throw ConfigError("report()'s metrics are nested more than " + std::to_string(kDeepestJson - kLevelsAbove) +
                    " levels deep, which nothing could read again: report numbers and texts by name");
}

}  // namespace

Session::Session(SessionOptions options)
    : options_(std::move(options)),
      run_folder_id_(storage::file_id(options_.run_folder).ValueOr(storage::FileId())),
      checkpoint_(options_.checkpoint),
      uploads_([this](rpc::Report report) { options_.sink->submit(std::move(report)); },
               [this](rpc::CheckpointUploaded files) { options_.sink->submit_files(std::move(files)); },
               [this](const std::exception_ptr& error) { fail(error); }) {
  if (const std::string& wanted = options_.debug_config.nan_watch; wanted != "off") {
    nan_watch_ = std::make_shared<NanWatch>(NanWatchOptions{
        .stop = wanted == "stop",
        .rank = options_.context.world_rank,
        .step = [this] { return options_.progress == nullptr ? ledger_->count() : options_.progress->step(); },
        .say = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); }});
  }
  session_process = ::getpid();
  current_session = this;
}

Session::~Session() {
  current_session = nullptr;
}

Session* Session::current_or_null() {
  return current_session;
}

Session& Session::current(const char* function) {
  Session* session = current_session;
  if (session == nullptr) {
    throw UsageError(std::string(function) +
                     " was called outside a train loop; call it in the function that is given "
                     "to TorchTrainer, while fit() runs it");
  }
  return *session;
}

void Session::report(const Metrics& metrics, const std::optional<Checkpoint>& checkpoint,
                     const ReportOptions& options) {
  static const Constraint kReductions = one_of({"", "mean", "sum", "min", "max"});
  const std::lock_guard lock(reporting);
  check_field("report()", "reduce", options.reduce, kReductions);
  check_folder_name(options.checkpoint_dir_name);
  throw_if_stopped();
  if (options_.progress != nullptr) options_.progress->note_report();
  forget_gone_models();
  if (nan_watch_ != nullptr) nan_watch_->check(metrics);
  const int64_t save = checkpoint ? CheckpointAccess::save_number(*checkpoint) : 0;
  if (save > 0 && (!save_is_unreported_ || save != saves_)) {
    throw UsageError(
        "report() was given a checkpoint of Checkpoint::save() that was reported already, or that a later save() has "
        "replaced; save again, or report each once, before the next save()");
  }
  check_validation(checkpoint, options);
  check_depth(metrics.json());
  wait_for_controller(options_.first_report + reports_);
  rpc::Report message{.index = options_.first_report + reports_, .metrics = metrics.json(), .reduce = options.reduce};
  message.folder_name = options.checkpoint_dir_name;
  message.validation = options.validation;
  Upload files;
  const bool waits = options.checkpoint_upload_mode == CheckpointUploadMode::sync;
  bool deletes = false;
  if (checkpoint) {
    set_phase(Phase::checkpoint);
    message.has_checkpoint = true;
    message.collective_save = save > 0;
    files = upload(*checkpoint, options, checkpoint::folder_name(message.folder_name, message.index));
    deletes = !options_.run_folder.empty() && deletes_local(*checkpoint, options, options_.run_folder);
    if (deletes) {
      const std::lock_guard lock(mutex_);
      deleted_when_published_[message.index] = checkpoint->path();
    }
    if (waits || !options_.sink->takes_from_any_thread()) files.get();
  }
  ++reports_;
  if (save > 0) save_is_unreported_ = false;
  const int64_t number = message.index;
  try {
    uploads_.submit(std::move(message), std::move(files), checkpoint && waits);
    if (checkpoint && waits && (options_.context.storage.is_uri() || deletes)) wait_until_committed(number);
  } catch (const CollectiveError&) {
    throw_if_stopped();
    throw;
  }
  if (checkpoint && options.checkpoint_upload_mode != CheckpointUploadMode::async) own_checkpoint_ = number;
  if (checkpoint) set_phase(Phase::training);
}

// A controller that is held up takes no more: the ranks wait here, and the status says so.
void Session::wait_for_controller(int64_t report) {
  if (options_.sink->has_room_for(report)) return;
  set_phase(Phase::report);
  try {
    options_.sink->wait_for_room(report);
  } catch (const Error&) {
    throw_if_stopped();
    throw;
  }
  set_phase(Phase::training);
}

void Session::check_validation(const std::optional<Checkpoint>& checkpoint, const ReportOptions& options) const {
  if (!options.validation) return;
  options.validation->validate();
  if (!checkpoint) throw ConfigError("report() is given a validation, but no checkpoint to validate");
  if (options_.has_validation) return;
  throw ConfigError(
      "report() is given a validation, but the run has no validation function; give the TorchTrainer a "
      "validation_config");
}

// The files of one report. What needs no work of its own has ended already.
Upload Session::upload(const Checkpoint& checkpoint, const ReportOptions& options, const std::string& folder_name) {
  if (options_.run_folder.empty()) return ended_upload("");
  UploadTask task{.stage = next_stage(),
                  .checkpoint = checkpoint,
                  .mode = options.checkpoint_upload_mode,
                  .function = options.checkpoint_upload_fn,
                  .folder_name = folder_name,
                  .to_object_store = options_.context.storage.is_uri()};
  check_upload(task, options);
  Upload saved = CheckpointAccess::staged(checkpoint);
  const bool has_no_files = saved.valid() && CheckpointAccess::is_elsewhere(checkpoint);
  const bool is_staged = has_no_files || (saved.valid() && !options.checkpoint_upload_fn);
  if (is_staged && (has_no_files || options_.stages == nullptr)) return saved;
  const CheckpointUploadMode mode = task.mode;
  const auto work = [task = std::move(task), saved, is_staged, stages = options_.stages] {
    std::string staged = is_staged ? saved.get() : perform(task);
    if (stages != nullptr) throw_if_error(checkpoint::Stage::send(task.stage.run_folder, staged, *stages));
    return staged;
  };
  return mode == CheckpointUploadMode::sync ? ended_upload(work()) : start_upload(work);
}

void Session::wait_for_room() {
  uploads_.wait_for_room();
  throw_if_stopped();
}

Upload Session::start_upload(std::function<std::string()> work) {
  wait_for_room();
  return uploads_.start(std::move(work));
}

// With room for another upload one of as many arenas as uploads are allowed is free.
std::shared_ptr<Arena> Session::free_arena() {
  wait_for_room();
  for (const auto& arena : arenas_) {
    if (arena.use_count() == 1) return arena;
  }
  return arenas_.emplace_back(std::make_shared<Arena>());
}

// The controller ends this attempt; until then nothing of this rank waits for another.
void Session::fail(const std::exception_ptr& error) {
  options_.sink->fail(error);
  stop("a checkpoint could not be uploaded");
}

int64_t Session::begin_save() {
  throw_if_stopped();
  if (save_is_unreported_ && unreported_.valid()) {
    try {
      const std::string& staged = unreported_.get();
      if (!staged.empty()) throw_if_error(checkpoint::Stage::discard(options_.run_folder, staged));
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch): it is deleted with the attempt's other stages
    }
  }
  unreported_ = {};
  save_is_unreported_ = true;
  return ++saves_;
}

StagePlace Session::next_stage() {
  return {.run_folder = options_.run_folder,
          .run_folder_id = run_folder_id_,
          .identity = options_.identity,
          .driver = options_.driver,
          .number = ++stages_,
          .positions = datasets_.positions()};
}

std::optional<Checkpoint> Session::checkpoint() {
  wait_for_own_checkpoint();
  const std::lock_guard lock(mutex_);
  if (checkpoint_.empty()) return std::nullopt;
  return CheckpointAccess::published(checkpoint_);
}

std::vector<ReportedCheckpoint> Session::checkpoints(CheckpointConsistencyMode mode, std::optional<double> timeout_s) {
  throw_if_stopped();
  const rpc::CheckpointsRequest request{.report = options_.first_report + reports_ - 1,
                                        .validated = mode == CheckpointConsistencyMode::validated,
                                        .timeout_s = timeout_s ? std::clamp(*timeout_s, 0.0, 1e9) : -1};
  PublishedCheckpoints published;
  set_phase(Phase::checkpoint);
  try {
    published = options_.sink->checkpoints(request);
  } catch (const Error&) {
    throw_if_stopped();
    throw;
  }
  set_phase(Phase::training);
  finish_deletions();  // of those that are in the answer
  std::vector<ReportedCheckpoint> checkpoints;
  for (const PublishedCheckpoint& one : published) {
    const std::string name = checkpoint::folder_name(one.name, one.report);
    checkpoints.push_back(
        {CheckpointAccess::published(storage::join(options_.context.storage, name)), Metrics(one.metrics), one.status});
  }
  return checkpoints;
}

// Until then the user's folder is the only copy that a lost driver leaves. Deleting takes its time, and the thread that
// brings the news has others to bring.
void Session::set_checkpoint(const storage::Location& location, int64_t report) {
  {
    const std::lock_guard lock(mutex_);
    checkpoint_ = location;
    if (auto folder = deleted_when_published_.extract(report)) {
      deletions_.push_back(std::async(std::launch::async, [folder = std::move(folder.mapped())] {
        const arrow::Status removed = storage::remove_all(folder);
        if (removed.ok()) return;
        std::fprintf(stderr, "the local folder of a published checkpoint stays: %s\n", removed.message().c_str());
      }));
    }
    committed_ = report;
  }
  news_.notify_all();
}

void Session::finish_deletions() {
  std::vector<std::future<void>> deletions;
  {
    const std::lock_guard lock(mutex_);
    deletions.swap(deletions_);
  }
  for (const std::future<void>& deletion : deletions) deletion.wait();
}

void Session::finish() {
  set_phase(Phase::checkpoint);
  uploads_.drain();
  {
    std::unique_lock lock(mutex_);
    news_.wait(lock, [this] { return deleted_when_published_.empty() || stopped_; });
  }
  finish_deletions();
  throw_if_stopped();
}

// A rank's files are on a disk of its own until the controller has brought them into the object store.
void Session::wait_until_committed(int64_t report) {
  std::unique_lock lock(mutex_);
  news_.wait(lock, [&] { return committed_ >= report || stopped_; });
  lock.unlock();
  finish_deletions();
  throw_if_stopped();
}

// Where reports meet they are published when report() returns, or nothing is stored.
void Session::wait_for_own_checkpoint() {
  if (!options_.sink->takes_from_any_thread() || options_.run_folder.empty()) return;
  std::unique_lock lock(mutex_);
  if (committed_ >= own_checkpoint_) return;
  set_phase(Phase::checkpoint);
  const bool has_news =
      news_.wait_for(lock, options_.timeout, [this] { return committed_ >= own_checkpoint_ || stopped_; });
  lock.unlock();
  throw_if_stopped();
  if (!has_news) {
    throw CollectiveError("get_checkpoint() has waited " + std::to_string(options_.timeout.count() / 1000) +
                          " s for the checkpoint of report " + std::to_string(own_checkpoint_) +
                          ", which is published when every rank has made that report; call report() equally often on "
                          "every rank, and none of them behind a collective that this rank is still to enter");
  }
  set_phase(Phase::training);
}

bool Session::checkpoint_requested() {
  throw_if_stopped();
  const bool is_wanted = options_.sink->checkpoint_requested();
  throw_if_stopped();
  return is_wanted;
}

void Session::stop(const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    stop_reason_ = reason;
    stopped_ = true;
  }
  news_.notify_all();
  uploads_.stop();
  if (options_.group) options_.group->abort();
}

void Session::throw_if_stopped() const {
  if (!stopped_) return;
  const std::lock_guard lock(mutex_);
  throw Stopped("the run is being stopped: " + stop_reason_);
}

void Session::checked_collective(Collective kind, const std::string& operation, const torch::Tensor& tensor,
                                 const std::function<void()>& call) {
  // The check is a collective too: who looks at a rank that waits in it shall see what the user has called.
  const auto show_as = [this](Collective shown) {
    if (options_.progress != nullptr) options_.progress->show_collectives_as(shown);
  };
  collective([&] {
    show_as(kind);
    try {
      comm::check_same_call(*group(), operation, tensor);
    } catch (...) {
      show_as(Collective::none);
      throw;
    }
    show_as(Collective::none);
    call();
  });
}

void Session::set_phase(Phase phase) {
  if (options_.progress != nullptr) options_.progress->set_phase(phase);
}

// Of a loop without loaders nobody knows what it does between two steps, however long.
void Session::count_step() {
  if (options_.progress == nullptr) return;
  const std::lock_guard lock(steps_mutex_);
  if (!steps_of_.takes_optimizer_step()) return;
  options_.progress->withdraw_step_marks();  // a loader's, which it validates with
  options_.progress->set_step(options_.progress->step() + 1, /*is_mark=*/false);
}

void Session::set_step(int64_t step) {
  forget_gone_models();
  const std::lock_guard lock(steps_mutex_);
  const bool counted_others = steps_of_.are_optimizers_training();
  if (!steps_of_.takes_batch(at::GradMode::is_enabled()) || options_.progress == nullptr) return;
  if (counted_others) steps_before_batches_ = std::max(steps_before_batches_, options_.progress->step() + 1 - step);
  options_.progress->set_step(step + steps_before_batches_);
}

void Session::adopt(std::shared_ptr<parallel::ParallelModel> model) {
  const std::lock_guard lock(models_mutex_);
  std::erase_if(models_, [&](const auto& known) { return known->module() == model->module(); });
  models_.push_back(std::move(model));
}

std::shared_ptr<parallel::ParallelModel> Session::parallel_model(const torch::nn::Module& module) const {
  const std::lock_guard lock(models_mutex_);
  const auto found = std::ranges::find_if(models_, [&](const auto& known) { return known->module().get() == &module; });
  return found == models_.end() ? nullptr : *found;
}

void Session::forget_gone_models() {
  std::vector<std::shared_ptr<parallel::ParallelModel>> gone;  // which close their connections without the lock
  const std::lock_guard lock(models_mutex_);
  const auto left = std::ranges::stable_partition(models_, [](const auto& known) { return known->is_held(); });
  for (const auto& model : left) model->let_go();
  // What their groups still have to do on the GPU must not be broken off with them.
  if (!left.empty() && options_.device.is_cuda()) torch::cuda::synchronize(options_.device.index());
  std::ranges::move(left, std::back_inserter(gone));
  models_.erase(left.begin(), left.end());
}

void Session::keep(std::shared_ptr<torch::nn::Module> module) {
  const std::lock_guard lock(models_mutex_);
  kept_.push_back(std::move(module));
}

void Session::watch(const torch::nn::Module& module) {
  if (nan_watch_ != nullptr) nan_watch_->watch(module);
}

void Session::watch(const std::string& name, const torch::Tensor& parameter) {
  if (nan_watch_ != nullptr) nan_watch_->watch(name, parameter);
}

void Session::void_step() {
  ledger_->void_step();
  const std::lock_guard lock(models_mutex_);
  for (const auto& model : models_) model->void_step();
}

std::shared_ptr<comm::Group> Session::group() const {
  if (options_.group != nullptr) return options_.group;
  const auto found = options_.find_group ? options_.find_group() : nullptr;
  if (found == nullptr) {
    throw UsageError(
        "there is no group of all ranks: torch.distributed.init_process_group() has not been called, or the group was "
        "destroyed");
  }
  return found;
}

WithoutSession::WithoutSession() : session_(current_session.exchange(nullptr)) {}

WithoutSession::~WithoutSession() {
  current_session = session_;
}

}  // namespace train

using train::Session;

namespace {

// For what needs the connections of the rank's process: another has copies of them, on which nobody answers.
Session& session_of_this_process(const char* function) {
  Session& session = Session::current(function);
  if (::getpid() == train::session_process) return session;
  throw UsageError(std::string(function) +
                   " was called in a process that the train loop has forked (a data loader's worker, "
                   "multiprocessing, os.fork()); call it in the rank's own process, and hand over what it needs");
}

}  // namespace

void report(const Metrics& metrics, const std::optional<Checkpoint>& checkpoint, const ReportOptions& options) {
  session_of_this_process("report()").report(metrics, checkpoint, options);
}

TrainContext get_context() {
  return TrainContext(Session::current("get_context()").options().context);
}

std::optional<Checkpoint> get_checkpoint() {
  return Session::current("get_checkpoint()").checkpoint();
}

bool checkpoint_requested() {
  return session_of_this_process("checkpoint_requested()").checkpoint_requested();
}

std::vector<ReportedCheckpoint> get_all_reported_checkpoints(CheckpointConsistencyMode mode,
                                                             std::optional<double> timeout_s) {
  return session_of_this_process("get_all_reported_checkpoints()").checkpoints(mode, timeout_s);
}

torch::Device get_device() {
  return Session::current("get_device()").options().device;
}

std::vector<torch::Device> get_devices() {
  return Session::current("get_devices()").options().devices;
}

void barrier() {
  session_of_this_process("barrier()").barrier();
}

Json broadcast_from_rank_zero(const Json& value) {
  return session_of_this_process("broadcast_from_rank_zero()").broadcast_from_rank_zero(value);
}

void enable_reproducibility(uint64_t seed) {
  Session::current("enable_reproducibility()");
  torch::manual_seed(seed);
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  at::globalContext().setBenchmarkCuDNN(false);
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/1);
}

torch::Tensor all_reduce(const torch::Tensor& tensor, ReduceOp op) {
  Session& session = session_of_this_process("all_reduce()");
  torch::Tensor result = tensor.detach().clone();
  session.checked_collective(Collective::all_reduce, std::string("all_reduce (") + comm::to_string(op) + ")", result,
                             [&] { session.group()->all_reduce(result, op); });
  return result;
}

std::vector<torch::Tensor> all_gather(const torch::Tensor& tensor) {
  Session& session = session_of_this_process("all_gather()");
  std::vector<torch::Tensor> gathered;
  session.checked_collective(Collective::all_gather, "all_gather", tensor,
                             [&] { gathered = session.group()->all_gather(tensor); });
  return gathered;
}

torch::Tensor broadcast(const torch::Tensor& tensor, int64_t root) {
  Session& session = session_of_this_process("broadcast()");
  torch::Tensor result = tensor.detach().clone();
  session.checked_collective(Collective::broadcast, "broadcast from rank " + std::to_string(root), result,
                             [&] { session.group()->broadcast(result, root); });
  return result;
}

c10d::ProcessGroup* process_group() {
  return Session::current("process_group()").group()->process_group();
}

void void_step() {
  Session::current("void_step()").void_step();
}

std::shared_ptr<StepLedger> step_ledger() {
  return Session::current("step_ledger()").ledger();
}

}  // namespace paceline
