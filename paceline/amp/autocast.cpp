#include "paceline/amp/autocast.h"

#include <ATen/autocast_mode.h>

namespace paceline {

Autocast::Autocast(torch::DeviceType device, torch::ScalarType dtype, bool enabled)
    : device_(device),
      outer_dtype_(at::autocast::get_autocast_dtype(device)),
      outer_enabled_(at::autocast::is_autocast_enabled(device)) {
  at::autocast::set_autocast_enabled(device, enabled);
  at::autocast::set_autocast_dtype(device, dtype);
  at::autocast::increment_nesting();
}

Autocast::~Autocast() {
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_, outer_enabled_);
  at::autocast::set_autocast_dtype(device_, outer_dtype_);
}

Autocast autocast(torch::Device device, std::optional<torch::ScalarType> dtype, bool enabled) {
  return Autocast(device.type(), dtype.value_or(at::autocast::get_autocast_dtype(device.type())), enabled);
}

}  // namespace paceline
