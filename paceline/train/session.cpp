#include "paceline/train/session.h"

#include <ATen/Context.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <cstdlib>

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
  const int64_t save = checkpoint ? CheckpointAccess::save_number(*checkpoint) : 0;
  if (save > 0 && (!save_is_unreported_ || save != saves_)) {
    throw UsageError(
        "report() was given a checkpoint of Checkpoint::save() that was reported already, or that a later save() has "
        "replaced; save again, or report each once, before the next save()");
  }
  rpc::Report message{.index = options_.first_report + reports_, .metrics = metrics.json(), .reduce = options.reduce};
  if (checkpoint) {
    set_phase(Phase::checkpoint);
    message.has_checkpoint = true;
    message.collective_save = save > 0;
    message.staged = CheckpointAccess::staged_folder(*checkpoint);
    if (!message.collective_save && !options_.context.storage.empty()) {
      auto stage = create_stage();
      throw_if_error(stage.copy_folder(checkpoint->path()));
      message.staged = value_or_throw(stage.finish());
    }
  }
  ++reports_;
  if (save > 0) save_is_unreported_ = false;
  try {
    options_.sink->submit(std::move(message));
  } catch (const CollectiveError&) {
    throw_if_stopped();
    throw;
  }
  if (checkpoint) set_phase(Phase::training);
}

int64_t Session::begin_save() {
  throw_if_stopped();
  if (save_is_unreported_ && !unreported_stage_.empty()) {
    throw_if_error(checkpoint::Stage::discard(options_.context.storage, unreported_stage_));
  }
  unreported_stage_.clear();
  save_is_unreported_ = true;
  return ++saves_;
}

checkpoint::Stage Session::create_stage() {
  return value_or_throw(checkpoint::Stage::create(options_.context.storage, options_.identity, ++stages_));
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

void Session::barrier() {
  collective([this] { options_.store ? meet_in_store() : group().barrier(); });
}

// Ranks leave a key each and wait for all: unlike a collective of the process group, the store can say who is missing.
void Session::meet_in_store() {
  const std::string prefix = store_key("barrier");
  const std::string own_key = prefix + std::to_string(options_.context.world_rank);
  const auto failed = [&](const std::string& why) {
    throw CollectiveError("barrier() failed on rank " + std::to_string(options_.context.world_rank) + ": " + why);
  };
  if (const auto set = options_.store->set(own_key, ""); !set.ok()) failed(set.message());
  std::vector<std::string> keys;
  for (int64_t rank = 0; rank < options_.context.world_size; ++rank) keys.push_back(prefix + std::to_string(rank));
  const auto status = options_.store->wait(keys, options_.timeout);
  if (status.IsCancelled()) {
    std::string missing;
    for (int64_t rank = 0; rank < options_.context.world_size; ++rank) {
      if (options_.store->check({keys[rank]}).ValueOr(true)) continue;
      missing += (missing.empty() ? "" : ", ") + std::to_string(rank);
    }
    failed("it timed out after " + std::to_string(options_.timeout.count() / 1000.0) +
           " s (TorchConfig.timeout_s); ranks that have not come: " + missing +
           "; call barrier() on every rank, or give slow ranks more time");
  }
  if (!status.ok()) failed(status.message());
  // All have come here, so all have left the barrier before.
  if (!last_barrier_key_.empty()) (void)options_.store->delete_key(last_barrier_key_);
  last_barrier_key_ = own_key;
}

Json Session::broadcast_from_rank_zero(const Json& value) {
  const std::string text = options_.context.world_rank == 0 ? encode_json(value) : "";
  const std::string sent = collective(
      [&] { return options_.store ? broadcast_through_store(text) : comm::all_gather_text(group(), text).front(); });
  return options_.context.world_rank == 0 ? value : value_or_throw(decode_json(sent));
}

std::string Session::broadcast_through_store(const std::string& text) {
  const std::string prefix = store_key("broadcast");
  const std::string key = prefix + "value";
  const auto failed = [&](const std::string& why) {
    throw CollectiveError("broadcast_from_rank_zero() failed on rank " + std::to_string(options_.context.world_rank) +
                          ": " + why);
  };
  if (options_.context.world_rank == 0) {
    if (const auto set = options_.store->set(key, text); !set.ok()) failed(set.message());
    return text;
  }
  auto received = options_.store->get(key, options_.timeout);
  if (received.status().IsCancelled()) {
    failed("rank 0 has sent no value within " + std::to_string(options_.timeout.count() / 1000.0) +
           " s (TorchConfig.timeout_s); call it on every rank, rank 0 too, in the same order");
  }
  if (!received.ok()) failed(received.status().message());
  // The last to read deletes.
  const auto readers = options_.store->add(prefix + "readers", 1);
  if (readers.ok() && *readers == options_.context.world_size - 1) {
    (void)options_.store->delete_key(key);
    (void)options_.store->delete_key(prefix + "readers");
  }
  return *std::move(received);
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
  for (const auto& module : local_modules_) {
    for (auto& parameter : module->parameters()) parameter.mutable_grad().reset();
  }
}

torch::Device device_of(int64_t local_rank, const ScalingConfig& scaling) {
  if (!scaling.use_gpu) return torch::kCPU;
  return torch::Device(torch::kCUDA, static_cast<torch::DeviceIndex>(local_rank * gpus_per_worker(scaling)));
}

void select_device(torch::Device device) {
  if (device.is_cuda()) c10::impl::VirtualGuardImpl(device.type()).setDevice(device);
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

torch::Tensor all_reduce(const torch::Tensor& tensor, ReduceOp op) {
  Session& session = Session::current("all_reduce()");
  torch::Tensor result = tensor.detach().clone();
  session.collective([&] { session.group().all_reduce(result, op); });
  return result;
}

std::vector<torch::Tensor> all_gather(const torch::Tensor& tensor) {
  Session& session = Session::current("all_gather()");
  return session.collective([&] { return session.group().all_gather(tensor.detach()); });
}

torch::Tensor broadcast(const torch::Tensor& tensor, int64_t root) {
  Session& session = Session::current("broadcast()");
  torch::Tensor result = tensor.detach().clone();
  session.collective([&] { session.group().broadcast(result, root); });
  return result;
}

c10d::ProcessGroup* process_group() {
  return Session::current("process_group()").group().process_group();
}

void void_step() {
  Session::current("void_step()").void_step();
}

std::shared_ptr<StepLedger> step_ledger() {
  return Session::current("step_ledger()").ledger();
}

}  // namespace paceline
