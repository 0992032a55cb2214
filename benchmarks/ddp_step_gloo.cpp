// ddp_step_gloo: milliseconds of a data-parallel step with 84 MB of gradients; the peer is in peers/workloads.py.
#include "measurement.h"
#include "paceline/paceline.h"

using namespace paceline::benchmarks;

void train_loop(const paceline::Config& config) {
  auto model = paceline::prepare_model(wide_model());
  paceline::optim::SGD optimizer(model->parameters(), 0.01);
  const torch::Tensor batch = wide_batch();
  time_steps(config, /*warm_up=*/5, [&] {
    const torch::Tensor loss = model->forward(batch).square().mean();
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
  });
}
PACELINE_TRAIN_LOOP(train_loop);

int main(int argc, char** argv) {
  return measure_in_loop(argc, argv, train_loop, two_workers(), {}, {.backend = "gloo"});
}
