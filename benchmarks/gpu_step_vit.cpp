// gpu_step_vit: milliseconds of a step of the VisionTransformer of examples/030_cifar10_vit in bfloat16 on one GPU; the
// peer, with torchvision's, is in peers/workloads.py.
#include "examples/vision/vision_transformer.h"
#include "measurement.h"
#include "paceline/paceline.h"

using namespace paceline::benchmarks;

void train_loop(const paceline::Config& config) {
  constexpr int64_t kBatchSize = 512;
  const torch::Device device = paceline::get_device();
  auto model = paceline::prepare_model(VisionTransformer());
  paceline::optim::AdamW optimizer(model->parameters(), paceline::optim::AdamWOptions(1e-3).weight_decay(1e-2));
  const torch::Tensor images = torch::randn({kBatchSize, 3, 32, 32}, device);
  const torch::Tensor labels = torch::randint(10, {kBatchSize}, torch::dtype(torch::kInt64).device(device));
  time_gpu_steps(config, [&] {
    torch::Tensor loss;
    {
      const auto scope = paceline::autocast(device, torch::kBFloat16);
      loss = torch::nn::functional::cross_entropy(model->forward(images), labels);
    }
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
  });
}
PACELINE_TRAIN_LOOP(train_loop);

int main(int argc, char** argv) {
  return measure_in_loop(argc, argv, train_loop, one_gpu());
}
