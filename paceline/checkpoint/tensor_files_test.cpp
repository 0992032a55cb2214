#include "paceline/checkpoint/tensor_files.h"

#include <gmock/gmock.h>

#include "paceline/checkpoint/format/safetensors.h"
#include "paceline/checkpoint/tensor_reader.h"
#include "paceline/checkpoint/tensors_fixture.h"
#include "paceline/storage/local/durable.h"

namespace paceline::checkpoint {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class TensorFiles : public ::testing::Test {
 protected:
  // One tensor of two numbers.
  void write(const std::string& file, const std::string& tensor, const std::vector<float>& numbers) {
    const auto head = encode_safetensors({{.name = tensor, .dtype = "F32", .shape = {2}}}).ValueOrDie();
    std::string content = head.bytes;
    content.append(reinterpret_cast<const char*>(numbers.data()), 2 * sizeof(float));
    write(file, content);
  }
  void write(const std::string& file, const std::string& content) {
    ASSERT_TRUE(storage::make_folders(user_.path() + "/folder").ok());
    ASSERT_TRUE(storage::write_atomically(user_.path() + "/" + file, content).ok());
  }
  std::string published() {
    auto stage = Stage::create(run_.path(), worker(1), 1).ValueOrDie();
    EXPECT_TRUE(stage.copy_folder(user_.path()).ok());
    return Store(run_.path()).publish({{0, stage.finish().ValueOrDie()}}, {.report = 1}).ValueOrDie().path.text();
  }
  static std::vector<float> read(const TensorReader& reader, const std::string& name) {
    std::vector<float> numbers(2);
    EXPECT_TRUE(reader.read(name, std::as_writable_bytes(std::span(numbers))).ok()) << name;
    return numbers;
  }

  testing::TemporaryFolder user_;
  testing::TemporaryFolder run_;
};

TEST_F(TensorFiles, AreReadUnderTheNamesOfItems) {
  write("dict_checkpoint.safetensors", "model/weight", {1, 2});
  write("ema-00001-of-00002.safetensors", "weight", {3, 4});
  write("ema-00002-of-00002.safetensors", "bias", {5, 6});
  write("folder/optimizer.safetensors", "step", {7, 8});
  const auto reader = TensorReader::open(published()).ValueOrDie();
  EXPECT_EQ(read(reader, "model/weight"), (std::vector<float>{1, 2}));
  EXPECT_EQ(read(reader, "ema/weight"), (std::vector<float>{3, 4}));
  EXPECT_EQ(read(reader, "ema/bias"), (std::vector<float>{5, 6}));
  EXPECT_EQ(read(reader, "folder/optimizer/step"), (std::vector<float>{7, 8}));
  EXPECT_EQ(reader.manifest().tensors.size(), 4u);
}

TEST_F(TensorFiles, DamageIsFoundBeforeATensorIsRead) {
  write("dict_checkpoint.safetensors", "model/weight", {1, 2});
  const std::string file = published() + "/dict_checkpoint.safetensors";
  std::string content = storage::read_file(file).ValueOrDie();
  content.back() ^= 1;
  ASSERT_TRUE(storage::write_atomically(file, content).ok());
  const std::string folder = std::filesystem::path(file).parent_path();
  EXPECT_THAT(TensorReader::open(folder).status().message(),
              AllOf(HasSubstr("dict_checkpoint.safetensors"), HasSubstr("damaged")));
}

TEST_F(TensorFiles, AFileOfAnotherKindIsNamed) {
  write("mine.safetensors", "these are no tensors");
  EXPECT_THAT(TensorReader::open(published()).status().message(), HasSubstr("mine.safetensors cannot be read"));
}

}  // namespace
}  // namespace paceline::checkpoint
