// A program without Paceline: LibTorch and c10d, written for torchrun. Both torchrun and `paceline run` start it
// unchanged:
//
//     torchrun --standalone --nproc-per-node 2 --no-python build/release/examples/050_existing_torchrun_program
//     paceline run --nproc-per-node 2 build/release/examples/050_existing_torchrun_program
//
// With `paceline run` it gets restarts, a log of every rank, a run folder, and `paceline show`. The program makes the
// store and the group, averages gradients, and splits the data by hand; in the other examples prepare_model() and
// prepare_data_loader() do that.
#include <torch/torch.h>

#include <chrono>
#include <CLI/CLI.hpp>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <vector>

namespace {

constexpr auto kTimeout = std::chrono::seconds(60);

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) {
    throw std::runtime_error(std::string(name) + " is not set: start the program with torchrun or `paceline run`");
  }
  return value;
}

/// The group of all ranks that the launcher has started.
c10::intrusive_ptr<c10d::ProcessGroupGloo> make_group(int rank, int world_size) {
  c10d::TCPStoreOptions store_options;
  store_options.port = static_cast<uint16_t>(std::stoi(variable("MASTER_PORT")));
  store_options.timeout = kTimeout;
  store_options.waitWorkers = false;
  // torchrun keeps the store itself and says so; where nobody does, rank 0 has to.
  const char* kept = std::getenv("TORCHELASTIC_USE_AGENT_STORE");
  store_options.isServer = rank == 0 && (kept == nullptr || std::string(kept) != "True");
  auto store = c10::make_intrusive<c10d::TCPStore>(variable("MASTER_ADDR"), store_options);
  // The store outlives a start of the workers, and must not mix two.
  auto own = c10::make_intrusive<c10d::PrefixStore>("start_" + variable("TORCHELASTIC_RESTART_COUNT"), store);

  auto options = c10d::ProcessGroupGloo::Options::create(kTimeout);
  const char* interface = std::getenv("GLOO_SOCKET_IFNAME");
  options->devices.push_back(interface != nullptr ? c10d::ProcessGroupGloo::createDeviceForInterface(interface)
                                                  : c10d::ProcessGroupGloo::createDefaultDevice());
  return c10::make_intrusive<c10d::ProcessGroupGloo>(own, rank, world_size, options);
}

void train(int64_t steps) {
  const int rank = std::stoi(variable("RANK"));
  const int world_size = std::stoi(variable("WORLD_SIZE"));
  const auto group = make_group(rank, world_size);

  torch::manual_seed(0);  // the same weights on all ranks
  torch::nn::Linear model(4, 1);
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  const torch::Tensor slope = torch::tensor({1.0F, -2.0F, 3.0F, -4.0F}).view({4, 1});
  torch::manual_seed(1 + rank);  // other data on each
  torch::Tensor loss;
  for (int64_t step = 0; step < steps; ++step) {
    const torch::Tensor x = torch::randn({32, 4});
    loss = torch::mse_loss(model->forward(x), x.mm(slope));
    optimizer.zero_grad();
    loss.backward();
    for (const torch::Tensor& parameter : model->parameters()) {
      std::vector<torch::Tensor> gradients = {parameter.grad()};
      group->allreduce(gradients)->wait();
      gradients[0].div_(world_size);
    }
    optimizer.step();
  }
  // One piece, so that lines of two ranks do not mix.
  const torch::Tensor weights = model->weight.detach().flatten();
  std::ostringstream line;
  line << "rank " << rank << " of " << world_size << ": loss " << loss.item<float>() << ", weights";
  for (int64_t i = 0; i < weights.numel(); ++i) line << " " << weights[i].item<float>();
  std::cout << line.str() + "\n" << std::flush;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Finds a slope by gradient descent, on every rank that torchrun or `paceline run` has started.");
  int64_t steps = 200;
  app.add_option("--steps", steps, "steps of gradient descent")
      ->check(CLI::Range(1, 1'000'000'000).description(""))
      ->type_name("N")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    train(steps);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "050_existing_torchrun_program: " << error.what() << "\n";
    return 1;
  }
}
