#include "paceline/parallel/ddp/model_agreement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::parallel {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Net : torch::nn::Module {
  Net(int64_t width, bool extra) {
    hidden = register_module("hidden", torch::nn::Linear(4, width));
    norm = register_module("norm", torch::nn::BatchNorm1d(width));
    if (extra) register_module("extra", torch::nn::Linear(2, 2));
  }
  torch::nn::Linear hidden{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
};

std::string difference(const torch::nn::Module& first, const torch::nn::Module& second) {
  return find_difference({describe_model(first), describe_model(first), describe_model(second)}).value_or("none");
}

TEST(ModelAgreement, AlikeModelsAgree) {
  EXPECT_EQ(difference(Net(3, true), Net(3, true)), "none");
}

TEST(ModelAgreement, NamesTheParameterOfAnotherShape) {
  EXPECT_THAT(difference(Net(3, false), Net(5, false)),
              AllOf(HasSubstr("parameter \"hidden.weight\" on rank 2"), HasSubstr("wanted=Float [3, 4]"),
                    HasSubstr("got=Float [5, 4]")));
}

TEST(ModelAgreement, NamesWhatIsMissingOrTooMuch) {
  EXPECT_THAT(difference(Net(3, true), Net(3, false)), HasSubstr("\"extra.weight\" is missing on rank 2"));
  EXPECT_THAT(difference(Net(3, false), Net(3, true)), HasSubstr("\"extra.bias\" on rank 2 does not exist on rank 0"));
}

TEST(ModelAgreement, SeesTypeTrainingAndOrder) {
  Net single(3, false), twice(3, false), frozen(3, false);
  twice.to(torch::kFloat64);
  EXPECT_THAT(difference(single, twice), HasSubstr("got=Double"));
  frozen.norm->weight.set_requires_grad(false);
  EXPECT_THAT(difference(single, frozen), AllOf(HasSubstr("norm.weight"), HasSubstr("trained")));

  torch::nn::Module forwards, backwards;
  forwards.register_parameter("a", torch::zeros({1}));
  forwards.register_parameter("b", torch::zeros({1}));
  backwards.register_parameter("b", torch::zeros({1}));
  backwards.register_parameter("a", torch::zeros({1}));
  EXPECT_THAT(difference(forwards, backwards), HasSubstr("order"));
}

TEST(ModelAgreement, ATensorHeldTwiceAppearsOnce) {
  torch::nn::Module tied;
  torch::nn::Linear shared(2, 2);
  tied.register_module("encoder", shared);
  tied.register_module("decoder", shared);
  const auto parameters = parameters_of(tied);
  ASSERT_EQ(parameters.size(), 2u);
  EXPECT_EQ(parameters[0].name, "encoder.weight");
}

}  // namespace
}  // namespace paceline::parallel
