// gpu_step_resnet: milliseconds of a step of ResNet-18 in float32 on one GPU; the peer is in peers/workloads.py.
#include "examples/vision/resnet18.h"
#include "measurement.h"
#include "paceline/paceline.h"

using namespace paceline::benchmarks;

void train_loop(const paceline::Config& config) {
  constexpr int64_t kBatchSize = 128;
  const torch::Device device = paceline::get_device();
  auto model = paceline::prepare_model(ResNet18(/*num_classes=*/10));
  paceline::optim::Adam optimizer(model->parameters(), 1e-3);
  const torch::Tensor images = torch::randn({kBatchSize, 1, 224, 224}, device);
  const torch::Tensor labels = torch::randint(10, {kBatchSize}, torch::dtype(torch::kInt64).device(device));
  time_gpu_steps(config, [&] {
    const torch::Tensor loss = torch::nn::functional::cross_entropy(model->forward(images), labels);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
  });
}
PACELINE_TRAIN_LOOP(train_loop);

int main(int argc, char** argv) {
  return measure_in_loop(argc, argv, train_loop, one_gpu());
}
