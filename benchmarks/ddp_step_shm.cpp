// ddp_step_shm: milliseconds of forward and backward of a data-parallel step with 84 MB of gradients through shared
// memory, in turns with the same of a model that averages nothing; the peer, over Gloo, is in peers/workloads.py. The
// gradients stay where they are, set to zero before, as in the trial that set the target. Those that zero_grad() drops,
// as it does by default, are copied into the buckets: that is measured beside.
#include "measurement.h"
#include "paceline/paceline.h"

using namespace paceline::benchmarks;

double milliseconds_of_step(torch::nn::Sequential& model, paceline::optim::SGD& optimizer, const torch::Tensor& batch,
                            bool keeps_gradients) {
  optimizer.zero_grad(/*set_to_none=*/!keeps_gradients);
  paceline::barrier();
  const int64_t start_ns = now_ns();
  model->forward(batch).square().mean().backward();
  const auto milliseconds = static_cast<double>(now_ns() - start_ns) / 1e6;
  optimizer.step();
  return milliseconds;
}

void train_loop(const paceline::Config& config) {
  constexpr int64_t kWarmUp = 5;
  torch::nn::Sequential model = paceline::prepare_model(wide_model(), {.ddp = {.gradient_as_bucket_view = true}}),
                        alone = wide_model();
  paceline::optim::SGD optimizer(model->parameters(), 0.01), optimizer_alone(alone->parameters(), 0.01);
  const torch::Tensor batch = wide_batch();
  std::vector<double> together, apart, together_dropped, apart_dropped;
  for (int64_t step = -kWarmUp; step < config.get<int64_t>("iterations"); ++step) {
    for (const bool keeps_gradients : {true, false}) {
      const double with_others = milliseconds_of_step(model, optimizer, batch, keeps_gradients);
      const double without = milliseconds_of_step(alone, optimizer_alone, batch, keeps_gradients);
      if (step < 0) continue;
      (keeps_gradients ? together : together_dropped).push_back(with_others);
      (keeps_gradients ? apart : apart_dropped).push_back(without);
    }
  }
  write_rank(config, {{"samples", together},
                      {"peers",
                       {{"compute alone", apart},
                        {"gradients dropped", together_dropped},
                        {"gradients dropped, compute alone", apart_dropped}}}});
}
PACELINE_TRAIN_LOOP(train_loop);

int main(int argc, char** argv) {
  return measure_in_loop(argc, argv, train_loop);
}
