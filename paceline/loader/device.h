// DeviceCopy: copies batches to the training device while it computes.
//
// Loader threads start the copy on a stream beside the training's; the training thread makes its own stream wait for
// it, without waiting itself. On the CPU nothing happens. Thread-safe.
#pragma once

#include <torch/torch.h>

#include <concepts>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

namespace paceline::loader {

/// Calls `function` with each tensor in `value`: a tensor, an example, or a vector, pair, tuple or array of those. What
/// else a batch holds is left alone.
template <class T, class Function>
void for_each_tensor(T& value, Function& function) {
  if constexpr (std::is_same_v<T, torch::Tensor>) {
    if (value.defined()) function(value);
  } else if constexpr (requires {
                         value.target;
                         value.data;
                       }) {
    for_each_tensor(value.data, function);
    for_each_tensor(value.target, function);
  } else if constexpr (requires {
                         typename T::TargetType;
                         value.data;
                       }) {
    for_each_tensor(value.data, function);
  } else if constexpr (requires { std::tuple_size<T>::value; }) {
    std::apply([&function](auto&... parts) { (for_each_tensor(parts, function), ...); }, value);
  } else if constexpr (requires { requires std::same_as<T, std::vector<typename T::value_type>>; }) {
    for (auto& part : value) for_each_tensor(part, function);
  }
}

class DeviceCopy {
 public:
  /// `pin_memory`: copy through page-locked memory, so that the copy runs beside the host.
  DeviceCopy(torch::Device device, bool pin_memory);

  /// On a loader thread: replaces the tensors by their copies, which are complete once the event is.
  template <class Batch>
  std::shared_ptr<c10::Event> start(Batch& batch) const {
    return start(tensors_of(batch));
  }
  /// On the training thread: whatever it queues from here on comes after the copies.
  template <class Batch>
  void wait_for(Batch& batch, c10::Event* event) const {
    wait_for(tensors_of(batch), event);
  }

 private:
  template <class Batch>
  std::vector<torch::Tensor*> tensors_of(Batch& batch) const {
    std::vector<torch::Tensor*> tensors;
    if (stream_) {
      auto collect = [&tensors](torch::Tensor& tensor) { tensors.push_back(&tensor); };
      for_each_tensor(batch, collect);
    }
    return tensors;
  }
  std::shared_ptr<c10::Event> start(const std::vector<torch::Tensor*>& tensors) const;
  void wait_for(const std::vector<torch::Tensor*>& tensors, c10::Event* event) const;

  torch::Device device_;
  bool pin_memory_;
  std::optional<c10::Stream> stream_;  // for the copies; none on the CPU
};

}  // namespace paceline::loader
