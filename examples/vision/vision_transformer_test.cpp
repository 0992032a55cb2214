// Ours is torchvision's VisionTransformer: names, shapes, order and initial distribution, outputs and gradients.
#include "examples/vision/vision_transformer.h"

#include <gtest/gtest.h>

#include "paceline/testing/python_reference.h"

namespace {

using paceline::Json;

const std::optional<Json>& torchvision() {
  static const auto reference = paceline::testing::python_reference("examples/vision/vision_transformer_test.py");
  return reference;
}

torch::Tensor tensor_of(const Json& values) {
  return torch::tensor(values.get<std::vector<float>>());
}

TEST(VisionTransformer, HasTorchvisionsParametersAndTheirInitialDistribution) {
  torch::manual_seed(1);
  const VisionTransformer model;
  int64_t count = 0;
  for (const torch::Tensor& parameter : model->parameters()) count += parameter.numel();
  EXPECT_EQ(count, 14'255'242);
  if (!torchvision()) GTEST_SKIP() << "no Python with torch and torchvision";

  const Json& wanted = torchvision()->at("parameters");
  const auto parameters = model->named_parameters();
  ASSERT_EQ(parameters.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    SCOPED_TRACE(wanted[i][0].get<std::string>());
    EXPECT_EQ(parameters[i].key(), wanted[i][0].get<std::string>());
    EXPECT_EQ(parameters[i].value().sizes(), wanted[i][1].get<std::vector<int64_t>>());
    // Drawn from other random numbers: deviations of n ≥ 384 draws agree to a few parts in √n.
    const auto deviation = wanted[i][2].get<double>();
    EXPECT_NEAR(parameters[i].value().std().item<double>(), deviation, 0.2 * deviation);
  }
}

TEST(VisionTransformer, ComputesTorchvisionsOutputsAndGradients) {
  if (!torchvision()) GTEST_SKIP() << "no Python with torch and torchvision";
  const Json& step = torchvision()->at("step");
  VisionTransformer model(VisionTransformerOptions{.image_size = 8,
                                                   .patch_size = 4,
                                                   .num_layers = 2,
                                                   .num_heads = 2,
                                                   .hidden_dim = 16,
                                                   .mlp_dim = 24,
                                                   .num_classes = 5});
  {
    const torch::NoGradGuard no_gradients;
    for (auto& parameter : model->named_parameters()) {
      parameter->copy_(tensor_of(step.at("weights").at(parameter.key())).view_as(*parameter));
    }
  }
  const torch::Tensor logits = model->forward(tensor_of(step.at("images")).view({3, 3, 8, 8}));
  EXPECT_TRUE(torch::allclose(logits, tensor_of(step.at("logits")).view({3, 5}), 1e-4, 1e-5));
  torch::cross_entropy_loss(logits, torch::tensor(step.at("labels").get<std::vector<int64_t>>())).backward();
  for (const auto& parameter : model->named_parameters()) {
    const torch::Tensor wanted = tensor_of(step.at("gradients").at(parameter.key())).view_as(*parameter);
    EXPECT_TRUE(torch::allclose(parameter->grad(), wanted, 1e-3, 1e-5)) << parameter.key();
  }
}

}  // namespace
