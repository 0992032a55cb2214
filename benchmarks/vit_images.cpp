// vit_images: images per second of the VisionTransformer of examples/030_cifar10_vit, both of two ranks together,
// beside one process with two threads; the peers, with torchvision's, are in peers/workloads.py.
#include <iostream>

#include "examples/vision/vision_transformer.h"
#include "measurement.h"
#include "paceline/paceline.h"

using namespace paceline::benchmarks;

constexpr int64_t kGlobalBatchSize = 32;

void train_loop(const paceline::Config& config) {
  constexpr int64_t kWarmUp = 3;
  const int64_t batch_size = kGlobalBatchSize / paceline::get_context().get_world_size();
  auto model = paceline::prepare_model(VisionTransformer());
  paceline::optim::AdamW optimizer(model->parameters(), paceline::optim::AdamWOptions(1e-3).weight_decay(1e-2));
  const torch::Tensor images = torch::randn({batch_size, 3, 32, 32});
  const torch::Tensor labels = torch::randint(10, {batch_size}, torch::kInt64);
  std::vector<double> images_per_second;
  for (int64_t step = -kWarmUp; step < config.get<int64_t>("iterations"); ++step) {
    const int64_t start_ns = now_ns();
    const torch::Tensor loss = torch::nn::functional::cross_entropy(model->forward(images), labels);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    if (step >= 0) images_per_second.push_back(kGlobalBatchSize * 1e9 / static_cast<double>(now_ns() - start_ns));
  }
  write_samples(config, images_per_second);
}
PACELINE_TRAIN_LOOP(train_loop);

int main(int argc, char** argv) {
  paceline::init(argc, argv);
  const Arguments arguments = parse_arguments(argc, argv);
  fit(train_loop, arguments, {.num_workers = 1, .threads_per_worker = 2});
  const paceline::Json one = read_rank(arguments, 0).at("samples");
  fit(train_loop, arguments, two_workers());
  paceline::Json found = read_rank(arguments, 0);
  found["peers"] = {{"one process of two threads", one}};
  std::cout << found << std::endl;
}
