#include "paceline/checkpoint/export.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>

#include "paceline/checkpoint/format/safetensors.h"
#include "paceline/checkpoint/format/torch_file.h"
#include "paceline/checkpoint/tensors_fixture.h"
#include "paceline/storage/local/durable.h"

namespace paceline::checkpoint {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Two ranks' halves of one tensor.
std::string publish_sharded(const std::string& run_folder) {
  std::vector<StagedPart> parts;
  for (const int64_t rank : {0, 1}) {
    std::filesystem::create_directories(run_folder);
    auto stage = Stage::create(run_folder, worker(rank + 1), 1).ValueOrDie();
    const std::vector<float> half = {static_cast<float>(2 * rank), static_cast<float>(2 * rank + 1)};
    EXPECT_TRUE(stage
                    .write_tensors("part_" + std::to_string(rank) + ".safetensors",
                                   {{.name = "weight",
                                     .dtype = "F32",
                                     .global_shape = {2, 2},
                                     .start = {0, rank},
                                     .shape = {2, 1},
                                     .bytes = std::as_bytes(std::span(half))}},
                                   "model")
                    .ok());
    parts.push_back({rank, stage.finish().ValueOrDie()});
  }
  return Store(run_folder).publish(parts, {.report = 1}).ValueOrDie().path.text();
}

TEST(Export, ShardedTensorsArePutTogether) {
  const testing::TemporaryFolder folder;
  const auto checkpoint = publish_sharded(folder / "run");
  const Exported exported = export_safetensors(checkpoint, "model", folder / "out").ValueOrDie();
  EXPECT_THAT(exported.files, ElementsAre(folder / "out/model.safetensors"));
  EXPECT_EQ(exported.bytes, 16);
  const std::string file = storage::read_file(exported.files[0]).ValueOrDie();
  const auto entries = decode_safetensors(file, std::ssize(file)).ValueOrDie();
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].name, "weight") << "without the item";
  std::vector<float> weight(4);
  std::memcpy(weight.data(), file.data() + entries[0].offset, 16);
  EXPECT_THAT(weight, ElementsAre(0, 2, 1, 3)) << "column after column";
  EXPECT_THAT(file, HasSubstr("\"format\":\"pt\""));
}

TEST(Export, ALargeModelIsSeveralFilesWithAnIndex) {
  const testing::TemporaryFolder folder;
  const auto checkpoint = publish(folder / "run", {floats("a", {1, 2}), floats("b", {3}), floats("c", {4})}, "model");
  const Exported exported = export_safetensors(checkpoint, "model", folder / "out", 8).ValueOrDie();
  EXPECT_THAT(testing::names_in(folder / "out"),
              ElementsAre("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                          "model.safetensors.index.json"));
  const Json index = decode_json(storage::read_file(exported.files.back()).ValueOrDie()).ValueOrDie();
  EXPECT_EQ(index["metadata"]["total_size"], 16);
  EXPECT_EQ(index["weight_map"]["a"], "model-00001-of-00002.safetensors");
  EXPECT_EQ(index["weight_map"]["c"], "model-00002-of-00002.safetensors");
}

TEST(Export, SaysWhatCannotBeExported) {
  const testing::TemporaryFolder folder;
  const auto checkpoint = publish(folder / "run", {values<uint16_t>("x", "U16", {1})}, "model");
  EXPECT_THAT(export_safetensors(checkpoint, "optimizer", folder / "out").status().message(),
              AllOf(HasSubstr("\"optimizer\""), HasSubstr("model")));
  EXPECT_THAT(export_torch(checkpoint, "model", folder / "x.pt").status().message(), HasSubstr("U16"));
  EXPECT_FALSE(std::filesystem::exists(folder / "x.pt"));
}

TEST(Export, EveryEntryOfATorchFileIsAligned) {
  ZipLayout zip;
  int64_t position = 0;
  for (const int64_t size : {1, 63, 64, 100}) {
    const std::string header = zip.header("archive/data/" + std::to_string(size), size, 0);
    position += std::ssize(header);
    EXPECT_EQ(position % 64, 0);
    position += size;
  }
}

// What export_test.py reads with Python's libraries.
TEST(ExportForPython, Writes) {
  const char* target = std::getenv("PACELINE_EXPORT_TO");
  if (target == nullptr) GTEST_SKIP() << "export_test.py sets PACELINE_EXPORT_TO";
  const testing::TemporaryFolder folder;
  const auto checkpoint =
      publish(folder / "run",
              {floats("weight", {0, 1, 2, 3, 4, 5}, {2, 3}), values<int64_t>("step", "I64", {1234567890123}),
               values<uint16_t>("brain", "BF16", {0x3f80, 0xc000}), values<uint16_t>("half", "F16", {0x3c00}),
               values<uint8_t>("mask", "BOOL", {1, 0, 1}), values<double>("double", "F64", {0.5}),
               values<float>("complex", "C64", {1, 2}, {1}), values<uint8_t>("empty", "U8", {}, {0, 4})},
              "model");
  ASSERT_TRUE(export_torch(checkpoint, "model", std::string(target) + "/model.pt").ok());
  ASSERT_TRUE(export_safetensors(checkpoint, "model", std::string(target) + "/whole").ok());
  ASSERT_TRUE(export_safetensors(checkpoint, "model", std::string(target) + "/shards", 20).ok());
  ASSERT_TRUE(export_torch(publish_sharded(folder / "sharded"), "model", std::string(target) + "/sharded.pt").ok());
}

}  // namespace
}  // namespace paceline::checkpoint
