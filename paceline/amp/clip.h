// clip_grad_norm: scales gradients down so that their common norm is bounded.
#pragma once

#include <torch/torch.h>

#include <vector>

namespace paceline {

/// Multiplies all gradients by max_norm / norm when their norm, taken as that of one vector, exceeds `max_norm`.
/// Equal to torch::nn::utils::clip_grad_norm_, but in few kernels and without waiting for the device. The norm is
/// computed in float32 at least, whatever the gradients are; they may be sparse.
///
/// `norm_type`: any number; 2 is the Euclidean norm, 1 the sum and infinity the largest of the absolute values. Gives
/// the norm before clipping, a tensor without dimensions; zero when there are no gradients. All ranks clip alike: the
/// norm is that of the whole gradients, also where prepare_model() has given each rank a part of them. ConfigError for
/// a `max_norm` that is negative or no number. With `error_if_nonfinite` an Error says that the norm is not finite
/// (this waits for the device).
///
///     loss.backward();
///     paceline::clip_grad_norm(model->parameters(), 1.0);
///     optimizer.step();
torch::Tensor clip_grad_norm(const std::vector<torch::Tensor>& parameters, double max_norm, double norm_type = 2.0,
                             bool error_if_nonfinite = false);

}  // namespace paceline
