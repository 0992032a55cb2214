#include "paceline/comm/backend.h"

#include <algorithm>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <utility>

#include "paceline/comm/backend_internal.h"

namespace paceline::comm {
namespace {

// Of those that take a device's tensors the first is its default.
const std::vector<Backend>& rows() {
  static const std::vector<Backend> rows = {nccl_backend(), shared_memory_backend(), gloo_backend()};
  return rows;
}

// What stands before and behind the ':' of each entry of a list.
std::vector<std::pair<std::string_view, std::string_view>> pairs_in(std::string_view list) {
  std::vector<std::pair<std::string_view, std::string_view>> pairs;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    const std::string_view entry = list.substr(begin, end - begin);
    const size_t colon = std::min(entry.find(':'), entry.size());
    pairs.emplace_back(entry.substr(0, colon), entry.substr(std::min(colon + 1, entry.size())));
    begin = end + 1;
  }
  return pairs;
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

std::string_view backend_for(std::string_view chosen, c10::DeviceType device) {
  if (chosen.find(':') == std::string_view::npos) return chosen;
  for (const auto& [named, name] : pairs_in(chosen)) {
    if (named == c10::DeviceTypeName(device, /*lower_case=*/true)) return name;
  }
  return "";
}

bool is_backend_choice(std::string_view chosen) {
  if (chosen.find(':') == std::string_view::npos) return find_backend(chosen) != nullptr;
  return std::ranges::all_of(pairs_in(chosen), [](const auto& pair) {
    const Backend* const backend = find_backend(pair.second);
    return backend != nullptr && std::ranges::any_of(backend->devices, [&](c10::DeviceType device) {
             return pair.first == c10::DeviceTypeName(device, /*lower_case=*/true);
           });
  });
}

std::string backend_choices() {
  std::string names;
  for (const Backend& backend : rows()) {
    names += (names.empty() ? "\"" : ", \"") + std::string(backend.name) + "\"";
  }
  return "one of " + names + ", or one for each kind of device, such as \"cpu:gloo,cuda:nccl\"";
}

std::string backends_for(c10::DeviceType device) {
  std::string text;
  for (const Backend& backend : rows()) {
    if (!backend.is_built_in() || !backend.takes(device)) continue;
    text += (text.empty() ? "\"" : ", \"") + std::string(backend.name) + "\"";
  }
  return text;
}

void BackendLife::begin(c10d::Backend* backend) {
  const std::lock_guard lock(mutex_);
  backend_ = backend;
  if (is_aborted_) backend_->abort();
}

void BackendLife::end() {
  const std::lock_guard lock(mutex_);
  backend_ = nullptr;
}

void BackendLife::abort() {
  const std::lock_guard lock(mutex_);
  is_aborted_ = true;
  if (backend_ != nullptr) backend_->abort();
}

}  // namespace paceline::comm
