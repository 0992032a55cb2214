#include "examples/vision/resnet18.h"

namespace {

torch::nn::Conv2d convolution(int64_t in_channels, int64_t out_channels, int64_t kernel, int64_t stride) {
  return torch::nn::Conv2d(
      torch::nn::Conv2dOptions(in_channels, out_channels, kernel).stride(stride).padding(kernel / 2).bias(false));
}

/// A 3×3 convolution padded by 1. Where each pixel of its output sees the whole image, as it does on the last two
/// stages of a 28×28 image, it is a linear layer of one part of the kernel for each: the same numbers, but more than
/// half of the whole training step where oneDNN has no AVX-512, for then it is slow on such small images.
torch::Tensor convolve(torch::nn::Conv2d& convolution, const torch::Tensor& images) {
  const int64_t height = images.size(2);
  const int64_t width = images.size(3);
  if (height > 2 || width > 2) return convolution->forward(images);
  const int64_t stride = convolution->options.stride()->front();
  std::vector<torch::Tensor> kernels;
  for (int64_t y = 0; y < height; y += stride) {
    for (int64_t x = 0; x < width; x += stride) {
      kernels.push_back(convolution->weight.narrow(2, 1 - y, height).narrow(3, 1 - x, width).flatten(1));
    }
  }
  const torch::Tensor kernel = torch::stack(kernels, 1).flatten(0, 1);  // out_channels·pixels × in_channels·pixels
  return torch::linear(images.flatten(1), kernel)
      .view({images.size(0), -1, (height + stride - 1) / stride, (width + stride - 1) / stride});
}

}  // namespace

BasicBlockImpl::BasicBlockImpl(int64_t in_channels, int64_t out_channels, int64_t stride)
    : conv1_(register_module("conv1", convolution(in_channels, out_channels, 3, stride))),
      conv2_(nullptr),
      bn1_(register_module("bn1", torch::nn::BatchNorm2d(out_channels))),
      bn2_(nullptr) {
  // In torchvision's order, so that parameters() lists them as Python does.
  conv2_ = register_module("conv2", convolution(out_channels, out_channels, 3, 1));
  bn2_ = register_module("bn2", torch::nn::BatchNorm2d(out_channels));
  if (stride != 1 || in_channels != out_channels) {
    downsample_ = register_module("downsample", torch::nn::Sequential(convolution(in_channels, out_channels, 1, stride),
                                                                      torch::nn::BatchNorm2d(out_channels)));
  }
}

torch::Tensor BasicBlockImpl::forward(const torch::Tensor& input) {
  torch::Tensor output = bn1_->forward(convolve(conv1_, input)).relu_();
  output = bn2_->forward(convolve(conv2_, output));
  output += downsample_.is_empty() ? input : downsample_->forward(input);
  return output.relu_();
}

ResNet18Impl::ResNet18Impl(int64_t num_classes, int64_t in_channels)
    : conv1_(register_module("conv1", convolution(in_channels, 64, 7, 2))),
      bn1_(register_module("bn1", torch::nn::BatchNorm2d(64))),
      layer1_(register_module("layer1", make_stage(64, 64, 1))),
      layer2_(register_module("layer2", make_stage(64, 128, 2))),
      layer3_(register_module("layer3", make_stage(128, 256, 2))),
      layer4_(register_module("layer4", make_stage(256, 512, 2))),
      fc_(register_module("fc", torch::nn::Linear(512, num_classes))) {
  initialise();
}

torch::nn::Sequential ResNet18Impl::make_stage(int64_t in_channels, int64_t out_channels, int64_t stride) {
  return torch::nn::Sequential(BasicBlock(in_channels, out_channels, stride),
                               BasicBlock(out_channels, out_channels, 1));
}

void ResNet18Impl::initialise() {
  for (const auto& module : modules(/*include_self=*/false)) {
    if (auto* layer = module->as<torch::nn::Conv2d>()) {
      torch::nn::init::kaiming_normal_(layer->weight, 0.0, torch::kFanOut, torch::kReLU);
    }
  }
}

torch::Tensor ResNet18Impl::forward(torch::Tensor images) {
  // From here on CPUs are faster with the channels of a pixel side by side.
  images = conv1_->forward(images).contiguous(torch::MemoryFormat::ChannelsLast);
  images = bn1_->forward(images).relu_();
  images = torch::max_pool2d(images, /*kernel_size=*/3, /*stride=*/2, /*padding=*/1);
  images = layer4_->forward(layer3_->forward(layer2_->forward(layer1_->forward(images))));
  images = torch::adaptive_avg_pool2d(images, {1, 1}).flatten(1);
  return fc_->forward(images);
}
