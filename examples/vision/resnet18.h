// ResNet-18 as torchvision defines it: the same layers, parameter names and initial distribution.
//
// A model for examples. Not thread-safe, as any module in training.
#pragma once

#include <torch/torch.h>

#include <cstdint>

/// Two 3×3 convolutions beside a shortcut, which is a 1×1 convolution where the shape changes.
class BasicBlockImpl : public torch::nn::Module {
 public:
  BasicBlockImpl(int64_t in_channels, int64_t out_channels, int64_t stride);
  torch::Tensor forward(const torch::Tensor& input);

 private:
  torch::nn::Conv2d conv1_, conv2_;
  torch::nn::BatchNorm2d bn1_, bn2_;
  torch::nn::Sequential downsample_{nullptr};
};
TORCH_MODULE(BasicBlock);

/// He et al., "Deep Residual Learning for Image Recognition" (2015), the 18-layer network: 11.2 million parameters.
///
///     ResNet18 model(/*num_classes=*/10);
///     torch::Tensor logits = model->forward(torch::randn({64, 1, 28, 28}));   // [64, 10]
class ResNet18Impl : public torch::nn::Module {
 public:
  explicit ResNet18Impl(int64_t num_classes, int64_t in_channels = 1);

  /// images: [batch, in_channels, height, width] float32. Returns logits [batch, num_classes].
  torch::Tensor forward(torch::Tensor images);

 private:
  torch::nn::Sequential make_stage(int64_t in_channels, int64_t out_channels, int64_t stride);
  void initialise();

  torch::nn::Conv2d conv1_;
  torch::nn::BatchNorm2d bn1_;
  torch::nn::Sequential layer1_, layer2_, layer3_, layer4_;
  torch::nn::Linear fc_;
};
TORCH_MODULE(ResNet18);
