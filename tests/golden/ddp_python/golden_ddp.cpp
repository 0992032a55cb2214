// Trains a small net with batch norm on this process's rows, as compare.py does with PyTorch's DDP, and writes what
// came out. Started by compare.py, once per rank, with torchrun's variables:
//
//     golden_ddp FOLDER OPTIONS        OPTIONS: DdpOptions as JSON
//
// FOLDER holds initial.bin (parameters, then buffers), inputs.bin and labels.bin; it gets cpp_RANK.bin (losses, then
// parameters and buffers), all little-endian without header.
#include <fstream>
#include <iostream>

#include "paceline/parallel/ddp/data_parallel.h"

namespace {

using namespace paceline;

constexpr int64_t kSteps = 12, kRows = 8;

struct Net : torch::nn::Module {
  Net() {
    register_module("conv1", conv1);
    register_module("norm1", norm1);
    register_module("conv2", conv2);
    register_module("norm2", norm2);
    register_module("head", head);
  }
  torch::Tensor forward(torch::Tensor x) {
    x = torch::relu(norm1(conv1(x)));
    x = torch::relu(norm2(conv2(x)));
    return head(x.flatten(1));
  }
  torch::nn::Conv2d conv1{torch::nn::Conv2dOptions(1, 8, 3).padding(1)};
  torch::nn::BatchNorm2d norm1{8};
  torch::nn::Conv2d conv2{torch::nn::Conv2dOptions(8, 16, 3).stride(2).padding(1)};
  torch::nn::BatchNorm2d norm2{16};
  torch::nn::Linear head{16 * 6 * 6, 10};
};

std::vector<torch::Tensor> state_of(const torch::nn::Module& module) {
  auto tensors = module.parameters();
  for (const auto& buffer : module.buffers()) tensors.push_back(buffer);
  return tensors;
}

void read(std::ifstream& file, const torch::Tensor& tensor) {
  file.read(static_cast<char*>(tensor.data_ptr()), static_cast<std::streamsize>(tensor.nbytes()));
  TORCH_CHECK(file, "the file is too short");
}

void write(std::ofstream& file, const torch::Tensor& tensor) {
  const torch::Tensor values = tensor.detach().contiguous();
  file.write(static_cast<const char*>(values.data_ptr()), static_cast<std::streamsize>(values.nbytes()));
}

void train(const std::string& folder, const DdpOptions& options) {
  torch::set_num_threads(1);
  const auto group = comm::Group::from_torchrun_environment({.backend = "gloo"});
  const auto model = std::make_shared<Net>();
  if (group->rank() == 0) {  // the other ranks get it from rank 0
    std::ifstream file(folder + "/initial.bin", std::ios::binary);
    for (const auto& tensor : state_of(*model)) read(file, tensor);
  }
  const auto data_parallel = parallel::DataParallel::attach(model, group, options, nullptr);

  torch::Tensor inputs = torch::empty({kSteps, group->size(), kRows, 1, 12, 12});
  torch::Tensor labels = torch::empty({kSteps, group->size(), kRows}, torch::kInt64);
  std::ifstream inputs_file(folder + "/inputs.bin", std::ios::binary),
      labels_file(folder + "/labels.bin", std::ios::binary);
  read(inputs_file, inputs);
  read(labels_file, labels);

  std::ofstream out(folder + "/cpp_" + std::to_string(group->rank()) + ".bin", std::ios::binary);
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9).weight_decay(1e-4));
  for (int64_t step = 0; step < kSteps; ++step) {
    const auto loss =
        torch::nn::functional::cross_entropy(model->forward(inputs[step][group->rank()]), labels[step][group->rank()]);
    write(out, loss);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
  }
  for (const auto& tensor : state_of(*model)) write(out, tensor);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: golden_ddp FOLDER OPTIONS\n";
    return 2;
  }
  try {
    train(argv[1], paceline::Json::parse(argv[2]).get<paceline::DdpOptions>());
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
