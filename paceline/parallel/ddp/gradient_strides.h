// The strides of gradients on their way into a parameter's `.grad`. Pure; any thread.
#pragma once

#include <torch/torch.h>

namespace paceline::parallel {

/// `gradient` with the strides of `parameter`, where the two differ only in dimensions of one element, whose strides
/// mean nothing; otherwise `gradient` itself. Nothing is copied.
///
/// A 1×1 convolution of images in channels-last memory gives such gradients. c10d's reducer compares strides literally
/// and warns that performance may suffer, on every rank of every such model (pytorch/pytorch#47163, #157862).
torch::Tensor with_strides_of(const torch::Tensor& parameter, const torch::Tensor& gradient);

}  // namespace paceline::parallel
