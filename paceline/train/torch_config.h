// TorchConfig: how the workers' process group is made.
#pragma once

#include "paceline/comm/backend.h"
#include "paceline/core/config/field.h"

namespace paceline {

/// One of the backends that comm/ has, or one for each kind of device.
inline Constraint known_backend() {
  return {[](const Json& value) { return value.is_string() && comm::is_backend_choice(value.get<std::string>()); },
          comm::backend_choices()};
}

#define PACELINE_TORCH_CONFIG_FIELDS(FIELD)                                                                          \
  FIELD(std::optional<std::string>, backend, std::nullopt, ::paceline::known_backend(),                              \
        "Backend of the collectives; \"paceline\" is shared memory in a machine, and Gloo between them. By default " \
        "the first of these that supports the worker's device, but gloo if workers share a GPU")                     \
  FIELD(double, timeout_s, 1800.0, ::paceline::between(0, 1e9), "Seconds after which a collective fails")
PACELINE_CONFIG(TorchConfig, PACELINE_TORCH_CONFIG_FIELDS);

}  // namespace paceline
