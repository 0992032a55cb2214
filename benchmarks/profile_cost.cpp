// profile_cost: milliseconds of a data-parallel step of the VisionTransformer of examples/030_cifar10_vit while the
// worker samples itself for `paceline profile`, beside the steps between, which nobody samples: every other one is.
#include "examples/vision/vision_transformer.h"
#include "measurement.h"
#include "paceline/paceline.h"
#include "paceline/stacks/sampler.h"

using namespace paceline::benchmarks;

void train_loop(const paceline::Config& config) {
  constexpr int64_t kBatchSize = 16;  // of each rank
  constexpr int64_t kWarmUp = 4;
  auto model = paceline::prepare_model(VisionTransformer());
  paceline::optim::AdamW optimizer(model->parameters(), paceline::optim::AdamWOptions(1e-3).weight_decay(1e-2));
  const torch::Tensor images = torch::randn({kBatchSize, 3, 32, 32});
  const torch::Tensor labels = torch::randint(10, {kBatchSize}, torch::kInt64);
  std::vector<double> sampled, unsampled;
  size_t samples = 0;
  for (int64_t step = 1; step <= kWarmUp + 2 * config.get<int64_t>("iterations"); ++step) {
    const bool samples_this = step % 2 == 0;
    std::unique_ptr<paceline::stacks::Sampler> sampler;
    if (samples_this) sampler = paceline::stacks::Sampler::start({}).ValueOrDie();
    const int64_t start_ns = now_ns();
    const torch::Tensor loss = torch::nn::functional::cross_entropy(model->forward(images), labels);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    if (step > kWarmUp) (samples_this ? sampled : unsampled).push_back(static_cast<double>(now_ns() - start_ns) / 1e6);
    if (!sampler) continue;
    sampler->stop();
    samples += paceline::stacks::SampleReader::open(sampler->memory().duplicate().ValueOrDie()).ValueOrDie().size();
  }
  if (samples == 0) throw std::runtime_error("nothing was sampled");
  write_rank(config, {{"samples", sampled}, {"peers", {{"the step without it", unsampled}}}});
}
PACELINE_TRAIN_LOOP(train_loop);

int main(int argc, char** argv) {
  return measure_in_loop(argc, argv, train_loop);
}
