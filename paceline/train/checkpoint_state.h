// Checkpoint::save and load: they store modules (TorchScript's too), optimizers and anything Stateful as safetensors
// and JSON. Items are given by reference or by pointer.
//
// Each item gets a name: the one that named() gives it, else "model", "optimizer", or its kind(), with "_2", "_3", …
// for further ones. Loading takes the same items: named ones in any order, the others of each kind in the same order.
// An item's tensors are in the file `<name>.safetensors` under their own names (a module's as in Python's state_dict);
// those of per-rank items are in `<name>.rank_<r>.safetensors`. Optimizer state is named after the parameters, whose
// names come from the modules in the same call. So save and load an optimizer together with its module.
//
// Rank 0 writes, with two exceptions: per-rank items (random states), and models that were prepared with
// parallel_strategy "none", with their optimizers. Of those every rank writes and reads its own. A model that
// prepare_model() has never seen counts as equal on all ranks. Errors: StorageError naming what cannot be read or
// written, what the checkpoint lacks, or a tensor whose type safetensors does not support; ConfigError for state that
// does not fit the item. Load before training starts: restoring several items stops at the first that does not fit.
//
//     report(metrics, Checkpoint::save(model, optimizer, scheduler, loader, random));
//     if (auto checkpoint = get_checkpoint()) checkpoint->load(model, optimizer, scheduler, loader, random);
#pragma once

#include <torch/torch.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "paceline/checkpoint/checkpoint.h"
#include "paceline/comm/group.h"
#include "paceline/state/held.h"
#include "paceline/state/script_module.h"
#include "paceline/state/stateful.h"

namespace paceline {

/// An item of Checkpoint::save() and load() under a name of its own; named() makes it.
template <class T>
struct Named {
  /// The item's name in the checkpoint.
  std::string name;
  /// The item; it must outlive this object.
  const T& item;
};

/// Gives an item a name in the checkpoint, so that the order of several items of one kind no longer matters. Letters,
/// digits, '_' and '-', and each name once in a call; otherwise save() or load() throws ConfigError.
///
///     report(metrics, Checkpoint::save(named("generator", generator), named("critic", critic)));
///     checkpoint->load(named("critic", critic));
template <class T>
Named<T> named(std::string name, const T& item) {
  return {std::move(name), item};
}

namespace train {

/// One thing to be saved or restored, whatever its type.
struct Item {
  torch::nn::Module* module = nullptr;
  torch::optim::Optimizer* optimizer = nullptr;
  Stateful* stateful = nullptr;
  std::string name = {};                               // the user's own, "" for none
  std::shared_ptr<torch::nn::Module> owner = nullptr;  // of `module`, where nobody else owns it
};

inline Item make_item(const torch::nn::Module& module) {
  return {.module = const_cast<torch::nn::Module*>(&module)};
}
template <class Contained>
Item make_item(const torch::nn::ModuleHolder<Contained>& holder) {
  return make_item(*holder.ptr());
}
/// A TorchScript module's parameters and buffers.
inline Item make_item(const torch::jit::Module& module) {
  auto view = script_module(module);
  return {.module = view.get(), .owner = view};
}
inline Item make_item(const torch::optim::Optimizer& optimizer) {
  return {.optimizer = const_cast<torch::optim::Optimizer*>(&optimizer)};
}
inline Item make_item(const Stateful& stateful) {
  return {.stateful = const_cast<Stateful*>(&stateful)};
}
template <class Pointer>
  requires PointerTo<Pointer, const torch::nn::Module> || PointerTo<Pointer, const torch::optim::Optimizer> ||
           PointerTo<Pointer, const Stateful>
Item make_item(const Pointer& pointer) {
  return make_item(held(pointer, "a module, an optimizer or a Stateful"));
}

template <class T>
Item make_item(const Named<T>& named) {
  Item item = make_item(named.item);
  item.name = named.name;
  return item;
}

/// What load() was given: items, and options last.
struct LoadRequest {
  std::vector<Item> items;
  LoadOptions options;
};
inline void add_to(LoadRequest& request, const LoadOptions& options) {
  request.options = options;
}
template <class T>
void add_to(LoadRequest& request, const T& item) {
  request.items.push_back(make_item(item));
}

Checkpoint save_items(const std::vector<Item>& items);
Checkpoint async_save_items(const std::vector<Item>& items);
LoadResult load_items(const Checkpoint& checkpoint, const LoadRequest& request);
/// Those of `copied` that are equal on all ranks become what they are on rank `root`. Collective. `items`: with the
/// modules by which optimizers name their parameters.
void copy_items(comm::Group& group, int64_t root, const std::vector<Item>& items, const std::vector<Item>& copied);

}  // namespace train

/// The random state of this rank (of LibTorch's CPU generator, and of its GPU's if there is one). Save it with a model,
/// so that a resumed run draws the numbers that the uninterrupted one would have drawn.
///
///     RandomState random;
///     report(metrics, Checkpoint::save(model, optimizer, loader, random));
class RandomState final : public Stateful {
 public:
  std::string kind() const override { return "random"; }
  Placement placement() const override { return Placement::per_rank; }
  StateDict state_dict() const override;
  /// Throws ConfigError if `state` is not a random state.
  void load_state_dict(const StateDict& state) override;
};

template <class... Items>
Checkpoint Checkpoint::save(const Items&... items) {
  return train::save_items({train::make_item(items)...});
}

template <class... Items>
Checkpoint Checkpoint::async_save(const Items&... items) {
  return train::async_save_items({train::make_item(items)...});
}

template <class... Items>
LoadResult Checkpoint::load(Items&&... items) const {
  train::LoadRequest request;
  (train::add_to(request, items), ...);
  return train::load_items(*this, request);
}

}  // namespace paceline
