#include "paceline/parallel/ddp/data_parallel.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "paceline/comm/reducer.h"
#include "paceline/core/error.h"
#include "paceline/parallel/ddp/gradient_strides.h"
#include "paceline/parallel/ddp/model_agreement.h"
#include "paceline/parallel/ddp/sync_batch_norm.h"
#include "paceline/state/module_state.h"

namespace paceline::parallel {
namespace {

using torch::autograd::Engine;
using torch::autograd::variable_list;

// What happens in one backward. Its end callback owns it: when backward throws, the callback is dropped without being
// run and this is gone, so that the next first gradient begins anew.
struct Backward {
  explicit Backward(size_t parameters) : reached(parameters, false) {}

  std::vector<bool> reached;
  bool synchronised = false;
  bool voided = false;
};

class GradientHook final : public torch::autograd::FunctionPreHook {
 public:
  using Arrives = std::function<torch::Tensor(const torch::Tensor& gradient)>;
  explicit GradientHook(Arrives arrives) : arrives_(std::move(arrives)) {}
  variable_list operator()(const variable_list& gradients) override { return {arrives_(gradients.at(0))}; }

 private:
  const Arrives arrives_;
};

comm::Compression to_compression(const std::string& name) {
  if (name == "bf16") return comm::Compression::bf16;
  return name == "fp16" ? comm::Compression::fp16 : comm::Compression::none;
}

std::vector<NamedTensor> trained(const std::vector<NamedTensor>& parameters) {
  std::vector<NamedTensor> result;
  for (const auto& parameter : parameters) {
    if (parameter.tensor.requires_grad()) result.push_back(parameter);
  }
  return result;
}

std::vector<torch::Tensor> tensors_of(const std::vector<NamedTensor>& named) {
  std::vector<torch::Tensor> tensors;
  for (const auto& item : named) tensors.push_back(item.tensor);
  return tensors;
}

std::string quoted(const std::vector<std::string>& names) {
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "\"" : ", \"") + name + "\"";
  return text;
}

void check_one_device(const std::vector<NamedTensor>& parameters) {
  for (const auto& parameter : parameters) {
    const auto& first = parameters.front();
    if (parameter.tensor.device() == first.tensor.device()) continue;
    throw CollectiveError("data parallelism needs all trained parameters on one device: \"" + first.name + "\" is on " +
                          first.tensor.device().str() + ", \"" + parameter.name + "\" on " +
                          parameter.tensor.device().str() + "; move the model to one device");
  }
}

void check_batch_norms(const torch::nn::Module& module) {
  std::vector<std::string> plain;
  for (const auto& item : module.named_modules()) {
    const auto* child = item.value().get();
    if (child->as<torch::nn::BatchNorm1dImpl>() || child->as<torch::nn::BatchNorm2dImpl>() ||
        child->as<torch::nn::BatchNorm3dImpl>()) {
      plain.push_back(item.key());
    }
  }
  if (plain.empty()) return;
  throw ConfigError("DdpOptions.sync_batch_norm is true, but the model has plain batch normalisation at " +
                    quoted(plain) +
                    ": LibTorch modules cannot be changed from outside; use paceline::nn::SyncBatchNorm1d, 2d or 3d "
                    "in the model");
}

void check_agreement(const torch::nn::Module& module, comm::Group& group) {
  std::vector<Json> models;
  for (const auto& text : comm::all_gather_text(group, describe_model(module).dump())) {
    models.push_back(Json::parse(text));
  }
  if (const auto difference = find_difference(models)) {
    throw CollectiveError("the ranks hold different models: " + *difference + "; build the model alike on every rank");
  }
}

// Embeddings give sparse gradients when they are told to.
std::vector<bool> expect_sparse(const torch::nn::Module& module, const std::vector<NamedTensor>& parameters) {
  std::unordered_set<const c10::TensorImpl*> sparse;
  for (const auto& child : module.modules()) {
    if (const auto* embedding = child->as<torch::nn::EmbeddingImpl>(); embedding && embedding->options.sparse()) {
      sparse.insert(embedding->weight.unsafeGetTensorImpl());
    }
    if (const auto* bag = child->as<torch::nn::EmbeddingBagImpl>(); bag && bag->options.sparse()) {
      sparse.insert(bag->weight.unsafeGetTensorImpl());
    }
  }
  std::vector<bool> expected;
  for (const auto& parameter : parameters) expected.push_back(sparse.count(parameter.tensor.unsafeGetTensorImpl()) > 0);
  return expected;
}

std::unique_ptr<comm::GradientReducer> make_reducer(const torch::nn::Module& module,
                                                    const std::vector<NamedTensor>& parameters,
                                                    const std::shared_ptr<comm::Group>& group,
                                                    const DdpOptions& options) {
  if (parameters.empty()) return nullptr;
  check_one_device(parameters);
  comm::ReducerOptions settings;
  const bool default_size = options.bucket_cap_mb == DdpOptions{}.bucket_cap_mb;
  constexpr double kOneBucket = 1e9;  // MiB; whatever is more has no meaning, and no integer
  settings.bucket_bytes = static_cast<int64_t>(std::min(options.bucket_cap_mb, kOneBucket) * (1 << 20));
  if (!default_size) settings.first_bucket_bytes = settings.bucket_bytes;
  settings.static_graph = options.static_graph;
  settings.gradient_as_bucket_view = options.gradient_as_bucket_view;
  settings.compression = to_compression(options.compression);
  std::vector<std::string> names;
  for (const auto& parameter : parameters) names.push_back(parameter.name);
  return comm::GradientReducer::create(group, tensors_of(parameters), names, expect_sparse(module, parameters),
                                       settings);
}

class ModuleDataParallel final : public DataParallel, public std::enable_shared_from_this<ModuleDataParallel> {
 public:
  ModuleDataParallel(std::shared_ptr<torch::nn::Module> module, std::shared_ptr<comm::Group> group,
                     const DdpOptions& options, std::shared_ptr<StepLedger> ledger)
      : DataParallel(std::move(module), std::move(group)),
        options_(options),
        ledger_(std::move(ledger)),
        parameters_(trained(parameters_of(*module_))),
        expected_(parameters_.size(), true) {}

  void start();
  void void_step() override;
  // Every rank holds the averages.
  torch::Tensor norm_over_ranks(const torch::Tensor& norm, double) override { return norm; }
  Placement placement() const override { return Placement::replicated; }
  StateDict state_dict() const override { return module_state(*module_); }
  void load_state_dict(const StateDict& state) override { load_module_state(*module_, state); }

 private:
  void enter_no_sync() override { ++no_sync_depth_; }
  void leave_no_sync() override { --no_sync_depth_; }

  void bind_batch_norms();
  void hook_parameters();
  void gradient_arrives(size_t index);
  void begin_backward();
  void gradients_are_complete(const std::shared_ptr<Backward>& backward);
  void complete_unreached(const Backward& backward);
  void finish(Backward& backward, const std::vector<bool>& used_here);
  void drop_gradients();
  void drop_unused(const std::vector<bool>& used_here);
  void unview_gradients();

  const DdpOptions options_;
  const std::shared_ptr<StepLedger> ledger_;
  const std::vector<NamedTensor> parameters_;
  // Kept, because a parameter holds its accumulator only as long as somebody else does.
  std::vector<decltype(torch::autograd::impl::grad_accumulator(torch::Tensor()))> accumulators_;
  std::unique_ptr<comm::GradientReducer> reducer_;  // null in a world of one and when nothing is trained

  std::weak_ptr<Backward> backward_;
  static constexpr int kNoTask = -2;  // -1: no backward is under way
  int voided_task_ = kNoTask;
  int no_sync_depth_ = 0;
  bool unfinished_ = false;  // a synchronised backward has begun and not come to its end
  bool counted_ = false;     // static graph: the first backward is over
  std::vector<bool> expected_;
};

void ModuleDataParallel::start() {
  if (options_.sync_batch_norm) check_batch_norms(*module_);
  if (group_->size() > 1) {
    check_agreement(*module_, *group_);
    group_->broadcast_coalesced(tensors_of(parameters_of(*module_)), 0);
    group_->broadcast_coalesced(tensors_of(buffers_of(*module_)), 0);
    bind_batch_norms();
    reducer_ = make_reducer(*module_, parameters_, group_, options_);
  }
  hook_parameters();
}

void ModuleDataParallel::bind_batch_norms() {
  for (const auto& child : module_->modules()) {
    if (auto* batch_norm = dynamic_cast<SynchronizesBatch*>(child.get())) batch_norm->set_group(group_);
  }
}

void ModuleDataParallel::hook_parameters() {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    accumulators_.push_back(torch::autograd::impl::grad_accumulator(parameters_[i].tensor));
    accumulators_.back()->add_pre_hook(
        std::make_unique<GradientHook>([self = weak_from_this(), i](const auto& gradient) {
          const auto alive = self.lock();
          if (!alive) return gradient;
          alive->gradient_arrives(i);
          return with_strides_of(alive->parameters_[i].tensor, gradient);
        }));
  }
}

void ModuleDataParallel::gradient_arrives(size_t index) {
  if (backward_.expired()) begin_backward();
  backward_.lock()->reached[index] = true;
}

void ModuleDataParallel::begin_backward() {
  auto backward = std::make_shared<Backward>(parameters_.size());
  backward->voided = torch::autograd::get_current_graph_task_id() == voided_task_;
  backward->synchronised = reducer_ != nullptr && no_sync_depth_ == 0;
  if (backward->synchronised) {
    if (unfinished_) reducer_->reset();
    unfinished_ = true;
    reducer_->begin_backward();
  }
  backward_ = backward;
  Engine::get_default_engine().queue_callback([self = weak_from_this(), backward] {
    if (const auto alive = self.lock()) alive->gradients_are_complete(backward);
  });
}

void ModuleDataParallel::gradients_are_complete(const std::shared_ptr<Backward>& backward) {
  std::vector<bool> used_here;
  for (const auto& parameter : parameters_) used_here.push_back(parameter.tensor.grad().defined());
  if (backward->synchronised) complete_unreached(*backward);
  // The reducer's own callback stands in the queue by now; it waits for the averages.
  Engine::get_default_engine().queue_callback([self = weak_from_this(), backward, used_here] {
    if (const auto alive = self.lock()) alive->finish(*backward, used_here);
  });
}

void ModuleDataParallel::complete_unreached(const Backward& backward) {
  if (options_.static_graph && !counted_) {
    expected_ = backward.reached;
    counted_ = true;
    reducer_->reduce_all();
    return;
  }
  std::vector<std::string> missing;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (backward.reached[i] || !expected_[i]) continue;
    if (options_.find_unused_parameters && !options_.static_graph) {
      reducer_->mark_unused(i);
    } else {
      missing.push_back(parameters_[i].name);
    }
  }
  if (missing.empty()) return;
  throw CollectiveError("backward on rank " + std::to_string(group_->rank()) + " of " + std::to_string(group_->size()) +
                        " did not reach these parameters: " + quoted(missing) +
                        (options_.static_graph ? "; with static_graph every backward reaches what the first reached"
                                               : "; set find_unused_parameters, or let them take part in the loss"));
}

void ModuleDataParallel::finish(Backward& backward, const std::vector<bool>& used_here) {
  if (backward.synchronised) {
    if (options_.find_unused_parameters && !options_.static_graph) drop_unused(used_here);
    if (options_.gradient_as_bucket_view) unview_gradients();
    if (options_.broadcast_buffers) group_->broadcast_coalesced(tensors_of(buffers_of(*module_)), 0);
    unfinished_ = false;
  }
  backward_.reset();
  if (backward.voided) drop_gradients();
}

// The reducer gives zeros to parameters that no rank has used. They shall stay without gradient, as in one process: an
// optimizer with momentum or weight decay would move them.
void ModuleDataParallel::drop_unused(const std::vector<bool>& used_here) {
  torch::Tensor used = torch::zeros({static_cast<int64_t>(used_here.size())}, torch::kUInt8);
  for (size_t i = 0; i < used_here.size(); ++i) used[i] = used_here[i];
  group_->all_reduce(used, comm::ReduceOp::max);
  for (size_t i = 0; i < used_here.size(); ++i) {
    if (used[i].item<uint8_t>() == 0) torch::Tensor(parameters_[i].tensor).mutable_grad().reset();
  }
}

// torch::optim's zero_grad() detaches gradients, which views refuse: the same memory, but not as a view.
void ModuleDataParallel::unview_gradients() {
  for (const auto& parameter : parameters_) {
    torch::Tensor& gradient = torch::Tensor(parameter.tensor).mutable_grad();
    if (!gradient.defined() || !gradient.is_view()) continue;
    torch::Tensor alias = torch::empty({0}, gradient.options());
    alias.set_(gradient.storage(), gradient.storage_offset(), gradient.sizes(), gradient.strides());
    gradient = alias;
  }
}

void ModuleDataParallel::void_step() {
  if (ledger_ != nullptr) ledger_->void_step();
  if (const auto backward = backward_.lock()) {
    backward->voided = true;
  } else {
    voided_task_ = torch::autograd::get_current_graph_task_id();  // in a backward before its first gradient
    drop_gradients();
  }
}

void ModuleDataParallel::drop_gradients() {
  for (auto& parameter : module_->parameters()) parameter.mutable_grad().reset();
}

}  // namespace

std::shared_ptr<DataParallel> DataParallel::attach(std::shared_ptr<torch::nn::Module> module,
                                                   std::shared_ptr<comm::Group> group, const DdpOptions& options,
                                                   std::shared_ptr<StepLedger> ledger) {
  options.validate();
  auto data_parallel =
      std::make_shared<ModuleDataParallel>(std::move(module), std::move(group), options, std::move(ledger));
  data_parallel->start();
  return data_parallel;
}

}  // namespace paceline::parallel
