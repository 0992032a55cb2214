// What newcomers write, and the compiler shall refuse with words that help (compile_errors_test.py). Behind each line
// that is wrong stands what it must say of it.
#include <paceline/paceline.h>

struct Net : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x) { return x; }
};

void train_loop() {
  Net net;
  paceline::prepare_model(net);  // error: a module by value
  paceline::prepare_model(42);   // error: prepare_model() takes a module
  const torch::Tensor loss = torch::ones({});
  paceline::report({{"loss", loss}});  // error: a tensor is no metric and no configuration value
}

void other_loop(int) {}

void drive() {
  paceline::TorchTrainer first([](const paceline::Config&) {});  // error: a train loop is a function at namespace scope
  paceline::TorchTrainer second(other_loop);                     // error: a train loop is void f()
  paceline::TorchTrainer third(train_loop, {.scaling_config = {.num_worker = 2}});  // error: a field misspelt?
  paceline::prepare_model(std::make_shared<Net>(), {.parallel = "none"});           // error: a field misspelt?
  paceline::TorchTrainer fourth(train_loop,
                                {.scaling_config = paceline::ScalingConfig{.num_worker = 2}});  // error: num_worker
}
