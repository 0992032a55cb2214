// What data parallelism requires of a model before it is prepared. The rank's training thread; what does not hold is an
// Error that names the parameters or modules.
#pragma once

#include <torch/torch.h>

#include <string>
#include <vector>

#include "paceline/comm/group.h"
#include "paceline/parallel/ddp/model_agreement.h"

namespace paceline::parallel {

/// Throws a CollectiveError unless all `parameters` are on one device.
void check_one_device(const std::vector<NamedTensor>& parameters);

/// Throws a ConfigError if `module` holds plain batch normalisation, which DdpOptions.sync_batch_norm cannot change.
void check_batch_norms(const torch::nn::Module& module);

/// Throws a CollectiveError, on every rank of `group`, unless all ranks hold the same model. All ranks call it.
void check_agreement(const torch::nn::Module& module, comm::Group& group);

/// "a", "b": names as errors list them.
std::string quoted(const std::vector<std::string>& names);

}  // namespace paceline::parallel
