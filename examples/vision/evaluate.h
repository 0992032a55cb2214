// Evaluates a classifier over all ranks on examples that it was not trained on.
#pragma once

#include <paceline/paceline.h>

struct Evaluation {
  double loss = 0;      // mean cross entropy
  double accuracy = 0;  // share of right answers, 0 to 1
};

/// Every rank gets the same result. `loader` gives (images, labels); with DataLoaderOptions::evaluation every example
/// counts once. `model` is in training mode afterwards. Throws CollectiveError if a rank is gone.
///
///     const Evaluation evaluation = evaluate(model, test_loader);
template <class Model, class Loader>
Evaluation evaluate(Model& model, Loader& loader) {
  const torch::NoGradGuard no_gradients;
  model->eval();
  torch::Tensor sums = torch::zeros({3}, torch::device(paceline::get_device()).dtype(torch::kFloat64));
  for (auto& [images, labels] : loader) {
    const torch::Tensor logits = model->forward(images);
    sums[0] += torch::cross_entropy_loss(logits, labels, {}, at::Reduction::Sum);
    sums[1] += (logits.argmax(1) == labels).sum();
    sums[2] += labels.size(0);
  }
  model->train();
  sums = paceline::all_reduce(sums).cpu();
  return {(sums[0] / sums[2]).item<double>(), (sums[1] / sums[2]).item<double>()};
}
