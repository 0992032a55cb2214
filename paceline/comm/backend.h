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
/// Of what TorchConfig.backend may be, one name or a list with a name for each kind of device ("cpu:gloo,cuda:nccl", as
/// torch.distributed has it), the name for a device; "" where the list has none for it.
std::string_view backend_for(std::string_view chosen, c10::DeviceType device);
/// Whether `chosen` is such a name or list: of backends that there are, and that take what they are named for.
bool is_backend_choice(std::string_view chosen);
/// What carries the tensors of a device where nobody chooses, whether or not it is built in. `shared`: ranks have the
/// device in common.
const Backend& default_backend(c10::DeviceType device, bool shared = false);
/// "one of \"nccl\", \"gloo\", or …": what TorchConfig.backend may be, also what is not built in; for messages.
std::string backend_choices();
/// "\"gloo\"": those that are built in and take the device's tensors, for messages.
std::string backends_for(c10::DeviceType device);

}  // namespace paceline::comm
