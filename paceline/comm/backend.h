// Backends: what carries a group's collectives, one row each.
//
// Everything that chooses among them, refuses one or lists them asks the rows. To add one, write a file of comm/ that
// gives its row, as gloo.cpp does, and name the row in backend.cpp. Pure data.
#pragma once

#include <c10/core/DeviceType.h>
#include <c10/util/intrusive_ptr.h>

#include <string>
#include <string_view>
#include <vector>

namespace c10d {
class Store;
}

namespace paceline::comm {

struct BackendSettings;
struct ConnectedBackend;

struct Backend {
  /// As TorchConfig.backend and torch.distributed have it: "gloo".
  std::string_view name;
  /// Whose tensors its collectives take.
  std::vector<c10::DeviceType> devices;
  /// Whether ranks may have a device in common.
  bool shares_devices = true;
  /// What this build lacks for it, such as "a CUDA build of LibTorch"; "" where it is built in.
  std::string_view missing;
  /// Connects to all ranks; collective. Throws what the backend throws. Null where it is not built in.
  ConnectedBackend (*connect)(const c10::intrusive_ptr<c10d::Store>& store, const BackendSettings& settings) = nullptr;

  bool is_built_in() const { return missing.empty(); }
  bool takes(c10::DeviceType device) const;
};

/// Null when there is none of that name.
const Backend* find_backend(std::string_view name);
/// What carries the tensors of a device where nobody chooses, whether or not it is built in. `shared`: ranks have the
/// device in common.
const Backend& default_backend(c10::DeviceType device, bool shared = false);
/// The names of all, also of those that are not built in: for messages, and what a setting may be.
std::vector<std::string> backend_names();
/// "\"gloo\"": those that are built in and take the device's tensors, for messages.
std::string backends_for(c10::DeviceType device);

}  // namespace paceline::comm
