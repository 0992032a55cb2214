#include "paceline/train/session.h"

#include <ATen/Context.h>

#include <cstdlib>

#include "paceline/checkpoint/stage.h"
#include "paceline/core/error.h"
#include "paceline/train/session_internal.h"

namespace paceline {
namespace train {
namespace {

std::atomic<Session*> current_session{nullptr};

}  // namespace

Session::Session(SessionOptions options) : options_(std::move(options)), checkpoint_(options_.checkpoint) {
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
  check_field("ReportOptions", "reduce", options.reduce, kReductions);
  throw_if_stopped();
  rpc::Report message{.index = options_.first_report + reports_, .metrics = metrics.json(), .reduce = options.reduce};
  if (checkpoint) {
    set_phase(Phase::checkpoint);
    message.has_checkpoint = true;
    message.collective_save = CheckpointAccess::is_collective_save(*checkpoint);
    message.staged = CheckpointAccess::staged_folder(*checkpoint);
    if (!message.collective_save && !options_.context.storage.empty()) {
      auto stage = value_or_throw(checkpoint::Stage::create(options_.context.storage, options_.identity, next_stage()));
      throw_if_error(stage.copy_folder(checkpoint->path()));
      message.staged = value_or_throw(stage.finish());
    }
  }
  ++reports_;
  options_.sink->submit(std::move(message));
  if (checkpoint) set_phase(Phase::training);
}

std::optional<Checkpoint> Session::checkpoint() const {
  const std::lock_guard lock(mutex_);
  if (checkpoint_.empty()) return std::nullopt;
  return CheckpointAccess::published(checkpoint_);
}

void Session::set_checkpoint(const std::string& path) {
  const std::lock_guard lock(mutex_);
  checkpoint_ = path;
}

void Session::stop(const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    stop_reason_ = reason;
  }
  stopped_ = true;
  if (options_.group) options_.group->abort();
}

void Session::throw_if_stopped() const {
  if (!stopped_) return;
  const std::lock_guard lock(mutex_);
  throw Stopped("the run is being stopped: " + stop_reason_);
}

std::string Session::store_key(const char* what) {
  return std::string("session/") + what + "/" + std::to_string(++meetings_) + "/";
}

// Ranks leave a key each and wait for all: unlike a collective of the process group, the store can say who is missing.
void Session::barrier() {
  throw_if_stopped();
  if (!options_.store) return;
  const std::string prefix = store_key("barrier");
  set_phase(Phase::collective);
  throw_if_error(options_.store->set(prefix + std::to_string(options_.context.world_rank), ""));
  std::vector<std::string> keys;
  for (int64_t rank = 0; rank < options_.context.world_size; ++rank) keys.push_back(prefix + std::to_string(rank));
  const auto status = options_.store->wait(keys, options_.timeout);
  throw_if_stopped();
  if (status.IsCancelled()) {
    std::string missing;
    for (int64_t rank = 0; rank < options_.context.world_size; ++rank) {
      if (!options_.store->check({keys[rank]}).ValueOr(true)) missing += " " + std::to_string(rank);
    }
    throw CollectiveError("barrier timed out on rank " + std::to_string(options_.context.world_rank) + " after " +
                          std::to_string(options_.timeout.count() / 1000.0) +
                          " s; ranks that have not come:" + missing);
  }
  if (!status.ok()) throw CollectiveError("barrier failed: " + status.message());
  set_phase(Phase::training);
}

Json Session::broadcast_from_rank_zero(const Json& value) {
  throw_if_stopped();
  if (!options_.store) return value;
  const std::string key = store_key("broadcast");
  if (options_.context.world_rank == 0) {
    throw_if_error(options_.store->set(key, encode_json(value)));
    return value;
  }
  set_phase(Phase::collective);
  const auto text = options_.store->get(key, options_.timeout);
  throw_if_stopped();
  if (!text.ok()) {
    throw CollectiveError("broadcast_from_rank_zero failed on rank " + std::to_string(options_.context.world_rank) +
                          ": rank 0 has not sent a value: " + text.status().message());
  }
  set_phase(Phase::training);
  return value_or_throw(decode_json(*text));
}

void Session::set_phase(Phase phase) {
  if (options_.progress != nullptr) options_.progress->set_phase(phase);
}

void Session::set_step(int64_t step) {
  if (options_.progress != nullptr) options_.progress->set_step(step);
}

void Session::adopt(const torch::nn::Module& module, std::shared_ptr<parallel::DataParallel> model) {
  models_[&module] = std::move(model);
}

std::shared_ptr<parallel::DataParallel> Session::data_parallel(const torch::nn::Module& module) const {
  const auto found = models_.find(&module);
  return found == models_.end() ? nullptr : found->second;
}

void Session::void_step() {
  ledger_->void_step();
  for (const auto& [module, model] : models_) model->void_step();
}

}  // namespace train

using train::Session;

void report(const Metrics& metrics, const std::optional<Checkpoint>& checkpoint, const ReportOptions& options) {
  Session::current("report()").report(metrics, checkpoint, options);
}

TrainContext get_context() {
  return TrainContext(Session::current("get_context()").options().context);
}

std::optional<Checkpoint> get_checkpoint() {
  return Session::current("get_checkpoint()").checkpoint();
}

torch::Device get_device() {
  return Session::current("get_device()").options().device;
}

void barrier() {
  Session::current("barrier()").barrier();
}

Json broadcast_from_rank_zero(const Json& value) {
  return Session::current("broadcast_from_rank_zero()").broadcast_from_rank_zero(value);
}

void enable_reproducibility(uint64_t seed) {
  Session::current("enable_reproducibility()");
  torch::manual_seed(seed);
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  at::globalContext().setBenchmarkCuDNN(false);
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/1);
}

torch::Tensor all_reduce(const torch::Tensor& tensor, comm::ReduceOp op) {
  Session& session = Session::current("all_reduce()");
  session.throw_if_stopped();
  torch::Tensor result = tensor.detach().clone();
  session.group().all_reduce(result, op);
  return result;
}

std::vector<torch::Tensor> all_gather(const torch::Tensor& tensor) {
  Session& session = Session::current("all_gather()");
  session.throw_if_stopped();
  return session.group().all_gather(tensor.detach());
}

torch::Tensor broadcast(const torch::Tensor& tensor, int64_t root) {
  Session& session = Session::current("broadcast()");
  session.throw_if_stopped();
  torch::Tensor result = tensor.detach().clone();
  session.group().broadcast(result, root);
  return result;
}

c10d::ProcessGroup* process_group() {
  return Session::current("process_group()").group().process_group();
}

void void_step() {
  Session::current("void_step()").void_step();
}

}  // namespace paceline
