#include "paceline/data/format/orc_source.h"

#include <arrow/adapters/orc/adapter.h>
#include <arrow/json/from_string.h>
#include <arrow/type.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "paceline/data/plan/plan.h"
#include "paceline/data/source/source_testing_internal.h"

namespace paceline::data {
namespace {

using arrow::field;
using ::testing::AllOf;
using ::testing::HasSubstr;

class OrcSourceTest : public FilesTest {
 protected:
  static std::shared_ptr<arrow::Table> table_of(const arrow::FieldVector& fields,
                                                const std::vector<std::string>& columns) {
    arrow::ArrayVector arrays;
    for (size_t i = 0; i < fields.size(); ++i) {
      arrays.push_back(arrow::json::ArrayFromJSONString(fields[i]->type(), columns[i]).ValueOrDie());
    }
    return arrow::Table::Make(arrow::schema(fields), arrays);
  }

  std::string write_orc(const std::string& name, const arrow::Table& table, int64_t bytes_of_stripe = 64 << 20) {
    const auto out = arrow::io::FileOutputStream::Open(folder_ / name).ValueOrDie();
    arrow::adapters::orc::WriteOptions options;
    options.stripe_size = bytes_of_stripe;
    options.batch_size = 100;
    const auto writer = arrow::adapters::orc::ORCFileWriter::Open(out.get(), options).ValueOrDie();
    EXPECT_TRUE(writer->Write(table).ok() && writer->Close().ok() && out->Close().ok());
    return folder_ / name;
  }

  auto open(const std::vector<std::string>& paths, const OrcOptions& options = {}) {
    return orc_source(file_system_, infos(paths), options);
  }
};

std::shared_ptr<arrow::Schema> mixed() {
  return arrow::schema(
      {field("i", arrow::int32()), field("s", arrow::utf8()), field("l", arrow::list(arrow::list(arrow::int8())))});
}

TEST_F(OrcSourceTest, ReadsFilesInTheirOrder) {
  const auto table = table_of(mixed()->fields(), {"[1, null, 3]", R"(["a", "", null])", "[[[1], null, []], null, []]"});
  const std::string path = write_orc("a.orc", *table);
  const std::string empty = write_orc("e.orc", *table->Slice(0, 0));
  const auto wanted = arrow::ConcatenateTables({table, table}).ValueOrDie()->CombineChunks().ValueOrDie();
  EXPECT_TRUE(all_rows(*open({path, empty, path}).ValueOrDie())->Equals(*wanted));
  const auto chosen = all_rows(*open({path}, {.columns = {{"l", "i"}}}).ValueOrDie());
  EXPECT_TRUE(chosen->Equals(*table->SelectColumns({2, 0}).ValueOrDie())) << chosen->ToString();
}

TEST_F(OrcSourceTest, StripesAreChunks) {
  std::string numbers;
  for (int i = 0; i < 20'000; ++i) numbers += (i == 0 ? "[" : ",") + std::to_string(i * 7919 % 20'011);
  const auto table = table_of({field("i", arrow::int64())}, {numbers + "]"});
  const auto source = open({write_orc("a.orc", *table, /*bytes_of_stripe=*/4096)}).ValueOrDie();
  EXPECT_GT(source->chunks().size(), 1u);
  EXPECT_EQ(source->chunks()[0].bytes, source->chunks()[0].rows * 8);
  EXPECT_TRUE(all_rows(*source)->Equals(*table));
  // A chunk is read alone.
  const auto last = static_cast<int64_t>(source->chunks().size()) - 1;
  const auto batch = source->read(last, 0).ValueOrDie();
  EXPECT_TRUE(batch->column(0)->Equals(table->column(0)->chunk(0)->Slice(20'000 - batch->num_rows())));
}

TEST_F(OrcSourceTest, FilesMayDiffer) {
  const std::string narrow = write_orc("a.orc", *table_of({field("i", arrow::int32())}, {"[1]"}));
  const std::string wide = write_orc(
      "b.orc", *table_of({field("s", arrow::utf8()), field("i", arrow::int64())}, {R"(["x"])", "[5000000000]"}));
  const auto wanted =
      table_of({field("i", arrow::int64()), field("s", arrow::utf8())}, {"[1, 5000000000]", R"([null, "x"])"});
  EXPECT_TRUE(all_rows(*open({narrow, wide}).ValueOrDie())->Equals(*wanted));
  const auto text = all_rows(*open({narrow, wide}, {.columns = {{"s"}}}).ValueOrDie());
  EXPECT_TRUE(text->Equals(*wanted->SelectColumns({1}).ValueOrDie()));
}

TEST_F(OrcSourceTest, ErrorsNameTheFile) {
  const auto said = [&](const std::vector<std::string>& paths, const OrcOptions& options = {}) {
    return open(paths, options).status().message();
  };
  EXPECT_THAT(said({}), HasSubstr("no ORC file was given"));
  EXPECT_THAT(said({folder_ / "none"}), AllOf(HasSubstr(folder_ / "none"), HasSubstr("does not exist")));
  const std::string path = write_orc("a.orc", *table_of({field("i", arrow::int32())}, {"[1]"}));
  EXPECT_THAT(said({path}, {.columns = {{"z"}}}), HasSubstr("no file has a column 'z'; there is 'i'"));
  const auto source = open({path}).ValueOrDie();
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 5);
  EXPECT_THAT(said({path}), HasSubstr("cannot read the ORC file " + path));
  EXPECT_THAT(source->read(0, 0).status().message(), AllOf(HasSubstr(path), HasSubstr("it has changed since")));
}

TEST_F(OrcSourceTest, IsAStepOfPlans) {
  const auto table = table_of({field("i", arrow::int32()), field("j", arrow::int32())}, {"[1]", "[2]"});
  write_orc("a.orc", *table);
  write("b.txt", "not this");
  const Plan plan{.kind = "read_orc", .options = {{"paths", {folder_.path()}}, {"columns", {"j"}}}};
  EXPECT_TRUE(all_rows(*data::open(plan).ValueOrDie().source)->Equals(*table->SelectColumns({1}).ValueOrDie()));
}

}  // namespace
}  // namespace paceline::data
