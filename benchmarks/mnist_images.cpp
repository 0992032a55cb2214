// mnist_images: images per second of ResNet-18 on MNIST in the steady state, both of two ranks together, in windows of
// steps; the peers are in peers/workloads.py.
#include <algorithm>

#include "examples/vision/mnist.h"
#include "examples/vision/resnet18.h"
#include "measurement.h"
#include "paceline/paceline.h"

using namespace paceline::benchmarks;

void train_loop(const paceline::Config& config) {
  constexpr int64_t kGlobalBatchSize = 128, kWarmUp = 5;
  const int64_t steps = config.get<int64_t>("iterations");
  const int64_t window = std::clamp<int64_t>(steps / 2, 1, 10);

  auto model = paceline::prepare_model(ResNet18(/*num_classes=*/10));
  auto loader = paceline::prepare_data_loader(
      Mnist(config.get<std::string>("data")),
      {.batch_size = kGlobalBatchSize / 2, .shuffle = true, .drop_last = true, .num_workers = 0});
  paceline::optim::Adam optimizer(model->parameters(), 1e-3);

  std::vector<double> images_per_second;
  int64_t start_ns = 0, done = -kWarmUp;
  for (auto& [images, labels] : loader) {
    const torch::Tensor loss = torch::nn::functional::cross_entropy(model->forward(images), labels);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    ++done;
    if (done < 0 || done % window != 0) continue;
    const double seconds = static_cast<double>(now_ns() - start_ns) / 1e9;
    if (done > 0) images_per_second.push_back(static_cast<double>(window * kGlobalBatchSize) / seconds);
    if (done >= steps) break;
    start_ns = now_ns();
  }
  write_samples(config, images_per_second);
}
PACELINE_TRAIN_LOOP(train_loop);

int main(int argc, char** argv) {
  return measure_in_loop(argc, argv, train_loop);
}
