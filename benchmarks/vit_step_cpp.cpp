// vit_step_cpp: milliseconds of a data-parallel step of the VisionTransformer of examples/030_cifar10_vit; the peer,
// with torchvision's, is in peers/workloads.py.
#include "examples/vision/vision_transformer.h"
#include "measurement.h"
#include "paceline/paceline.h"

using namespace paceline::benchmarks;

void train_loop(const paceline::Config& config) {
  constexpr int64_t kBatchSize = 16;  // of each rank
  auto model = paceline::prepare_model(VisionTransformer());
  paceline::optim::AdamW optimizer(model->parameters(), paceline::optim::AdamWOptions(1e-3).weight_decay(1e-2));
  const torch::Tensor images = torch::randn({kBatchSize, 3, 32, 32});
  const torch::Tensor labels = torch::randint(10, {kBatchSize}, torch::kInt64);
  time_steps(config, /*warm_up=*/3, [&] {
    const torch::Tensor loss = torch::nn::functional::cross_entropy(model->forward(images), labels);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
  });
}
PACELINE_TRAIN_LOOP(train_loop);

int main(int argc, char** argv) {
  return measure_in_loop(argc, argv, train_loop);
}
