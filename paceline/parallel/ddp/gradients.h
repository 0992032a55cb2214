// What is done to gradients: to one on its way into a parameter's `.grad`, and to those of a model there. Any thread,
// one at a time for the same parameters. Parameters without a gradient are passed over.
#pragma once

#include <torch/torch.h>

#include <vector>

#include "paceline/parallel/ddp/model_agreement.h"

namespace paceline::parallel {

/// `gradient` with the strides of `parameter`, where the two differ only in dimensions of one element, whose strides
/// mean nothing; otherwise `gradient` itself. Nothing is copied.
///
/// A 1×1 convolution of images in channels-last memory gives such gradients. c10d's reducer compares strides literally
/// and warns that performance may suffer, on every rank of every such model (pytorch/pytorch#47163, #157862).
torch::Tensor with_strides_of(const torch::Tensor& parameter, const torch::Tensor& gradient);

void scale_gradients(const std::vector<NamedTensor>& parameters, double factor);

/// Gradients that are views become tensors of their own in the same memory: torch::optim's zero_grad() detaches
/// gradients, which views refuse.
void unview_gradients(const std::vector<NamedTensor>& parameters);

/// Gradients leave the reducer's buckets, into which what a broken backward has begun still writes.
void leave_buckets(const std::vector<NamedTensor>& parameters);

void drop_gradients(const std::vector<NamedTensor>& parameters);

}  // namespace paceline::parallel
