// The baseline of memory_beside_workers: a program that only loads LibTorch.
#include <torch/torch.h>

#include <iostream>

int main() {
  std::cout << TORCH_VERSION << " with " << torch::get_num_threads() << " threads" << std::endl;
  while (std::cin.get() != EOF) {
  }
}
