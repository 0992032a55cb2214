// A VisionTransformer as torchvision defines it: the same layers, parameter names and initial distribution.
//
// A model for examples. Not thread-safe, as any module in training.
#pragma once

#include <torch/torch.h>

#include <cstdint>

/// The defaults make a small one for the photographs of CIFAR-10: 14.3 million parameters.
struct VisionTransformerOptions {
  int64_t image_size = 32;  // pixels of a side; a multiple of patch_size
  int64_t patch_size = 4;
  int64_t num_layers = 12;
  int64_t num_heads = 8;
  int64_t hidden_dim = 384;  // a multiple of num_heads
  int64_t mlp_dim = 768;
  int64_t num_classes = 10;
};

/// Each token looks at all tokens of its image (Vaswani et al., "Attention Is All You Need", 2017).
class SelfAttentionImpl : public torch::nn::Module {
 public:
  SelfAttentionImpl(int64_t hidden_dim, int64_t num_heads);
  /// tokens: [batch, tokens, hidden_dim]. Returns the same shape.
  torch::Tensor forward(const torch::Tensor& tokens);

 private:
  int64_t num_heads_;
  torch::Tensor in_proj_weight_, in_proj_bias_;  // queries, keys and values in one
  torch::nn::Linear out_proj_;
};
TORCH_MODULE(SelfAttention);

/// Attention and a perceptron of two layers, each with a normalisation before it and a shortcut around both.
class EncoderBlockImpl : public torch::nn::Module {
 public:
  explicit EncoderBlockImpl(const VisionTransformerOptions& options);
  torch::Tensor forward(const torch::Tensor& tokens);

 private:
  torch::nn::LayerNorm ln_1_;
  SelfAttention self_attention_;
  torch::nn::LayerNorm ln_2_;
  torch::nn::Linear expand_, contract_;
};
TORCH_MODULE(EncoderBlock);

/// Dosovitskiy et al., "An Image is Worth 16x16 Words" (2020): an image is cut into patches, each becomes a token, and
/// what a token of no patch has gathered after all blocks tells the class.
///
///     VisionTransformer model;
///     torch::Tensor logits = model->forward(torch::randn({64, 3, 32, 32}));   // [64, 10]
class VisionTransformerImpl : public torch::nn::Module {
 public:
  explicit VisionTransformerImpl(const VisionTransformerOptions& options = {});

  /// images: [batch, 3, image_size, image_size] float32. Returns logits [batch, num_classes].
  torch::Tensor forward(const torch::Tensor& images);

 private:
  torch::Tensor class_token_, pos_embedding_;
  torch::nn::Conv2d conv_proj_;
  torch::nn::ModuleList blocks_;
  torch::nn::LayerNorm ln_{nullptr};
  torch::nn::Linear head_{nullptr};
};
TORCH_MODULE(VisionTransformer);
