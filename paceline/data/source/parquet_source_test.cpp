#include "paceline/data/source/parquet_source.h"

#include <arrow/array.h>
#include <arrow/builder.h>
#include <arrow/filesystem/localfs.h>
#include <arrow/io/file.h>
#include <arrow/json/from_string.h>
#include <arrow/record_batch.h>
#include <arrow/table.h>
#include <arrow/type.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <parquet/arrow/writer.h>
#include <parquet/properties.h>

#include <filesystem>
#include <fstream>

#include "paceline/testing/temporary_folder.h"

namespace paceline::data {
namespace {

using arrow::field;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::shared_ptr<arrow::Table> table_of(const arrow::FieldVector& fields, const std::vector<std::string>& columns) {
  arrow::ArrayVector arrays;
  for (size_t i = 0; i < fields.size(); ++i) {
    arrays.push_back(arrow::json::ArrayFromJSONString(fields[i]->type(), columns[i]).ValueOrDie());
  }
  return arrow::Table::Make(arrow::schema(fields), arrays);
}

class ParquetSourceTest : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const arrow::Table& table, int64_t rows_of_group = 2) {
    const std::string path = folder_.path() + "/" + name;
    const auto out = arrow::io::FileOutputStream::Open(path).ValueOrDie();
    const auto keep_schema = parquet::ArrowWriterProperties::Builder().store_schema()->build();
    EXPECT_TRUE(parquet::arrow::WriteTable(table, arrow::default_memory_pool(), out, rows_of_group,
                                           parquet::default_writer_properties(), keep_schema)
                    .ok());
    EXPECT_TRUE(out->Close().ok());
    return path;
  }

  arrow::Result<std::unique_ptr<Source>> open(std::vector<std::string> paths, const ParquetOptions& options = {}) {
    return parquet_source(file_system_, file_system_->GetFileInfo(paths).ValueOrDie(), options);
  }

  // All rows in the source's order.
  std::shared_ptr<arrow::Table> all_of(const Source& source) {
    arrow::RecordBatchVector batches;
    for (size_t chunk = 0; chunk < source.chunks().size(); ++chunk) {
      batches.push_back(source.read(static_cast<int64_t>(chunk), 0).ValueOrDie());
      EXPECT_EQ(batches.back()->num_rows(), source.chunks()[chunk].rows);
      EXPECT_TRUE(batches.back()->ValidateFull().ok());
    }
    return arrow::Table::FromRecordBatches(*source.schema(), batches).ValueOrDie()->CombineChunks().ValueOrDie();
  }

  testing::TemporaryFolder folder_;
  std::shared_ptr<arrow::fs::FileSystem> file_system_ = std::make_shared<arrow::fs::LocalFileSystem>();
};

TEST_F(ParquetSourceTest, EachRowGroupIsAChunk) {
  const auto first = table_of({field("x", arrow::int64()), field("s", arrow::utf8())},
                              {"[1, 2, null, 4, 5]", R"(["a", null, "c", "d", "e"])"});
  const auto second = table_of(first->schema()->fields(), {"[6]", R"(["f"])"});
  const auto source = open({write("a.parquet", *first), write("b.parquet", *second)}).ValueOrDie();
  ASSERT_EQ(source->chunks().size(), 4u);
  EXPECT_EQ(source->chunks()[2].rows, 1);
  EXPECT_EQ(source->chunks()[3].file, 1);
  EXPECT_GT(source->chunks()[0].bytes, 0);
  EXPECT_TRUE(
      all_of(*source)->Equals(*arrow::ConcatenateTables({first, second}).ValueOrDie()->CombineChunks().ValueOrDie()));
}

// Each type of number, with and without a null list, a null value, and with a list in a list.
TEST_F(ParquetSourceTest, TensorColumnsAreWhatWasWritten) {
  const std::vector<std::shared_ptr<arrow::DataType>> types = {
      arrow::float32(), arrow::float64(), arrow::int8(),  arrow::uint8(),  arrow::int16(),   arrow::uint16(),
      arrow::int32(),   arrow::uint32(),  arrow::int64(), arrow::uint64(), arrow::float16(), arrow::date32()};
  const std::vector<std::string> rows = {"[[1, 2, 3], [4, 5, 100], [7, 8, 9]]", "[[1, 2, 3], null, [7, 8, 9]]",
                                         "[[1, 2, 3], [4, null, 6], [7, 8, 9]]"};
  for (const auto& type : types) {
    for (const std::string& json : rows) {
      for (const bool nullable : {true, false}) {
        if (!nullable && json.find("null") != std::string::npos) continue;
        const auto list = arrow::fixed_size_list(field("element", type, nullable), 3);
        const auto table = table_of({field("t", list, nullable), field("i", arrow::int32())}, {json, "[1, 2, 3]"});
        const auto source = open({write("t.parquet", *table)}).ValueOrDie();
        EXPECT_TRUE(all_of(*source)->Equals(*table)) << all_of(*source)->ToString() << table->ToString();
      }
    }
  }
}

TEST_F(ParquetSourceTest, ListsOfOneValueMayBeNull) {
  const auto table =
      table_of({field("t", arrow::fixed_size_list(field("element", arrow::float32()), 1))}, {"[[1], null, [3]]"});
  EXPECT_TRUE(all_of(*open({write("t.parquet", *table)}).ValueOrDie())->Equals(*table));
}

TEST_F(ParquetSourceTest, LargeTensorColumnsOfManyPages) {
  arrow::FloatBuilder values;
  for (int i = 0; i < 300'000; ++i) ASSERT_TRUE(values.Append(static_cast<float>(i % 1000) / 7).ok());
  const auto type = arrow::fixed_size_list(field("element", arrow::float32()), 100);
  const auto tensors = std::make_shared<arrow::FixedSizeListArray>(type, 3000, values.Finish().ValueOrDie());
  const auto table = arrow::Table::Make(arrow::schema({field("t", type)}), {tensors});
  const auto source = open({write("t.parquet", *table, /*rows_of_group=*/2000)}).ValueOrDie();
  EXPECT_TRUE(all_of(*source)->Equals(*table));
}

TEST_F(ParquetSourceTest, ReadsTheColumnsThatAreAskedForInThatOrder) {
  const auto table = table_of(
      {field("a", arrow::int32()), field("t", arrow::fixed_size_list(arrow::float32(), 1)),
       field("s", arrow::struct_({field("x", arrow::int32()), field("y", arrow::utf8())})), field("b", arrow::int32())},
      {"[1, 2]", "[[1], [2]]", R"([{"x": 1, "y": "a"}, {"x": 2, "y": null}])", "[3, 4]"});
  const auto source = open({write("a.parquet", *table)}, {.columns = {{"b", "s", "t", "a"}}}).ValueOrDie();
  const auto wanted = table->SelectColumns({3, 2, 1, 0}).ValueOrDie();
  EXPECT_TRUE(all_of(*source)->Equals(*wanted)) << all_of(*source)->ToString();
  const auto one = open({write("a.parquet", *table)}, {.columns = {{"b"}}}).ValueOrDie();
  EXPECT_LT(one->chunks()[0].bytes, source->chunks()[0].bytes);
}

TEST_F(ParquetSourceTest, AFileMayHaveItsColumnsInAnotherOrder) {
  const auto first = table_of({field("a", arrow::int32()), field("b", arrow::utf8())}, {"[1]", R"(["x"])"});
  const auto second = table_of({field("b", arrow::utf8()), field("a", arrow::int32())}, {R"(["y"])", "[2]"});
  const auto source = open({write("a.parquet", *first), write("b.parquet", *second)}).ValueOrDie();
  const auto wanted = table_of(first->schema()->fields(), {"[1, 2]", R"(["x", "y"])"});
  EXPECT_TRUE(all_of(*source)->Equals(*wanted));
}

TEST_F(ParquetSourceTest, ErrorsNameTheFile) {
  const auto table = table_of({field("a", arrow::int32())}, {"[1]"});
  const std::string good = write("good.parquet", *table);
  const auto said = [&](std::vector<std::string> paths, const ParquetOptions& options = {}) {
    return open(std::move(paths), options).status().message();
  };
  EXPECT_EQ(said({}), "no Parquet file was given");
  EXPECT_THAT(said({good, folder_.path() + "/none.parquet"}), HasSubstr("none.parquet"));
  std::ofstream(folder_.path() + "/text.parquet") << "this is no Parquet file";
  EXPECT_THAT(said({good, folder_.path() + "/text.parquet"}),
              HasSubstr("cannot read the Parquet file " + folder_.path() + "/text.parquet"));
  std::ofstream(folder_.path() + "/empty.parquet") << "";
  EXPECT_THAT(said({folder_.path() + "/empty.parquet"}), HasSubstr("empty.parquet"));
  const std::string other = write("other.parquet", *table_of({field("a", arrow::utf8())}, {R"(["x"])"}));
  EXPECT_THAT(said({good, other}),
              AllOf(HasSubstr("other.parquet"), HasSubstr("'a' is string"), HasSubstr("it is int32")));
  const std::string fewer = write("fewer.parquet", *table_of({field("b", arrow::int32())}, {"[1]"}));
  EXPECT_THAT(said({good, fewer}), AllOf(HasSubstr("fewer.parquet"), HasSubstr("no column 'a'; it has b")));
  EXPECT_THAT(said({good}, {.columns = {{"z"}}}), HasSubstr("no column 'z'; it has a"));
  EXPECT_THAT(said({good}, {.columns = {{"a", "a"}}}), HasSubstr("two columns are called 'a'"));
}

TEST_F(ParquetSourceTest, AFileThatChangesIsAnError) {
  const auto table = table_of({field("a", arrow::int64())}, {"[1, 2, 3, 4]"});
  const std::string path = write("a.parquet", *table);
  const auto source = open({path}).ValueOrDie();
  std::filesystem::resize_file(path, 20);
  EXPECT_THAT(source->read(0, 0).status().message(), HasSubstr("cannot read the Parquet file " + path));
}

}  // namespace
}  // namespace paceline::data
