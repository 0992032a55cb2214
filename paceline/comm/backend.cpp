#include "paceline/comm/backend.h"

#include <algorithm>

#include "paceline/comm/backend_internal.h"

namespace paceline::comm {
namespace {

// Of those that take a device's tensors the first is its default.
const std::vector<Backend>& rows() {
  static const std::vector<Backend> rows = {nccl_backend(), gloo_backend()};
  return rows;
}

}  // namespace

bool Backend::takes(c10::DeviceType device) const {
  return std::ranges::find(devices, device) != devices.end();
}

const Backend* find_backend(std::string_view name) {
  const auto row = std::ranges::find(rows(), name, &Backend::name);
  return row == rows().end() ? nullptr : &*row;
}

const Backend& default_backend(c10::DeviceType device, bool shared) {
  const auto row = std::ranges::find_if(
      rows(), [&](const Backend& backend) { return backend.takes(device) && (backend.shares_devices || !shared); });
  return row == rows().end() ? rows().back() : *row;
}

std::vector<std::string> backend_names() {
  std::vector<std::string> names;
  for (const Backend& backend : rows()) names.emplace_back(backend.name);
  return names;
}

std::string backends_for(c10::DeviceType device) {
  std::string text;
  for (const Backend& backend : rows()) {
    if (!backend.is_built_in() || !backend.takes(device)) continue;
    text += (text.empty() ? "\"" : ", \"") + std::string(backend.name) + "\"";
  }
  return text;
}

}  // namespace paceline::comm
