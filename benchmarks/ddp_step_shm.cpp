// ddp_step_shm: milliseconds of a data-parallel step with 84 MB of gradients through shared memory, in turns with a
// step of the same model that averages nothing; the peer, over Gloo, is in peers/workloads.py.
#include "measurement.h"
#include "paceline/paceline.h"

using namespace paceline::benchmarks;

double milliseconds_of_step(torch::nn::Sequential& model, paceline::optim::SGD& optimizer, const torch::Tensor& batch) {
  paceline::barrier();
  const int64_t start_ns = now_ns();
  const torch::Tensor loss = model->forward(batch).square().mean();
  optimizer.zero_grad();
  loss.backward();
  optimizer.step();
  return static_cast<double>(now_ns() - start_ns) / 1e6;
}

void train_loop(const paceline::Config& config) {
  constexpr int64_t kWarmUp = 5;
  torch::nn::Sequential model = paceline::prepare_model(wide_model(), {.ddp = {.gradient_as_bucket_view = true}}),
                        alone = wide_model();
  paceline::optim::SGD optimizer(model->parameters(), 0.01), optimizer_alone(alone->parameters(), 0.01);
  const torch::Tensor batch = wide_batch();
  std::vector<double> together, apart;
  for (int64_t step = -kWarmUp; step < config.get<int64_t>("iterations"); ++step) {
    const double with_others = milliseconds_of_step(model, optimizer, batch);
    const double without = milliseconds_of_step(alone, optimizer_alone, batch);
    if (step < 0) continue;
    together.push_back(with_others);
    apart.push_back(without);
  }
  write_rank(config, {{"samples", together}, {"peers", {{"compute alone", apart}}}});
}
PACELINE_TRAIN_LOOP(train_loop);

int main(int argc, char** argv) {
  return measure_in_loop(argc, argv, train_loop);
}
