#include "paceline/checkpoint/manifest.h"

#include <gmock/gmock.h>

#include <cmath>
#include <random>

namespace paceline::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Slice slice(const std::string& file, const Shape& start, const Shape& shape) {
  int64_t size = 4;
  for (const int64_t length : shape) size *= length;
  return {.file = file, .offset = 0, .size = size, .start = start, .shape = shape, .checksum = "c"};
}

// What rank `rank` wrote into one file.
Manifest part(int64_t rank, const std::string& file, const std::map<std::string, TensorEntry>& tensors) {
  Manifest manifest;
  manifest.files[file] = {.size = 1 << 20, .checksum = "sum" + std::to_string(rank), .rank = rank};
  manifest.tensors = tensors;
  return manifest;
}

TensorEntry tensor(const Shape& shape, const Slices& slices, const std::string& dtype = "F32") {
  return {.dtype = dtype, .shape = shape, .slices = slices};
}

Manifest sample() {
  Manifest manifest =
      part(0, "model.safetensors", {{"w", tensor({2, 3}, {slice("model.safetensors", {0, 0}, {2, 3})})}});
  manifest.report = 42;
  manifest.metrics = {{"loss", std::nan("")}, {"accuracy", 0.5}};
  manifest.values = {{"optimizer", {{"step", 7}, {"lr", 0.1}}}};
  return manifest;
}

TEST(Manifest, RoundTrips) {
  const std::string text = encode_manifest(sample());
  Manifest read = decode_manifest(text).ValueOrDie();
  EXPECT_TRUE(std::isnan(read.metrics["loss"].get<double>()));
  read.metrics["loss"] = 0;
  Manifest wanted = sample();
  wanted.metrics["loss"] = 0;
  EXPECT_EQ(read, wanted);
}

TEST(Manifest, EveryFlippedBitIsFound) {
  const std::string text = encode_manifest(sample());
  for (size_t at = 0; at + 1 < text.size(); ++at) {  // but for the newline at the end
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = text;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      EXPECT_FALSE(decode_manifest(damaged).ok()) << damaged;
    }
    EXPECT_FALSE(decode_manifest(text.substr(0, at)).ok());
  }
}

TEST(Manifest, NamesALaterVersion) {
  Manifest manifest = sample();
  manifest.version = 3;
  const auto status = decode_manifest(encode_manifest(manifest)).status();
  EXPECT_THAT(status.message(), AllOf(HasSubstr("version 3"), HasSubstr("up to version 2")));
  EXPECT_TRUE(decode_manifest(R"({"name": "an application"})").status().IsInvalid());
  EXPECT_TRUE(decode_manifest("[1]").status().IsInvalid());
}

TEST(Manifest, RefusesWhatContradictsItself) {
  const auto refusal = [](auto change) {
    Manifest manifest = sample();
    change(manifest);
    const auto status = decode_manifest(encode_manifest(manifest)).status();
    EXPECT_TRUE(status.IsInvalid());
    return status.message();
  };
  EXPECT_THAT(refusal([](Manifest& m) { m.files["../outside"] = {}; }), HasSubstr("../outside"));
  EXPECT_THAT(refusal([](Manifest& m) { m.files["/absolute"] = {}; }), HasSubstr("/absolute"));
  EXPECT_THAT(refusal([](Manifest& m) { m.files["a/../../b"] = {}; }), HasSubstr("cannot be a file"));
  EXPECT_THAT(refusal([](Manifest& m) { m.tensors["w"].slices[0].file = "other"; }), HasSubstr("\"other\""));
  EXPECT_THAT(refusal([](Manifest& m) { m.tensors["w"].slices[0].size = 20; }), HasSubstr("wanted 24"));
  EXPECT_THAT(refusal([](Manifest& m) { m.tensors["w"].slices[0].offset = 1 << 20; }), HasSubstr("outside"));
  EXPECT_THAT(refusal([](Manifest& m) { m.tensors["w"].slices[0].offset = -8; }), HasSubstr("outside"));
  EXPECT_THAT(refusal([](Manifest& m) { m.tensors["w"].slices[0].start = {1, 0}; }), HasSubstr("outside"));
  EXPECT_THAT(refusal([](Manifest& m) { m.tensors["w"].slices[0].start = {0}; }), HasSubstr("outside"));
  EXPECT_THAT(refusal([](Manifest& m) { m.tensors["w"].dtype = "F31"; }), HasSubstr("F31"));
}

TEST(Merge, KeepsTheLowestRanksFileWithItsSlices) {
  const Shape shape = {2, 3};
  Manifest first = part(0, "model", {{"w", tensor(shape, {slice("model", {0, 0}, shape)})}});
  Manifest second = part(1, "model", {{"w", tensor(shape, {slice("model", {0, 0}, shape)})}});
  second.files["only_1"] = {.size = 5, .checksum = "x", .rank = 1};
  first.values = {{"loader", 0}};
  second.values = {{"loader", 1}, {"extra", 1}};
  const Manifest merged = merge({first, second}).ValueOrDie();
  EXPECT_EQ(merged.files.at("model").checksum, "sum0");
  EXPECT_EQ(merged.files.at("only_1").rank, 1);
  EXPECT_EQ(merged.tensors, first.tensors);
  EXPECT_EQ(merged.values, (Json{{"loader", 0}, {"extra", 1}}));
}

TEST(Merge, PutsSlicesOfRanksTogether) {
  const Slice left = slice("a", {0, 0}, {2, 2});
  const Slice right = slice("b", {0, 2}, {2, 1});
  const auto merged =
      merge({part(0, "a", {{"w", tensor({2, 3}, {left})}}), part(1, "b", {{"w", tensor({2, 3}, {right})}})});
  EXPECT_THAT(merged.ValueOrDie().tensors.at("w").slices, ElementsAre(left, right));
}

TEST(Merge, ErrorsNameTensorAndRanks) {
  const Shape shape = {4};
  const auto merged = [&](const TensorEntry& zero, const TensorEntry& one) {
    return merge({part(0, "a", {{"w", zero}}), part(1, "b", {{"w", one}})}).status().message();
  };
  const TensorEntry low = tensor(shape, {slice("a", {0}, {2})});
  EXPECT_THAT(
      merged(low, tensor(shape, {slice("b", {1}, {3})})),
      AllOf(HasSubstr("\"w\" overlap"), HasSubstr("rank 0 wrote [2] at [0]"), HasSubstr("rank 1 wrote [3] at [1]")));
  EXPECT_THAT(merged(low, tensor(shape, {slice("b", {3}, {1})})),
              AllOf(HasSubstr("\"w\" leave a gap: ranks 0, 1 wrote 3 elements"), HasSubstr("wanted 4")));
  EXPECT_THAT(merged(low, tensor(shape, {slice("b", {2}, {2})}, "I32")),
              HasSubstr("rank 0 has F32 [4], rank 1 has I32 [4]"));
  EXPECT_THAT(merged(low, tensor({5}, {slice("b", {2}, {3})})), HasSubstr("rank 0 has F32 [4], rank 1 has F32 [5]"));
  EXPECT_TRUE(merge({}).status().IsInvalid());
}

TEST(Merge, ScalarsAndEmptyTensors) {
  EXPECT_TRUE(merge({part(0, "a", {{"s", tensor({}, {slice("a", {}, {})})}, {"e", tensor({0, 3}, {})}})}).ok());
  EXPECT_FALSE(merge({part(0, "a", {{"s", tensor({}, {})}})}).ok());
  EXPECT_FALSE(merge({part(0, "a", {{"s", tensor({}, {slice("a", {}, {})})}}),
                      part(1, "b", {{"s", tensor({}, {slice("b", {}, {})})}})})
                   .ok());
}

// Cuts a tensor into boxes at random; the boxes are accepted, and refused when one is gone or moved.
TEST(Merge, AcceptsExactlyTheCoversWithoutOverlap) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    const Shape shape = {static_cast<int64_t>(1 + random() % 6), static_cast<int64_t>(1 + random() % 6)};
    std::vector<Slice> boxes = {slice("", {0, 0}, shape)};
    for (int cut = 0; cut < 5; ++cut) {
      Slice& box = boxes[random() % boxes.size()];
      const size_t dim = random() % 2;
      if (box.shape[dim] < 2) continue;
      const auto at = static_cast<int64_t>(1 + random() % static_cast<uint64_t>(box.shape[dim] - 1));
      Slice rest = box;
      rest.start[dim] += at;
      rest.shape[dim] -= at;
      box.shape[dim] = at;
      boxes.push_back(rest);
    }
    const auto accepted = [&](const std::vector<Slice>& slices) {
      std::vector<Manifest> parts;
      for (size_t rank = 0; rank < slices.size(); ++rank) {
        const std::string file = "rank_" + std::to_string(rank);
        parts.push_back(part(static_cast<int64_t>(rank), file,
                             {{"w", tensor(shape, {slice(file, slices[rank].start, slices[rank].shape)})}}));
      }
      return merge(parts).ok();
    };
    std::shuffle(boxes.begin(), boxes.end(), random);
    EXPECT_TRUE(accepted(boxes));
    std::vector<Slice> twice = boxes;
    twice.push_back(boxes[random() % boxes.size()]);
    EXPECT_FALSE(accepted(twice));
    if (boxes.size() == 1) continue;
    std::vector<Slice> without = boxes;
    without.pop_back();
    EXPECT_FALSE(accepted(without));
    twice.erase(twice.begin());  // as many as before, but perhaps one twice and one not at all
    const bool same = std::is_permutation(twice.begin(), twice.end(), boxes.begin(), boxes.end());
    EXPECT_EQ(accepted(twice), same);
  }
}

}  // namespace
}  // namespace paceline::checkpoint
