// Train loops that misbehave: exceptions, signals, hangs, memory, early exits; and one that does not, to compare with.
#include <paceline/paceline.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <functional>
#include <limits>
#include <stdexcept>

#include "tests/robustness/train_loops.h"

namespace {

using paceline::Checkpoint;
using paceline::Config;
using paceline::testing::is_rank;
using paceline::testing::name_of;

// True in the first attempt of a run only: misbehaviour that a restart cures.
bool first_attempt() {
  return paceline::get_context().get_attempt() == 1;
}

struct Sample {
  torch::Tensor input = torch::ones({8, 4});
  torch::Tensor target = torch::zeros({8, 2});
};

// Five steps of a small model with a checkpoint each; `misbehave` runs in step 3, after two published checkpoints.
void train(const std::function<void()>& misbehave) {
  torch::manual_seed(0);
  auto model = paceline::prepare_model(torch::nn::Linear(4, 2));
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  int64_t start = 1;
  if (auto checkpoint = paceline::get_checkpoint()) {
    checkpoint->load(model, optimizer);
    const std::string name = name_of(*checkpoint);
    start = std::stoll(name.substr(name.rfind('_') + 1)) % 5 + 1;
    std::printf("continue from %s\n", name.c_str());
  }
  const Sample sample;
  for (int64_t step = start; step <= 5; ++step) {
    if (step == 3) {
      paceline::barrier();  // every rank has made report 2
      misbehave();
    }
    auto loss = torch::mse_loss(model->forward(sample.input), sample.target);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    paceline::report({{"loss", loss.item<double>()}, {"step", step}}, Checkpoint::save(model, optimizer));
  }
}

void well() {
  train([] {});
}
PACELINE_TRAIN_LOOP(well);

void exception() {
  train([] {
    if (is_rank(1)) throw std::runtime_error("the disk of the data is gone");
  });
}
PACELINE_TRAIN_LOOP(exception);

void exception_everywhere() {
  train([] { throw std::runtime_error("bad sample 12345"); });
}
PACELINE_TRAIN_LOOP(exception_everywhere);

void killed() {
  train([] {
    if (is_rank(1) && first_attempt()) ::raise(SIGKILL);
  });
}
PACELINE_TRAIN_LOOP(killed);

// As code that makes a daemon closes what it does not know. Gloo, which would abort, has no such sockets.
void closes_local_sockets() {
  train([] {
    if (!is_rank(1)) return;
    for (int descriptor = 3; descriptor < 1024; ++descriptor) {
      int domain = 0;
      socklen_t size = sizeof domain;
      const bool is_socket = ::getsockopt(descriptor, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0;
      if (is_socket && domain == AF_UNIX) ::close(descriptor);
    }
    while (true) ::pause();
  });
}
PACELINE_TRAIN_LOOP(closes_local_sockets);

[[gnu::noipa]] void write_to_nowhere(volatile int* nowhere) {
  *nowhere = 1;
}

void crash() {
  train([] {
    if (is_rank(1)) write_to_nowhere(nullptr);
  });
}
PACELINE_TRAIN_LOOP(crash);

// The others wait for its gradients meanwhile.
[[gnu::noinline]] void wait_for_a_lock_of_its_own() {
  while (true) ::pause();
}

void hang_in_user_code() {
  train([] {
    if (is_rank(1) && first_attempt()) wait_for_a_lock_of_its_own();
  });
}
PACELINE_TRAIN_LOOP(hang_in_user_code);

void skip_a_collective() {
  train([] {
    if (is_rank(0)) paceline::all_reduce(torch::ones({2}));
    paceline::barrier();
  });
}
PACELINE_TRAIN_LOOP(skip_a_collective);

[[gnu::noinline]] void sum_over_all_ranks() {
  paceline::all_reduce(torch::ones({2}));
}

void wait_in_the_first_barrier() {
  if (is_rank(1)) wait_for_a_lock_of_its_own();
  paceline::barrier();
}
PACELINE_TRAIN_LOOP(wait_in_the_first_barrier);

void prepare_a_model_alone() {
  if (is_rank(0)) paceline::prepare_model(torch::nn::Linear(2, 1));
}
PACELINE_TRAIN_LOOP(prepare_a_model_alone);

// Before any step or report: nothing is known of how long its pauses are.
void return_before_the_others() {
  paceline::barrier();
  if (!is_rank(1)) sum_over_all_ranks();
}
PACELINE_TRAIN_LOOP(return_before_the_others);

// The tensor's size, then its type, then the call.
void collectives_that_do_not_fit() {
  const bool first = is_rank(0);
  const auto say = [](const std::function<void()>& call) {
    try {
      call();
    } catch (const paceline::CollectiveError& error) {
      std::printf("told: %s\n", error.what());
    }
  };
  say([&] { paceline::all_reduce(torch::ones({first ? 2 : 3})); });
  say([&] { paceline::all_gather(torch::ones({2}, first ? torch::kFloat32 : torch::kInt64)); });
  say([&] {
    if (first) paceline::broadcast(torch::ones({2}));
    if (!first) paceline::all_reduce(torch::ones({2}));
  });
  std::printf("then %g\n", paceline::all_reduce(torch::ones({1})).item<double>());
}
PACELINE_TRAIN_LOOP(collectives_that_do_not_fit);

void limit_address_space(size_t further_bytes) {
  size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlim_t most = pages * static_cast<size_t>(::sysconf(_SC_PAGESIZE)) + further_bytes;
  const rlimit limit{.rlim_cur = most, .rlim_max = most};
  if (::setrlimit(RLIMIT_AS, &limit) != 0) throw std::runtime_error("the address space cannot be limited");
}

// Until the kernel or a limit ends it.
void use_all_memory() {
  train([] {
    if (!is_rank(1)) return;
    if (::getenv("LIMITED_ADDRESS_SPACE") != nullptr) limit_address_space(size_t{1} << 30);
    std::vector<std::string> memory;
    while (true) memory.emplace_back(size_t{16} << 20, 'x');
  });
}
PACELINE_TRAIN_LOOP(use_all_memory);

void loses_its_numbers() {
  auto model = paceline::prepare_model(torch::nn::Linear(4, 2));
  for (int64_t step = 1; step <= 3; ++step) {
    const double factor = step == 2 && is_rank(1) ? std::numeric_limits<double>::quiet_NaN() : 1.0;
    (model->forward(torch::ones({8, 4})).sum() * factor).backward();
    paceline::report({{"step", step}});
  }
}
PACELINE_TRAIN_LOOP(loses_its_numbers);

void exit_early() {
  train([] {
    if (is_rank(0)) std::exit(0);
  });
}
PACELINE_TRAIN_LOOP(exit_early);

void freeze() {
  train([] {
    if (is_rank(1) && first_attempt()) ::raise(SIGSTOP);
  });
}
PACELINE_TRAIN_LOOP(freeze);

void endless() {
  std::printf("looping\n");
  for (int64_t step = 1;; ++step) {
    paceline::report({{"step", step}});
    ::usleep(1000);
  }
}
PACELINE_TRAIN_LOOP(endless);

// Computes without ever looking at Paceline: a stop cannot reach it.
void deaf() {
  std::printf("looping\n");
  volatile double sum = 0;
  while (true) sum = sum + 1;
}
PACELINE_TRAIN_LOOP(deaf);

void different_models() {
  paceline::prepare_model(torch::nn::Linear(4, is_rank(1) ? 3 : 2));
}
PACELINE_TRAIN_LOOP(different_models);

void wrong_config(const Config& config) {
  config.get<int64_t>("rate");
}
PACELINE_TRAIN_LOOP(wrong_config);

void leaves_children() {
  if (::fork() == 0) {
    ::setsid();
    ::execlp("sleep", "sleep", "600", nullptr);
    ::_exit(1);
  }
  paceline::report({{"step", 1}});
}
PACELINE_TRAIN_LOOP(leaves_children);

// Rank 0 waits for a rank that never comes: only a stop ends that.
void waits_in_barrier() {
  if (is_rank(0)) {
    std::printf("waiting\n");
    paceline::barrier();
  }
  while (true) {
    paceline::report({{"step", 1}});
    ::usleep(1000);
  }
}
PACELINE_TRAIN_LOOP(waits_in_barrier);

}  // namespace
