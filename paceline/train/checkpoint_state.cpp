#include "paceline/train/checkpoint_state.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <mutex>
#include <optional>

#include "paceline/checkpoint/stage.h"
#include "paceline/checkpoint/tensor_reader.h"
#include "paceline/core/error.h"
#include "paceline/optim/optimizer_state.h"
#include "paceline/parallel/parallel_model.h"
#include "paceline/state/module_state.h"
#include "paceline/storage/location.h"
#include "paceline/train/worker/session_internal.h"

namespace paceline {
namespace train {
namespace {

using optim::ParameterNames;

struct NamedItem {
  std::string name;
  Item item;
  Placement placement = Placement::replicated;
};

// What prepare_model() has made of the item's module; null for other modules and items.
std::shared_ptr<parallel::ParallelModel> parallel_model_of(const Item& item) {
  const Session* session = Session::current_or_null();
  return session == nullptr || item.module == nullptr ? nullptr : session->parallel_model(*item.module);
}

// An optimizer's state is where its model's is.
Placement placement_of(const torch::optim::Optimizer& optimizer) {
  for (const auto& group : optimizer.param_groups()) {
    if (group.params().empty()) continue;
    const auto* const model = parallel::ParallelModel::of(group.params().front());
    if (model != nullptr && model->placement() == Placement::per_rank) return Placement::per_rank;
  }
  return Placement::replicated;
}

Placement placement_of(const Item& item) {
  if (item.stateful != nullptr) return item.stateful->placement();
  const Session* session = Session::current_or_null();
  if (session == nullptr || session->options().context.world_size == 1) return Placement::replicated;
  if (item.optimizer != nullptr) return placement_of(*item.optimizer);
  const auto model = parallel_model_of(item);
  return model == nullptr ? Placement::replicated : model->placement();
}

void check_name(const std::string& name) {
  const bool is_word = std::ranges::all_of(name, [](unsigned char letter) {
    return letter < 0x80 && (std::isalnum(letter) != 0 || letter == '_' || letter == '-');
  });
  if (is_word) return;
  throw ConfigError("an item of the checkpoint is named \"" + name + "\"; allowed: letters, digits, '_' and '-'");
}

std::vector<NamedItem> name_items(const std::vector<Item>& items) {
  std::map<std::string, int> uses;
  std::vector<NamedItem> named;
  for (const Item& item : items) {
    const std::string base = item.module != nullptr      ? "model"
                             : item.optimizer != nullptr ? "optimizer"
                                                         : item.stateful->kind();
    std::string name = item.name;
    if (name.empty()) {
      const int use = ++uses[base];
      name = use == 1 ? base : base + "_" + std::to_string(use);
    } else {
      check_name(name);
    }
    if (std::ranges::find(named, name, &NamedItem::name) != named.end()) {
      throw ConfigError("two items of the checkpoint are named \"" + name + "\"; give one of them another name");
    }
    named.push_back({.name = std::move(name), .item = item, .placement = placement_of(item)});
  }
  return named;
}

// Of the names of a module's tensors where there are several modules.
std::string prefix_of(const NamedItem& item) {
  return item.name == "model" ? "" : item.name + ".";
}

ParameterNames parameter_names(const std::vector<NamedItem>& items) {
  ParameterNames names;
  for (const auto& item : items) {
    if (item.item.module == nullptr) continue;
    for (const auto& parameter : item.item.module->named_parameters()) {
      names.emplace(parameter.value().unsafeGetTensorImpl(), prefix_of(item) + parameter.key());
    }
  }
  return names;
}

StateDict state_of(const Item& item, const ParameterNames& names) {
  if (const auto model = parallel_model_of(item)) return model->state_dict();
  if (item.module != nullptr) return module_state(*item.module);
  if (item.optimizer != nullptr) return optim::optimizer_state(*item.optimizer, names);
  return item.stateful->state_dict();
}

void restore(const Item& item, const StateDict& state, const ParameterNames& names) {
  if (const auto model = parallel_model_of(item)) {
    model->load_state_dict(state);
  } else if (item.module != nullptr) {
    load_module_state(*item.module, state);
  } else if (item.optimizer != nullptr) {
    optim::load_optimizer_state(*item.optimizer, names, state);
  } else {
    item.stateful->load_state_dict(state);
  }
}

// Leaves out of `saved` what the module does not have, and puts the module's `own` in place of what is not in it.
void make_fit(StateDict& saved, const StateDict& own, const std::string& prefix, LoadResult& result) {
  std::erase_if(saved.tensors, [&](const auto& tensor) {
    const bool unexpected = !own.tensors.contains(tensor.first);
    if (unexpected) result.unexpected_keys.push_back(prefix + tensor.first);
    return unexpected;
  });
  for (const auto& [name, tensor] : own.tensors) {
    if (saved.tensors.emplace(name, tensor).second) result.missing_keys.push_back(prefix + name);
  }
}

const std::map<torch::ScalarType, const char*>& dtype_names() {
  static const std::map<torch::ScalarType, const char*> names = {
      {torch::kFloat64, "F64"},      {torch::kFloat32, "F32"},
      {torch::kFloat16, "F16"},      {torch::kBFloat16, "BF16"},
      {torch::kInt64, "I64"},        {torch::kInt32, "I32"},
      {torch::kInt16, "I16"},        {torch::kInt8, "I8"},
      {torch::kUInt8, "U8"},         {torch::kBool, "BOOL"},
      {at::kUInt16, "U16"},          {at::kUInt32, "U32"},
      {at::kUInt64, "U64"},          {at::kFloat8_e4m3fn, "F8_E4M3"},
      {at::kFloat8_e5m2, "F8_E5M2"}, {torch::kComplexFloat, "C64"}};
  return names;
}

torch::ScalarType scalar_type(const std::string& dtype) {
  for (const auto& [type, name] : dtype_names()) {
    if (dtype == name) return type;
  }
  throw StorageError("the checkpoint holds a tensor of type " + dtype +
                     ", which LibTorch cannot load; read its file with code of your own");
}

std::string scope_of(const NamedItem& item, int64_t rank) {
  return item.placement == Placement::per_rank ? item.name + ".rank_" + std::to_string(rank) : item.name;
}

bool has_scope(const checkpoint::Manifest& manifest, const std::string& scope) {
  const auto tensor = manifest.tensors.lower_bound(scope + "/");
  return manifest.values.contains(scope) ||
         (tensor != manifest.tensors.end() && tensor->first.rfind(scope + "/", 0) == 0);
}

// Where a rank finds an item. What counts is how it was saved: each rank's own in one run may be one of a kind in
// another. A group that has grown has ranks without a state of their own: they take one of those that there are.
std::string saved_scope(const checkpoint::Manifest& manifest, const NamedItem& item, int64_t rank) {
  const std::string own = item.name + ".rank_" + std::to_string(rank % std::max<int64_t>(1, manifest.world_size));
  return has_scope(manifest, own) ? own : item.name;
}

void refuse_unknown_type(const std::string& name, const torch::Tensor& tensor) {
  if (dtype_names().contains(tensor.scalar_type())) return;
  throw StorageError(
      "cannot save \"" + name + "\": type " + c10::toString(tensor.scalar_type()) +
      " has no place in safetensors; convert the tensor before it is saved (torch::view_as_real for a complex one)");
}

void write_item(checkpoint::Stage& stage, const std::string& scope, const StateDict& state) {
  std::vector<torch::Tensor> kept;  // contiguous CPU tensors whose bytes are being written
  std::vector<checkpoint::TensorBytes> tensors;
  for (const auto& [name, tensor] : state.tensors) {
    kept.push_back(tensor.detach().to(torch::kCPU).contiguous());
    const checkpoint::Shape shape = kept.back().sizes().vec();
    tensors.push_back({.name = name,
                       .dtype = dtype_names().at(tensor.scalar_type()),
                       .global_shape = shape,
                       .start = checkpoint::Shape(shape.size(), 0),
                       .shape = shape,
                       .bytes = {static_cast<const std::byte*>(kept.back().const_data_ptr()), kept.back().nbytes()}});
  }
  if (!tensors.empty()) throw_if_error(stage.write_tensors(scope + ".safetensors", tensors, scope));
  stage.add_value(scope, state.values);
}

StateDict read_item(const checkpoint::TensorReader& reader, const std::string& scope) {
  const auto& manifest = reader.manifest();
  StateDict state;
  const std::string prefix = scope + "/";
  for (auto entry = manifest.tensors.lower_bound(prefix);
       entry != manifest.tensors.end() && entry->first.rfind(prefix, 0) == 0; ++entry) {
    auto tensor = torch::empty(entry->second.shape, scalar_type(entry->second.dtype));
    throw_if_error(reader.read(entry->first, {static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.nbytes()}));
    state.tensors.emplace(entry->first.substr(prefix.size()), std::move(tensor));
  }
  if (!has_scope(manifest, scope)) {
    std::string scopes;
    for (const auto& [name, value] : manifest.values.items()) scopes += (scopes.empty() ? "" : ", ") + name;
    throw StorageError("the checkpoint " + reader.path() + " has no \"" + scope +
                       "\"; it has: " + (scopes.empty() ? "nothing that Checkpoint::save() has written" : scopes) +
                       ". Load what was saved, each kind in the order of save()");
  }
  if (const auto values = manifest.values.find(scope); values != manifest.values.end()) state.values = *values;
  return state;
}

// What this rank writes: the items' states, by scope.
struct Contents {
  std::vector<std::string> scopes;
  std::vector<StateDict> states;
};

Contents contents_of(const std::vector<Item>& items, int64_t rank) {
  const auto named = name_items(items);
  const auto names = parameter_names(named);
  Contents contents;
  for (const auto& item : named) {
    const bool writes = item.placement == Placement::per_rank || rank == 0;
    if (!writes) continue;
    contents.scopes.push_back(scope_of(item, rank));
    contents.states.push_back(state_of(item.item, names));
    for (const auto& [name, tensor] : contents.states.back().tensors) {
      refuse_unknown_type(contents.scopes.back() + "/" + name, tensor);
    }
  }
  return contents;
}

std::string write(const Contents& contents, const StagePlace& place) {
  checkpoint::Stage stage = place.create();
  for (size_t i = 0; i < contents.scopes.size(); ++i) write_item(stage, contents.scopes[i], contents.states[i]);
  return value_or_throw(stage.finish());
}

// One save(), from the beginning to what report() takes. `bring` brings what this rank writes to its place.
template <class Bring>
Checkpoint save_with(const char* function, const std::vector<Item>& items, const Bring& bring) {
  Session& session = Session::current(function);
  const int64_t save = session.begin_save();
  session.set_phase(Phase::checkpoint);
  Contents contents = contents_of(items, session.options().context.world_rank);
  std::string folder;
  Upload staged = ended_upload("");
  if (!contents.scopes.empty()) {
    const StagePlace place = session.next_stage();
    folder = place.folder();
    staged = bring(session, std::move(contents), place);
  }
  session.finish_save(staged);
  session.set_phase(Phase::training);
  return CheckpointAccess::staged(std::move(folder), std::move(staged), save);
}

}  // namespace

Checkpoint save_items(const std::vector<Item>& items) {
  return save_with("Checkpoint::save()", items, [](Session&, const Contents& contents, const StagePlace& place) {
    return ended_upload(write(contents, place));
  });
}

Checkpoint async_save_items(const std::vector<Item>& items) {
  return save_with("Checkpoint::async_save()", items, [](Session& session, Contents contents, const StagePlace& place) {
    auto arena = session.free_arena();
    contents.states = arena->copy(contents.states);
    return session.start_upload(
        [contents = std::move(contents), place, arena = std::move(arena)] { return write(contents, place); });
  });
}

void copy_items(comm::Group& group, int64_t root, const std::vector<Item>& items, const std::vector<Item>& copied) {
  const ParameterNames names = parameter_names(name_items(items));
  for (const Item& item : copied) {
    if (placement_of(item) != Placement::replicated) continue;
    StateDict state;
    Json form;
    if (group.rank() == root) {
      state = state_of(item, names);
      form["values"] = state.values;
      for (auto& [name, tensor] : state.tensors) {
        tensor = tensor.cpu();
        form["tensors"][name] = {{"type", static_cast<int>(tensor.scalar_type())}, {"shape", tensor.sizes().vec()}};
      }
    }
    const std::string text = comm::all_gather_text(group, group.rank() == root ? encode_json(form) : "").at(root);
    if (group.rank() != root) {
      form = value_or_throw(decode_json(text));
      state.values = form.at("values");
      const Json forms = form.value("tensors", Json::object());
      for (const auto& [name, tensor] : forms.items()) {
        state.tensors[name] = torch::empty(tensor.at("shape").get<std::vector<int64_t>>(),
                                           static_cast<torch::ScalarType>(tensor.at("type").get<int>()));
      }
    }
    std::vector<torch::Tensor> tensors;
    for (const auto& [name, tensor] : state.tensors) tensors.push_back(tensor);
    group.broadcast_coalesced(tensors, root);
    if (group.rank() != root) restore(item, state, names);
  }
}

LoadResult load_items(const Checkpoint& checkpoint, const LoadRequest& request) {
  // From an object store only what is asked for is read.
  const storage::Location& location = CheckpointAccess::location(checkpoint);
  const storage::Location folder = location.is_uri() ? location : storage::Location(*checkpoint.as_directory());
  const auto reader = value_or_throw(checkpoint::TensorReader::open(folder));
  const auto named = name_items(request.items);
  const auto names = parameter_names(named);
  const Session* session = Session::current_or_null();
  const int64_t rank = session == nullptr ? 0 : session->options().context.world_rank;
  LoadResult result;
  for (const auto& item : named) {
    StateDict state = read_item(reader, saved_scope(reader.manifest(), item, rank));
    if (item.item.module != nullptr && !request.options.strict) {
      make_fit(state, state_of(item.item, names), prefix_of(item), result);
    }
    restore(item.item, state, names);
  }
  return result;
}

}  // namespace train

namespace {

at::Generator gpu_generator() {
  const train::Session* session = train::Session::current_or_null();
  const bool has_gpu = session != nullptr && session->options().device.is_cuda();
  return at::globalContext().defaultGenerator(has_gpu ? session->options().device : torch::Device(torch::kCUDA));
}

// Threads of loaders may draw from the generator meanwhile.
torch::Tensor state_of(at::Generator generator) {
  const std::lock_guard lock(generator.mutex());
  return generator.get_state();
}

void set_state(at::Generator generator, const torch::Tensor& state) {
  const std::lock_guard lock(generator.mutex());
  generator.set_state(state);
}

}  // namespace

StateDict RandomState::state_dict() const {
  StateDict state;
  state.tensors["cpu"] = state_of(at::detail::getDefaultCPUGenerator());
  if (torch::cuda::is_available()) state.tensors["gpu"] = state_of(gpu_generator());
  return state;
}

void RandomState::load_state_dict(const StateDict& state) {
  const auto cpu = state.tensors.find("cpu");
  if (cpu == state.tensors.end()) throw ConfigError("the saved random state is none: its tensor \"cpu\" is missing");
  set_state(at::detail::getDefaultCPUGenerator(), cpu->second);
  const auto gpu = state.tensors.find("gpu");
  if (gpu != state.tensors.end() && torch::cuda::is_available()) set_state(gpu_generator(), gpu->second);
}

}  // namespace paceline
