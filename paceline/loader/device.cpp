#include "paceline/loader/device.h"

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/core/StreamGuard.h>

namespace paceline::loader {

DeviceCopy::DeviceCopy(torch::Device device, bool pin_memory) : device_(device), pin_memory_(pin_memory) {
  if (device.is_cpu()) return;
  const c10::impl::VirtualGuardImpl guard(device.type());
  if (!device_.has_index()) device_ = guard.getDevice();
  stream_ = guard.getStreamFromGlobalPool(device_, /*isHighPriority=*/false);
}

std::shared_ptr<c10::Event> DeviceCopy::start(const std::vector<torch::Tensor*>& tensors) const {
  if (!stream_) return nullptr;
  const c10::StreamGuard guard(*stream_);
  for (torch::Tensor* tensor : tensors) {
    if (tensor->device() == device_) continue;
    const torch::Tensor host = pin_memory_ && tensor->is_cpu() ? tensor->pin_memory() : *tensor;
    *tensor = host.to(device_, /*non_blocking=*/true);
  }
  auto event = std::make_shared<c10::Event>(device_.type());
  event->record(*stream_);
  return event;
}

void DeviceCopy::wait_for(const std::vector<torch::Tensor*>& tensors, c10::Event* event) const {
  if (event == nullptr) return;
  const c10::Stream training = c10::impl::VirtualGuardImpl(device_.type()).getStream(device_);
  event->block(training);
  // The memory belongs to the copying stream: it must not be used again before the training stream is done with it.
  for (torch::Tensor* tensor : tensors) tensor->record_stream(training);
}

}  // namespace paceline::loader
