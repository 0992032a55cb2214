// A picture of some digits with the model's predictions: a PNG to look at after training.
#pragma once

#include <torch/torch.h>

#include <string>

/// Writes the first nine digits in three rows of three, each captioned "label 7, predicted 7", in green where both
/// agree and in red where not.
///
/// pixels: [n ≥ 9, 28, 28] uint8; labels, predictions: [n] int64. All on the CPU. Throws paceline::StorageError if the
/// file cannot be written.
void draw_predictions(const torch::Tensor& pixels, const torch::Tensor& labels, const torch::Tensor& predictions,
                      const std::string& path);
