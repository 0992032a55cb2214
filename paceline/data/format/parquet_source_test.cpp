#include "paceline/data/format/parquet_source.h"

#include <arrow/array.h>
#include <arrow/builder.h>
#include <arrow/extension/fixed_shape_tensor.h>
#include <arrow/filesystem/localfs.h>
#include <arrow/io/file.h>
#include <arrow/json/from_string.h>
#include <arrow/record_batch.h>
#include <arrow/table.h>
#include <arrow/type.h>
#include <arrow/util/byte_size.h>
#include <arrow/util/key_value_metadata.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <parquet/arrow/writer.h>
#include <parquet/properties.h>

#include <filesystem>
#include <fstream>

#include "paceline/testing/temporary_folder.h"

namespace paceline::data {
namespace {

namespace cp = arrow::compute;
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
  std::string write(const std::string& name, const arrow::Table& table, int64_t rows_of_group = 2,
                    bool with_sizes = true) {
    const std::string path = folder_.path() + "/" + name;
    const auto out = arrow::io::FileOutputStream::Open(path).ValueOrDie();
    const auto keep_schema = parquet::ArrowWriterProperties::Builder().store_schema()->build();
    // Row groups have many pages.
    const auto pages = parquet::WriterProperties::Builder()
                           .data_pagesize(4096)
                           ->write_batch_size(100)
                           ->set_size_statistics_level(with_sizes ? parquet::DEFAULT_SIZE_STATISTICS_LEVEL
                                                                  : parquet::SizeStatisticsLevel::None)
                           ->build();
    EXPECT_TRUE(
        parquet::arrow::WriteTable(table, arrow::default_memory_pool(), out, rows_of_group, pages, keep_schema).ok());
    EXPECT_TRUE(out->Close().ok());
    return path;
  }

  arrow::Result<std::unique_ptr<Source>> open(const std::vector<std::string>& paths,
                                              const ParquetOptions& options = {}) {
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
  const std::string path = write("t.parquet", *table, /*rows_of_group=*/2000);
  for (const int64_t bytes : {int64_t{30'000}, int64_t{1} << 30}) {
    const auto source = open({path}, {.bytes_of_chunk = bytes}).ValueOrDie();
    EXPECT_EQ(source->chunks().size() == 2, bytes == int64_t{1} << 30);
    EXPECT_TRUE(all_of(*source)->Equals(*table));
  }
}

TEST_F(ParquetSourceTest, KnowsHowLargeTextsBecomeThatAreAWordOfADictionary) {
  arrow::StringBuilder texts;
  for (int i = 0; i < 10'000; ++i) ASSERT_TRUE(texts.Append(std::string(1000, static_cast<char>('a' + i % 7))).ok());
  const auto table = arrow::Table::Make(arrow::schema({field("s", arrow::utf8())}), {texts.Finish().ValueOrDie()});
  for (const bool with_sizes : {true, false}) {  // older writers know nothing of sizes
    const auto source = open({write("s.parquet", *table, /*rows_of_group=*/10'000, with_sizes)}).ValueOrDie();
    const auto bytes = static_cast<double>(*arrow::util::ReferencedBufferSize(**source->read(0, 0)));
    EXPECT_NEAR(static_cast<double>(source->chunks()[0].bytes), bytes, 0.01 * bytes);
  }
}

TEST_F(ParquetSourceTest, WordsOfManyColumnsThatAreAllLongCountAll) {
  constexpr int kRows = 10'000;
  constexpr int64_t kBytes = 64 << 10;
  arrow::FieldVector fields;
  arrow::ArrayVector columns;
  for (int column = 0; column < 4; ++column) {
    arrow::StringBuilder texts;
    for (int i = 0; i < kRows; ++i) ASSERT_TRUE(texts.Append(std::string(1000, static_cast<char>('a' + i % 7))).ok());
    fields.push_back(field("s" + std::to_string(column), arrow::utf8()));
    columns.push_back(texts.Finish().ValueOrDie());
  }
  const auto table = arrow::Table::Make(arrow::schema(fields), columns);
  const std::string path = write("s.parquet", *table, /*rows_of_group=*/kRows, /*with_sizes=*/false);
  const auto source = open({path}, {.bytes_of_chunk = kBytes}).ValueOrDie();
  const int64_t first = *arrow::util::ReferencedBufferSize(**source->read(0, 0));
  EXPECT_LE(first, kBytes + (kBytes >> 4));
}

TEST_F(ParquetSourceTest, OneLongTextOfADictionaryMakesNoLongColumn) {
  arrow::StringBuilder texts;
  ASSERT_TRUE(texts.Append(std::string(500'000, 'a')).ok());
  for (int i = 1; i < 100'000; ++i) ASSERT_TRUE(texts.Append("b").ok());
  const auto table = arrow::Table::Make(arrow::schema({field("s", arrow::utf8())}), {texts.Finish().ValueOrDie()});
  const auto source = open({write("s.parquet", *table, /*rows_of_group=*/100'000, /*with_sizes=*/false)}).ValueOrDie();
  EXPECT_LE(source->chunks().size(), 17u);
  EXPECT_TRUE(all_of(*source)->Equals(*table));
}

TEST_F(ParquetSourceTest, OneLongTextOfEachDictionaryMakesNoLongRowGroup) {
  constexpr int kRows = 20'000;
  constexpr int64_t kBytes = 256 << 10;
  arrow::FieldVector fields;
  arrow::ArrayVector columns;
  for (int column = 0; column < 5; ++column) {
    arrow::StringBuilder texts;
    ASSERT_TRUE(texts.Append(std::string(2000, 'c')).ok());  // of longer ones writers say nothing
    for (int i = 1; i < kRows; ++i) ASSERT_TRUE(texts.Append("b").ok());
    fields.push_back(field("s" + std::to_string(column), arrow::utf8()));
    columns.push_back(texts.Finish().ValueOrDie());
  }
  const auto table = arrow::Table::Make(arrow::schema(fields), columns);
  const std::string path = write("s.parquet", *table, /*rows_of_group=*/kRows, /*with_sizes=*/false);
  const auto source = open({path}, {.bytes_of_chunk = kBytes}).ValueOrDie();
  EXPECT_LE(source->chunks().size(), 18u);
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
  const auto said = [&](const std::vector<std::string>& paths, const ParquetOptions& options = {}) {
    return open(paths, options).status().message();
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
  EXPECT_THAT(said({good}, {.columns = {{"z"}}}), HasSubstr("no file has a column 'z'; there is 'a'"));
  EXPECT_THAT(said({good}, {.columns = {{"a", "a"}}}), HasSubstr("two columns called 'a'"));
  EXPECT_THAT(said({good}, {.filter = cp::field_ref("z")}), HasSubstr("the filter z"));
}

TEST_F(ParquetSourceTest, AFileThatChangesIsAnError) {
  const auto table = table_of({field("a", arrow::int64())}, {"[1, 2, 3, 4]"});
  const std::string path = write("a.parquet", *table);
  const auto source = open({path}).ValueOrDie();
  std::filesystem::resize_file(path, 20);
  EXPECT_THAT(source->read(0, 0).status().message(), HasSubstr("cannot read the Parquet file " + path));
}

TEST_F(ParquetSourceTest, FilesMayDiffer) {
  const auto first = table_of({field("a", arrow::int32()), field("b", arrow::utf8())}, {"[1]", R"(["x"])"});
  const auto second = table_of({field("a", arrow::int64()), field("t", arrow::fixed_size_list(arrow::float32(), 1))},
                               {"[5000000000, null]", "[[1], [2]]"});
  const auto source = open({write("a.parquet", *first), write("b.parquet", *second)}).ValueOrDie();
  const auto wanted = table_of({field("a", arrow::int64()), field("b", arrow::utf8()), second->schema()->field(1)},
                               {"[1, 5000000000, null]", R"(["x", null, null])", "[null, [1], [2]]"});
  EXPECT_TRUE(all_of(*source)->Equals(*wanted)) << all_of(*source)->ToString();
  const auto one = open({folder_.path() + "/a.parquet", folder_.path() + "/b.parquet"}, {.columns = {{"b"}}});
  EXPECT_TRUE(all_of(**one)->Equals(*wanted->SelectColumns({1}).ValueOrDie()));
}

// Every type that is read in its own way, in pieces of any size.
TEST_F(ParquetSourceTest, LargeRowGroupsAreReadInPieces) {
  const std::vector<std::shared_ptr<arrow::DataType>> types = {arrow::boolean(),
                                                               arrow::int8(),
                                                               arrow::uint8(),
                                                               arrow::int16(),
                                                               arrow::uint16(),
                                                               arrow::int32(),
                                                               arrow::uint32(),
                                                               arrow::int64(),
                                                               arrow::uint64(),
                                                               arrow::float32(),
                                                               arrow::float64(),
                                                               arrow::date32(),
                                                               arrow::utf8(),
                                                               arrow::binary(),
                                                               arrow::timestamp(arrow::TimeUnit::MILLI),
                                                               arrow::time64(arrow::TimeUnit::NANO),
                                                               arrow::large_utf8(),
                                                               arrow::decimal128(9, 2)};
  constexpr int kRows = 3000;
  arrow::FieldVector fields;
  std::vector<std::string> columns;
  for (const bool has_nulls : {false, true}) {
    for (const auto& type : types) {
      const bool is_text = arrow::is_base_binary_like(type->id()) || type->id() == arrow::Type::DECIMAL128;
      std::string values;
      for (int i = 0; i < kRows; ++i) {
        std::string value = std::to_string(i % 100);
        if (type->id() == arrow::Type::BOOL) value = i % 3 == 0 ? "true" : "false";
        if (is_text) value = "\"" + std::to_string(i % 90 + 10) + ".25\"";
        if (has_nulls && i % 7 == 0) value = "null";
        values += (i == 0 ? "[" : ",") + value;
      }
      fields.push_back(field(std::to_string(fields.size()), type, has_nulls));
      columns.push_back(values + "]");
    }
  }
  std::string lists;
  std::string tensors;
  for (int i = 0; i < kRows; ++i) {
    lists += (i == 0 ? "[" : ",") + (i % 5 == 0   ? std::string("null")
                                     : i % 5 == 1 ? "[]"
                                                  : "[" + std::to_string(i) + ", null]");
    tensors += (i == 0 ? "[" : ",") + ("[[" + std::to_string(i) + ", 1], [2, 3]]");
  }
  fields.push_back(field("lists", arrow::list(arrow::int32())));
  columns.push_back(lists + "]");
  const auto pair = arrow::fixed_size_list(field("element", arrow::float32(), false), 2);
  fields.push_back(field("tensors", arrow::fixed_size_list(field("element", pair, false), 2), false));
  columns.push_back(tensors + "]");
  fields.push_back(field("struct", arrow::struct_({field("x", arrow::int32())})));
  columns.push_back("[" + std::string(R"({"x": 1})"));
  for (int i = 1; i < kRows; ++i) columns.back() += i % 2 == 0 ? ",null" : R"(,{"x": null})";
  columns.back() += "]";
  const auto table = table_of(fields, columns);
  const std::string path = write("a.parquet", *table, /*rows_of_group=*/kRows);
  for (const int64_t bytes : {int64_t{5000}, int64_t{70'000}, int64_t{300'000}, int64_t{1} << 30}) {
    const auto source = open({path}, {.bytes_of_chunk = bytes}).ValueOrDie();
    EXPECT_EQ(source->chunks().size() == 1, bytes == int64_t{1} << 30);
    const auto read = all_of(*source);
    for (int i = 0; i < table->num_columns(); ++i) {
      EXPECT_TRUE(read->column(i)->Equals(*table->column(i)))
          << table->field(i)->ToString() << " in pieces of " << bytes;
    }
  }
}

// Parquet keeps them in four bytes each.
TEST_F(ParquetSourceTest, SmallIntegersCountAsWhatTheyAreInMemory) {
  const auto table = table_of({field("a", arrow::uint8()), field("t", arrow::fixed_size_list(arrow::int16(), 3))},
                              {"[1, 2, null]", "[[1, 2, 3], [4, 5, 6], [7, 8, 9]]"});
  const auto source = open({write("a.parquet", *table)}, {.bytes_of_chunk = 100}).ValueOrDie();
  EXPECT_EQ(source->chunks()[0].bytes, source->chunks()[0].rows * (1 + 3 * 2));
}

TEST_F(ParquetSourceTest, FiltersLeaveOutRowGroups) {
  const auto table =
      table_of({field("a", arrow::int32()), field("f", arrow::float64()), field("s", arrow::utf8())},
               {"[1, 2, 3, 4, null, null]", "[1, 1, 5, NaN, 7, 8]", R"(["a", "b", "c", "d", "e", null])"});
  const auto without_a = table_of({field("s", arrow::utf8())}, {R"(["z"])"});
  const std::vector<std::string> paths = {write("a.parquet", *table), write("b.parquet", *without_a)};
  const auto chunks_of = [&](const cp::Expression& filter) {
    const auto source = open(paths, {.columns = {{"s"}}, .filter = filter}).ValueOrDie();
    std::vector<std::string> first;
    for (size_t i = 0; i < source->chunks().size(); ++i) {
      first.push_back(
          source->read(static_cast<int64_t>(i), 0).ValueOrDie()->column(0)->GetScalar(0).ValueOrDie()->ToString());
    }
    return first;
  };
  const auto a = cp::field_ref("a");
  const auto f = cp::field_ref("f");
  const auto s = cp::field_ref("s");
  using ::testing::ElementsAre;
  EXPECT_THAT(chunks_of(cp::greater(a, cp::literal(2))), ElementsAre("c"));
  EXPECT_THAT(chunks_of(cp::less(a, cp::literal(int64_t{3}))), ElementsAre("a"));
  EXPECT_THAT(chunks_of(cp::is_null(a)), ElementsAre("e", "z"));
  EXPECT_THAT(chunks_of(cp::equal(s, cp::literal("d"))), ElementsAre("c"));
  EXPECT_THAT(chunks_of(cp::or_(cp::equal(a, cp::literal(1)), cp::equal(s, cp::literal("z")))), ElementsAre("a", "z"));
  EXPECT_THAT(chunks_of(cp::and_(cp::greater(f, cp::literal(4.0)), cp::less(a, cp::literal(3)))), ElementsAre());
  EXPECT_THAT(chunks_of(cp::greater(f, cp::literal(6.0))), ElementsAre("e"));
  // NaN, of which statistics say nothing, passes these.
  EXPECT_THAT(chunks_of(cp::not_(cp::less(f, cp::literal(6.0)))), ::testing::Contains("c"));
  EXPECT_THAT(chunks_of(cp::equal(cp::greater(f, cp::literal(0.0)), cp::literal(false))), ::testing::Contains("c"));
  EXPECT_THAT(chunks_of(cp::not_(cp::greater(a, cp::literal(2)))), ::testing::Not(::testing::Contains("c")));
}

TEST_F(ParquetSourceTest, TensorsOfArrowsAndRaysTypes) {
  const auto values = arrow::json::ArrayFromJSONString(arrow::fixed_size_list(arrow::float32(), 4),
                                                       "[[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]]")
                          .ValueOrDie();
  const auto type = arrow::extension::fixed_shape_tensor(arrow::float32(), {2, 2});
  const auto arrows =
      arrow::Table::Make(arrow::schema({field("t", type)}), {arrow::ExtensionType::WrapArray(type, values)});
  const auto source = open({write("arrow.parquet", *arrows)}).ValueOrDie();
  EXPECT_TRUE((*source->schema())->field(0)->type()->Equals(*type));
  EXPECT_TRUE(all_of(*source)->Equals(*arrows)) << all_of(*source)->ToString();
  for (const std::string json : {"[[1, 2, 3, 4], [5, 6, 7, 8]]", "[[1, 2, 3, 4], null]"}) {
    for (const auto& [name, storage] : std::vector<std::pair<std::string, std::shared_ptr<arrow::DataType>>>{
             {"ray.data.arrow_tensor", arrow::list(arrow::float32())},
             {"ray.data.arrow_tensor_v2", arrow::large_list(arrow::float32())}}) {
      const auto metadata =
          arrow::key_value_metadata({"ARROW:extension:name", "ARROW:extension:metadata"}, {name, "[2, 2]"});
      const auto rays = table_of({field("t", storage, true, metadata)}, {json});
      const auto wanted = table_of(
          {field("t", arrow::fixed_size_list(arrow::fixed_size_list(arrow::float32(), 2), 2))},
          {json == "[[1, 2, 3, 4], null]" ? "[[[1, 2], [3, 4]], null]" : "[[[1, 2], [3, 4]], [[5, 6], [7, 8]]]"});
      for (const int64_t bytes : {int64_t{1}, int64_t{1} << 30}) {  // a row each, and all
        const auto read = all_of(*open({write("ray.parquet", *rays)}, {.bytes_of_chunk = bytes}).ValueOrDie());
        EXPECT_TRUE(read->Equals(*wanted)) << name << read->ToString();
      }
    }
  }
}

}  // namespace
}  // namespace paceline::data
