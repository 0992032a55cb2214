// clip_grad_norm: scales gradients down so that their total norm is bounded.
#pragma once

#include <torch/torch.h>

#include <vector>

namespace paceline {

/// Multiplies all gradients by max_norm / norm if their norm, that of all gradients as one vector, exceeds `max_norm`.
/// The result equals that of torch::nn::utils::clip_grad_norm_, but this uses few kernels and does not wait for the
/// device. The norm is computed in float32 at least, whatever the type of the gradients, which may be sparse.
///
/// `norm_type`: any number; 2 is the Euclidean norm, 1 the sum and infinity the largest of the absolute values. Returns
/// the norm before clipping, a tensor without dimensions; it is zero if there are no gradients. All ranks clip alike:
/// the norm is that of the whole gradients, even if prepare_model() has given each rank only a part of them. Throws
/// ConfigError for a `max_norm` that is negative or NaN. With `error_if_nonfinite` it throws an Error if the norm is
/// not finite (which has to wait for the device).
///
///     loss.backward();
///     paceline::clip_grad_norm(model->parameters(), 1.0);
///     optimizer.step();
torch::Tensor clip_grad_norm(const std::vector<torch::Tensor>& parameters, double max_norm, double norm_type = 2.0,
                             bool error_if_nonfinite = false);

}  // namespace paceline
