// Stateful: anything that a checkpoint can hold, as named tensors and JSON.
//
// Modules, optimizers, loader positions, schedulers, gradient scalers and random states all become a StateDict; the
// checkpoint writes tensors as safetensors and values into the manifest. Not thread-safe.
#pragma once

#include <torch/torch.h>

#include <map>
#include <string>

#include "paceline/core/json.h"

namespace paceline {

/// The state of one object, as a checkpoint stores it.
struct StateDict {
  /// Tensors by name; checkpoints call them "<item>/<name>". Detached; they may share storage with the live object.
  std::map<std::string, torch::Tensor> tensors;
  /// Everything that is not a tensor: counters, names, options.
  Json values = Json::object();
};

/// Which ranks have the state when several train.
enum class Placement {
  replicated,  ///< equal on all ranks: rank 0 writes it, all read it
  per_rank     ///< each rank has its own: every rank writes and reads its part (random states)
};

/// The interface; implement it to put an object of your own into a checkpoint.
///
///     class MovingAverage final : public paceline::Stateful {
///      public:
///       std::string kind() const override { return "moving_average"; }
///       Placement placement() const override { return Placement::replicated; }
///       StateDict state_dict() const override { return {{{"mean", mean_}}, {{"steps", steps_}}}; }
///       void load_state_dict(const StateDict& state) override {
///         mean_ = state.tensors.at("mean");
///         steps_ = state.values.at("steps");
///       }
///       …
///     };
class Stateful {
 public:
  virtual ~Stateful() = default;
  /// A short name for messages and files, one word: "loader", "scheduler", "scaler", "random". Not "model" or
  /// "optimizer".
  virtual std::string kind() const = 0;
  /// Whether one rank's state stands for all.
  virtual Placement placement() const = 0;
  /// The current state. The caller writes or copies the tensors before it returns, so they need not be copies.
  virtual StateDict state_dict() const = 0;
  /// Throws ConfigError, which names what is missing, left over, or of another shape or type.
  virtual void load_state_dict(const StateDict& state) = 0;
};

}  // namespace paceline
