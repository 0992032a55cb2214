#include "paceline/checkpoint/format/safetensors.h"

#include <gmock/gmock.h>

#include <random>

namespace paceline::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

SafetensorsEntry tensor(const std::string& name, const std::string& dtype, const Shape& shape) {
  return {.name = name, .dtype = dtype, .shape = shape};
}

std::vector<std::string> names(const std::vector<SafetensorsEntry>& entries) {
  std::vector<std::string> result;
  for (const auto& entry : entries) result.push_back(entry.name);
  return result;
}

// A head with `json` as its text.
std::string head_of(const std::string& json) {
  const uint64_t length = json.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + json;
}

TEST(Safetensors, PutsLargeElementsFirstSoThatAllAreAligned) {
  const auto head = encode_safetensors({tensor("mask", "BOOL", {3}), tensor("b", "BF16", {5}), tensor("w", "F32", {3}),
                                        tensor("a", "F32", {1}), tensor("step", "I64", {})})
                        .ValueOrDie();
  EXPECT_THAT(names(head.entries), ElementsAre("step", "a", "w", "b", "mask"));
  EXPECT_EQ(head.bytes.size() % 8, 0u);
  EXPECT_EQ(head.entries.front().offset, static_cast<int64_t>(head.bytes.size()));
  for (const auto& entry : head.entries) EXPECT_EQ(entry.offset % *element_size(entry.dtype), 0) << entry.name;
}

TEST(Safetensors, RoundTripsAnyTensors) {
  std::mt19937 random(1);
  const std::vector<std::string> dtypes = {"BOOL", "U8", "F16", "BF16", "I32", "F32", "F64", "I64"};
  for (int round = 0; round < 200; ++round) {
    std::vector<SafetensorsEntry> tensors;
    for (size_t count = random() % 8; count > 0; --count) {
      Shape shape(random() % 4);
      for (auto& length : shape) length = static_cast<int64_t>(random() % 4);
      tensors.push_back(tensor("layer." + std::to_string(count) + "\"\n", dtypes[random() % dtypes.size()], shape));
    }
    const auto head = encode_safetensors(tensors).ValueOrDie();
    int64_t size = static_cast<int64_t>(head.bytes.size());
    for (const auto& entry : head.entries) size += entry.size;
    EXPECT_EQ(safetensors_head_size(head.bytes).ValueOrDie(), static_cast<int64_t>(head.bytes.size()));
    const auto decoded = decode_safetensors(head.bytes, size).ValueOrDie();
    EXPECT_THAT(decoded, ::testing::UnorderedElementsAreArray(head.entries));
  }
}

TEST(Safetensors, RefusesWhatPythonWouldRefuse) {
  EXPECT_TRUE(encode_safetensors({tensor("a", "F32", {1}), tensor("a", "F32", {1})}).status().IsInvalid());
  EXPECT_TRUE(encode_safetensors({tensor("__metadata__", "F32", {1})}).status().IsInvalid());
  EXPECT_THAT(encode_safetensors({tensor("a", "FLOAT", {1})}).status().message(), HasSubstr("\"FLOAT\""));
  EXPECT_TRUE(encode_safetensors({tensor("a", "F32", {-1})}).status().IsInvalid());
  EXPECT_TRUE(encode_safetensors({tensor("a", "F32", {int64_t{1} << 40, int64_t{1} << 40})}).status().IsInvalid());
}

TEST(Safetensors, RefusesHeadsThatDoNotFitTheirFile) {
  const auto refusal = [](const std::string& json, int64_t data) {
    const std::string head = head_of(json);
    const auto decoded = decode_safetensors(head, static_cast<int64_t>(head.size()) + data);
    EXPECT_TRUE(decoded.status().IsInvalid()) << json;
    return decoded.status().message();
  };
  EXPECT_THAT(refusal(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4), HasSubstr("wanted 8 bytes"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8), HasSubstr("where the one"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 3), HasSubstr("its head wants"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"F32","shape":[1]}})", 4), HasSubstr("data_offsets"));
  refusal("[]", 0);
  refusal("{", 0);
  EXPECT_TRUE(safetensors_head_size("1234567").status().IsInvalid());
  EXPECT_TRUE(safetensors_head_size("\xff\xff\xff\xff\xff\xff\xff\xff").status().IsInvalid());
  EXPECT_TRUE(decode_safetensors(head_of("{}").substr(0, 9), 10).status().IsInvalid());
}

}  // namespace
}  // namespace paceline::checkpoint
