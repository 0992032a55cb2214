#include "examples/vision/vision_transformer.h"

#include <cmath>

namespace {

constexpr double kEpsilon = 1e-6;    // of the normalisations
constexpr double kTinyBias = 1e-6;   // deviation of the perceptrons' initial biases
constexpr double kPositions = 0.02;  // deviation of the initial position embedding
constexpr int64_t kColours = 3;

torch::nn::LayerNorm layer_norm(int64_t size) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({size}).eps(kEpsilon));
}

torch::nn::Linear perceptron_layer(int64_t in_features, int64_t out_features) {
  torch::nn::Linear layer(in_features, out_features);
  torch::nn::init::xavier_uniform_(layer->weight);
  torch::nn::init::normal_(layer->bias, 0, kTinyBias);
  return layer;
}

}  // namespace

SelfAttentionImpl::SelfAttentionImpl(int64_t hidden_dim, int64_t num_heads)
    : num_heads_(num_heads),
      in_proj_weight_(register_parameter("in_proj_weight", torch::empty({3 * hidden_dim, hidden_dim}))),
      in_proj_bias_(register_parameter("in_proj_bias", torch::zeros({3 * hidden_dim}))),
      out_proj_(register_module("out_proj", torch::nn::Linear(hidden_dim, hidden_dim))) {
  torch::nn::init::xavier_uniform_(in_proj_weight_);
  torch::nn::init::zeros_(out_proj_->bias);
}

torch::Tensor SelfAttentionImpl::forward(const torch::Tensor& tokens) {
  // Heads are views of one product: nothing is copied, and there is one kernel that never makes the matrix of weights.
  const auto heads = [this, &tokens](const torch::Tensor& part) {
    return part.view({tokens.size(0), tokens.size(1), num_heads_, -1}).transpose(1, 2);
  };
  const auto parts = torch::linear(tokens, in_proj_weight_, in_proj_bias_).chunk(3, /*dim=*/-1);
  const torch::Tensor seen = torch::scaled_dot_product_attention(heads(parts[0]), heads(parts[1]), heads(parts[2]));
  return out_proj_->forward(seen.transpose(1, 2).flatten(2));
}

EncoderBlockImpl::EncoderBlockImpl(const VisionTransformerOptions& options)
    : ln_1_(register_module("ln_1", layer_norm(options.hidden_dim))),
      self_attention_(register_module("self_attention", SelfAttention(options.hidden_dim, options.num_heads))),
      ln_2_(register_module("ln_2", layer_norm(options.hidden_dim))),
      expand_(nullptr),
      contract_(nullptr) {
  // torchvision's perceptron is a Sequential, in which these two layers have the numbers 0 and 3.
  const auto mlp = register_module("mlp", std::make_shared<torch::nn::Module>());
  expand_ = mlp->register_module("0", perceptron_layer(options.hidden_dim, options.mlp_dim));
  contract_ = mlp->register_module("3", perceptron_layer(options.mlp_dim, options.hidden_dim));
}

torch::Tensor EncoderBlockImpl::forward(const torch::Tensor& tokens) {
  const torch::Tensor attended = tokens + self_attention_->forward(ln_1_->forward(tokens));
  return attended + contract_->forward(torch::gelu(expand_->forward(ln_2_->forward(attended))));
}

VisionTransformerImpl::VisionTransformerImpl(const VisionTransformerOptions& options)
    : class_token_(register_parameter("class_token", torch::zeros({1, 1, options.hidden_dim}))),
      conv_proj_(register_module(
          "conv_proj",
          torch::nn::Conv2d(
              torch::nn::Conv2dOptions(kColours, options.hidden_dim, options.patch_size).stride(options.patch_size)))) {
  const int64_t patches = (options.image_size / options.patch_size) * (options.image_size / options.patch_size);
  // In torchvision's order and under its names, so that checkpoints of both fit each other.
  const auto encoder = register_module("encoder", std::make_shared<torch::nn::Module>());
  pos_embedding_ = encoder->register_parameter(
      "pos_embedding", torch::empty({1, patches + 1, options.hidden_dim}).normal_(0, kPositions));
  const auto layers = encoder->register_module("layers", std::make_shared<torch::nn::Module>());
  for (int64_t i = 0; i < options.num_layers; ++i) {
    blocks_->push_back(layers->register_module("encoder_layer_" + std::to_string(i), EncoderBlock(options)));
  }
  ln_ = encoder->register_module("ln", layer_norm(options.hidden_dim));
  const auto heads = register_module("heads", std::make_shared<torch::nn::Module>());
  head_ = heads->register_module("head", torch::nn::Linear(options.hidden_dim, options.num_classes));

  const double fan_in = static_cast<double>(kColours * options.patch_size * options.patch_size);
  torch::nn::init::normal_(conv_proj_->weight, 0, std::sqrt(1 / fan_in));
  torch::nn::init::zeros_(conv_proj_->bias);
  torch::nn::init::zeros_(head_->weight);
  torch::nn::init::zeros_(head_->bias);
}

torch::Tensor VisionTransformerImpl::forward(const torch::Tensor& images) {
  const torch::Tensor patches = conv_proj_->forward(images).flatten(2).transpose(1, 2);
  torch::Tensor tokens = torch::cat({class_token_.expand({images.size(0), -1, -1}), patches}, 1) + pos_embedding_;
  for (const auto& block : *blocks_) tokens = block->as<EncoderBlock>()->forward(tokens);
  // Tokens are normalised one by one, and only the first is looked at.
  return head_->forward(ln_->forward(tokens.select(1, 0)));
}
