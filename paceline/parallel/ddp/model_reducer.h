// The gradient reducer of a model: what DdpOptions and the kinds of its modules say of it. The rank's training thread.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <vector>

#include "paceline/comm/reducer.h"
#include "paceline/parallel/ddp/data_parallel.h"
#include "paceline/parallel/ddp/model_agreement.h"

namespace paceline::parallel {

/// Which of `parameters` get sparse gradients: embeddings of `module` that were told to give them.
std::vector<bool> expect_sparse(const torch::nn::Module& module, const std::vector<NamedTensor>& parameters);

/// A reducer over `group` for `parameters`, of which `sparse` get sparse gradients. All ranks make theirs alike.
std::unique_ptr<comm::GradientReducer> make_reducer(const std::vector<NamedTensor>& parameters,
                                                    const std::vector<bool>& sparse,
                                                    const std::shared_ptr<comm::Group>& group,
                                                    const DdpOptions& options);

}  // namespace paceline::parallel
