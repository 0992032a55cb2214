#include "paceline/data/source/bad_rows.h"

#include <arrow/type.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "paceline/data/format/csv_source.h"
#include "paceline/data/format/json_source.h"
#include "paceline/data/format/text_source.h"
#include "paceline/data/operator/forgiving.h"
#include "paceline/data/source/source_testing_internal.h"
#include "paceline/data/testing_internal.h"

namespace paceline::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Doubles numbers, and fails for some of them.
class Picky : public Operator {
 public:
  explicit Picky(std::set<int64_t> bad, arrow::StatusCode code = arrow::StatusCode::Invalid)
      : bad_(std::move(bad)), code_(code) {}
  std::string name() const override { return "Picky"; }
  bool keeps_rows() const override { return true; }
  arrow::Result<std::shared_ptr<arrow::Schema>> schema(const std::shared_ptr<arrow::Schema>& input) const override {
    return input;
  }
  arrow::Result<std::shared_ptr<arrow::RecordBatch>> apply(const std::shared_ptr<arrow::RecordBatch>& block,
                                                           uint64_t) const override {
    std::vector<int64_t> values = values_of(*block);
    for (int64_t& value : values) {
      if (bad_.contains(value)) return arrow::Status(code_, "I do not like " + std::to_string(value));
      value *= 2;
    }
    return numbers_of(values);
  }
  uint64_t fingerprint() const override { return 0; }

 private:
  const std::set<int64_t> bad_;
  const arrow::StatusCode code_;
};

class BadRowsTest : public FilesTest {
 protected:
  std::shared_ptr<BadRows> policy(OnError on_error, int64_t most_blocks = -1) {
    return std::make_shared<BadRows>(
        BadRowOptions{.on_error = on_error, .quarantine = folder_ / "bad.jsonl", .most_blocks = most_blocks});
  }

  std::vector<Json> quarantined(const std::string& name = "bad.jsonl") {
    std::vector<Json> lines;
    std::ifstream file(folder_ / name);
    for (std::string line; std::getline(file, line);) lines.push_back(decode_json(line).ValueOrDie());
    return lines;
  }

  std::vector<int64_t> made(OnError on_error, std::set<int64_t> bad, const std::vector<int64_t>& values) {
    const auto step = forgiving(std::make_shared<Picky>(std::move(bad)), policy(on_error));
    return values_of(**step->apply(numbers_of(values), 0));
  }
};

TEST_F(BadRowsTest, AreLeftOutOrReplaced) {
  EXPECT_THAT(made(OnError::skip, {3, 4, 6}, {1, 2, 3, 4, 5, 6}), ElementsAre(2, 4, 10));
  EXPECT_THAT(made(OnError::replace, {3, 4, 6}, {1, 2, 3, 4, 5, 6}), ElementsAre(2, 4, 4, 4, 10, 10));
  EXPECT_THAT(made(OnError::replace, {1, 2}, {1, 2, 3}), ElementsAre(6, 6, 6));
  EXPECT_THAT(made(OnError::skip, {1}, {1}), ElementsAre());
  EXPECT_THAT(made(OnError::skip, {9}, {1, 2}), ElementsAre(2, 4));
}

// Where a block has no good row, one of the nearest block before it is taken, or of one behind it, whatever was read.
TEST_F(BadRowsTest, AreReplacedAcrossBlocks) {
  const auto batches = {numbers_of({1, 2}), numbers_of({3, 4}), numbers_of({5, 6}), numbers_of({7, 8})};
  const auto source = [&](std::set<int64_t> bad) {
    return transformed(memory_source(numbers_of({})->schema(), batches).ValueOrDie(),
                       forgiving(std::make_shared<Picky>(std::move(bad)), policy(OnError::replace)),
                       std::make_shared<OperatorStatistics>("Picky"));
  };
  const auto made = [&](const std::set<int64_t>& bad) {
    const auto from = source(bad);
    std::vector<std::vector<int64_t>> blocks(4);
    for (const int64_t block : {2, 0, 3, 1}) blocks[block] = values_of(**from->read(block, 0));
    return blocks;
  };
  using Blocks = std::vector<std::vector<int64_t>>;
  EXPECT_EQ(made({2, 3, 4, 5, 6}), (Blocks{{2, 2}, {2, 2}, {2, 2}, {14, 16}}));
  EXPECT_EQ(made({1, 2, 3, 4, 5}), (Blocks{{12, 12}, {12, 12}, {12, 12}, {14, 16}}));
  EXPECT_THAT(source({1, 2, 3, 4, 5, 6, 7, 8})->read(1, 0).status().message(),
              HasSubstr("no row of any block is good"));
}

TEST_F(BadRowsTest, TheQuarantineHasEachOnce) {
  const auto step = forgiving(std::make_shared<Picky>(std::set<int64_t>{2, 3}), policy(OnError::skip));
  EXPECT_FALSE(step->keeps_rows());
  for (int epoch = 0; epoch < 3; ++epoch) {
    EXPECT_TRUE(step->apply(numbers_of({1, 2, 3}), static_cast<uint64_t>(epoch)).ok());
  }
  const std::vector<Json> lines = quarantined();
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0], (Json{{"step", "Picky"}, {"row", {{"row", "2"}}}, {"error", "I do not like 2"}}));
}

TEST_F(BadRowsTest, SomeErrorsStayErrors) {
  const auto block = numbers_of({1, 2});
  const auto said = [&](const std::shared_ptr<const Operator>& step) {
    return step->apply(block, 0).status().message();
  };
  EXPECT_THAT(said(forgiving(std::make_shared<Picky>(std::set<int64_t>{1}, arrow::StatusCode::Cancelled),
                             policy(OnError::skip))),
              "I do not like 1");
  EXPECT_THAT(said(forgiving(std::make_shared<Picky>(std::set<int64_t>{1, 2}), policy(OnError::replace))),
              HasSubstr("no row of any block is good"));
  const auto limited = forgiving(std::make_shared<Picky>(std::set<int64_t>{1, 2, 3}), policy(OnError::skip, 1));
  EXPECT_TRUE(limited->apply(block, 0).ok());
  EXPECT_TRUE(limited->apply(block, 1).ok()) << "the same block";
  EXPECT_THAT(limited->apply(numbers_of({3, 4}), 0).status().message(), HasSubstr("more than 1 blocks have bad rows"));
  const auto nowhere = std::make_shared<BadRows>(BadRowOptions{.quarantine = folder_ / "missing/bad.jsonl"});
  EXPECT_THAT(said(forgiving(std::make_shared<Picky>(std::set<int64_t>{1}), nowhere)), HasSubstr("cannot write to"));
}

TEST_F(BadRowsTest, AFailedWriteOfTheQuarantineLosesNoLine) {
  const std::string path = folder_ / "later/bad.jsonl";
  const auto step = forgiving(std::make_shared<Picky>(std::set<int64_t>{2, 3}),
                              std::make_shared<BadRows>(BadRowOptions{.quarantine = path}));
  EXPECT_THAT(step->apply(numbers_of({1, 2, 3}), 0).status().message(), HasSubstr("cannot write to"));
  std::filesystem::create_directories(folder_ / "later");
  for (int time = 0; time < 2; ++time) EXPECT_TRUE(step->apply(numbers_of({1, 2, 3}), 0).ok());
  EXPECT_EQ(quarantined("later/bad.jsonl").size(), 2u);
}

TEST_F(BadRowsTest, ATornLineOfTheQuarantineEnds) {
  write("bad.jsonl", R"({"step": "Picky", "er)");  // as a program that is killed leaves it
  made(OnError::skip, {2}, {1, 2});
  std::ifstream file(folder_ / "bad.jsonl");
  std::string torn, whole;
  std::getline(file, torn);
  std::getline(file, whole);
  EXPECT_EQ(decode_json(whole).ValueOrDie()["error"], "I do not like 2");
}

// The bad lines are the same ones however the file is cut, and known by where they are. Good lines of their blocks take
// their places, or where these have none of the blocks before.
TEST_F(BadRowsTest, LinesOfCsv) {
  const std::string text = "n,s\n1,a\n2,b,c\n3,\"d\nd\"\nx,e\n5\n6,f\n";
  const std::string path = write("a.csv", text);
  const std::map<int64_t, std::vector<std::string>> replaced_by_bytes = {{6, {"1", "1", "3", "3", "6", "6"}},
                                                                         {11, {"1", "1", "3", "6", "6", "6"}},
                                                                         {1000, {"1", "1", "3", "3", "3", "6"}}};
  for (const auto& [bytes, wanted] : replaced_by_bytes) {
    CsvOptions options{.bad_rows = policy(OnError::skip), .chunk_bytes = bytes};
    options.convert.column_types["n"] = arrow::int64();
    const auto rows = all_rows(**csv_source(file_system_, infos({path}), options));
    EXPECT_THAT(strings_of(*rows, 0), ElementsAre("1", "3", "6"));
    EXPECT_THAT(strings_of(*rows, 1), ElementsAre("a", "d\nd", "f"));
    options.bad_rows = policy(OnError::replace);
    const auto replaced = all_rows(**csv_source(file_system_, infos({path}), options));
    EXPECT_EQ(strings_of(*replaced, 0), wanted) << bytes;
  }
  std::set<std::string> texts;
  for (const Json& line : quarantined()) {
    EXPECT_EQ(line["path"], path);
    const std::string bad = line["text"];
    EXPECT_EQ(text.substr(line["offset"], bad.size()), bad);
    texts.insert(bad);
  }
  EXPECT_THAT(texts, ElementsAre("2,b,c\n", "5\n", "x,e\n"));
}

TEST_F(BadRowsTest, LinesOfJson) {
  const std::string path = write("a.json", "{\"n\": 1}\n{\"n\": \"two\"}\nthree\n\n{\"n\": 4}\n");
  for (const int64_t bytes : {5, 1000}) {
    const JsonOptions options{.bad_rows = policy(OnError::skip), .chunk_bytes = bytes};
    EXPECT_THAT(strings_of(*all_rows(**json_source(file_system_, infos({path}), options))), ElementsAre("1", "4"));
    const JsonOptions replaces{.bad_rows = policy(OnError::replace), .chunk_bytes = bytes};
    EXPECT_THAT(strings_of(*all_rows(**json_source(file_system_, infos({path}), replaces))),
                ElementsAre("1", "1", "1", "4"));
  }
  ASSERT_GE(quarantined().size(), 2u);
  EXPECT_EQ(quarantined()[1]["text"], "three\n");
}

TEST_F(BadRowsTest, LinesThatAreNotText) {
  const TextOptions options{.bad_rows = policy(OnError::skip)};
  const auto source = text_source(file_system_, infos({write("a.txt", "a\n\xff\nb\n")}), options).ValueOrDie();
  EXPECT_THAT(strings_of(*all_rows(*source)), ElementsAre("a", "b"));
  EXPECT_EQ(quarantined()[0]["text"], "\xff\n");
}

}  // namespace
}  // namespace paceline::data
