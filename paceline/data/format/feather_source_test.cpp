#include "paceline/data/format/feather_source.h"

#include <arrow/filesystem/mockfs.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/options.h>
#include <arrow/ipc/writer.h>
#include <arrow/json/from_string.h>
#include <gmock/gmock.h>

#include <filesystem>

#include "paceline/data/source/source_testing_internal.h"

namespace paceline::data {
namespace {

using arrow::field;
using ::testing::AllOf;
using ::testing::HasSubstr;

class FeatherSourceTest : public FilesTest {
 protected:
  static std::shared_ptr<arrow::Table> table_of_json(const arrow::FieldVector& fields,
                                                     const std::vector<std::string>& columns) {
    arrow::ArrayVector arrays;
    for (size_t i = 0; i < fields.size(); ++i) {
      arrays.push_back(arrow::json::ArrayFromJSONString(fields[i]->type(), columns[i]).ValueOrDie());
    }
    return arrow::Table::Make(arrow::schema(fields), arrays);
  }

  static std::string stream_of(const arrow::Table& table, int64_t batch_rows = 2,
                               arrow::ipc::IpcWriteOptions options = arrow::ipc::IpcWriteOptions::Defaults()) {
    const auto out = arrow::io::BufferOutputStream::Create().ValueOrDie();
    const auto writer = arrow::ipc::MakeStreamWriter(out, table.schema(), options).ValueOrDie();
    EXPECT_TRUE(writer->WriteTable(table, batch_rows).ok());
    EXPECT_TRUE(writer->Close().ok());
    return out->Finish().ValueOrDie()->ToString();
  }

  static std::string file_of(const arrow::Table& table, int64_t batch_rows = 2,
                             arrow::Compression::type compression = arrow::Compression::UNCOMPRESSED) {
    const auto out = arrow::io::BufferOutputStream::Create().ValueOrDie();
    arrow::ipc::IpcWriteOptions options = arrow::ipc::IpcWriteOptions::Defaults();
    if (compression != arrow::Compression::UNCOMPRESSED) {
      options.codec = arrow::util::Codec::Create(compression).ValueOrDie();
    }
    const auto writer = arrow::ipc::MakeFileWriter(out, table.schema(), options).ValueOrDie();
    EXPECT_TRUE(writer->WriteTable(table, batch_rows).ok());
    EXPECT_TRUE(writer->Close().ok());
    return out->Finish().ValueOrDie()->ToString();
  }

  arrow::Result<std::unique_ptr<Source>> open(const std::vector<std::string>& paths,
                                              const FeatherOptions& options = {}) {
    return feather_source(file_system_, infos(paths), options);
  }
  std::string error(const std::vector<std::string>& paths, const FeatherOptions& options = {}) {
    return open(paths, options).status().message();
  }

  const std::shared_ptr<arrow::Table> table_ = table_of_json(
      {field("s", arrow::utf8()), field("n", arrow::int64()), field("t", arrow::fixed_size_list(arrow::float32(), 2))},
      {R"(["a", null, "c", "d", "e"])", "[1, 2, null, 4, 5]", "[[1, 2], [3, 4], null, [5, 6], [7, 8]]"});
};

TEST_F(FeatherSourceTest, EachBatchIsAChunk) {
  for (const auto compression :
       {arrow::Compression::UNCOMPRESSED, arrow::Compression::LZ4_FRAME, arrow::Compression::ZSTD}) {
    const std::string path = write("a\xFF.feather", file_of(*table_, 2, compression));
    const std::string one = write("b.arrow", file_of(*table_->Slice(0, 1), 2, compression));
    const auto source = open({path, one}).ValueOrDie();
    ASSERT_EQ(source->chunks().size(), 4u);
    EXPECT_EQ(source->chunks()[2].rows, 1);
    EXPECT_EQ(source->chunks()[3].file, 1);
    EXPECT_GT(source->chunks()[0].bytes, source->chunks()[2].bytes);
    EXPECT_TRUE(all_rows(*source)->Slice(0, 5)->Equals(*table_)) << all_rows(*source)->ToString();
    EXPECT_TRUE(all_rows(*source)->Slice(5)->Equals(*table_->Slice(0, 1)));
  }
}

TEST_F(FeatherSourceTest, ReadsTheColumnsThatAreAskedForInThatOrder) {
  const std::string path = write("a", file_of(*table_));
  EXPECT_TRUE(all_rows(**open({path}, {.columns = {{"t", "s"}}}))->Equals(*table_->SelectColumns({2, 0}).ValueOrDie()));
  const std::string other = write("b", file_of(*table_->SelectColumns({2, 1, 0}).ValueOrDie()));
  EXPECT_TRUE(all_rows(**open({path, other}))->Slice(5)->Equals(*table_));
}

TEST_F(FeatherSourceTest, DictionariesAreRead) {
  const auto type = arrow::dictionary(arrow::int8(), arrow::utf8());
  const auto table = table_of_json({field("d", type)}, {R"(["x", "y", null, "x"])"});
  EXPECT_TRUE(all_rows(**open({write("a", file_of(*table))}))->Equals(*table));
}

TEST_F(FeatherSourceTest, AFileMayHaveNoRows) {
  const std::string none = write("none", file_of(*table_->Slice(0, 0)));
  EXPECT_EQ(all_rows(**open({none}))->num_rows(), 0);
  EXPECT_TRUE(all_rows(**open({none, write("a", file_of(*table_))}))->Equals(*table_));
}

TEST_F(FeatherSourceTest, OtherFileSystemsAreReadWithoutAMap) {
  const auto store = std::make_shared<arrow::fs::internal::MockFileSystem>(arrow::fs::TimePoint{});
  ASSERT_TRUE(store->CreateFile("bucket/a", file_of(*table_)).ok());
  const auto source = feather_source(store, {store->GetFileInfo("bucket/a").ValueOrDie()}).ValueOrDie();
  EXPECT_TRUE(all_rows(*source)->Equals(*table_));
}

TEST_F(FeatherSourceTest, FilesMayDiffer) {
  const auto floats = table_of_json({field("m", arrow::boolean()), field("n", arrow::float64())}, {"[true]", "[0.5]"});
  const auto numbers = table_->SelectColumns({1}).ValueOrDie()->Slice(0, 1);
  const auto rows = all_rows(**open({write("a", file_of(*numbers)), write("b", stream_of(*floats))}));
  EXPECT_TRUE(rows->Equals(
      *table_of_json({field("n", arrow::float64()), field("m", arrow::boolean())}, {"[1, 0.5]", "[null, true]"})))
      << rows->ToString();
  const auto one = all_rows(**open({folder_ / "a", folder_ / "b"}, {.columns = {{"m"}}}));
  EXPECT_TRUE(one->Equals(*table_of_json({field("m", arrow::boolean())}, {"[null, true]"})));
}

TEST_F(FeatherSourceTest, StreamsAreRead) {
  const std::string path = write("a", stream_of(*table_));
  const auto source = open({path, write("none", stream_of(*table_->Slice(0, 0)))}).ValueOrDie();
  ASSERT_EQ(source->chunks().size(), 3u);
  EXPECT_EQ(source->chunks()[2].rows, 1);
  EXPECT_TRUE(all_rows(*source)->Equals(*table_));
  EXPECT_TRUE(all_rows(**open({path}, {.columns = {{"t", "s"}}}))->Equals(*table_->SelectColumns({2, 0}).ValueOrDie()));
  const std::string whole = stream_of(*table_);
  // A stream may end without a mark, so one that is cut between batches is whole.
  EXPECT_TRUE(all_rows(**open({write("open", whole.substr(0, whole.size() - 8))}))->Equals(*table_));
  for (const size_t size : {size_t{5}, size_t{100}, whole.size() / 2, whole.size() - 9}) {
    EXPECT_THAT(error({write("cut", whole.substr(0, size))}), HasSubstr(folder_ / "cut")) << size;
  }
}

// Words that are added to a dictionary, and other dictionaries, come between the batches.
TEST_F(FeatherSourceTest, DictionariesOfStreamsChange) {
  const auto type = arrow::dictionary(arrow::int8(), arrow::utf8());
  std::vector<std::shared_ptr<arrow::ChunkedArray>> columns;
  for (const bool grows : {true, false}) {
    arrow::ArrayVector parts;
    for (const std::string words : {R"(["x", "y"])", R"(["x", "y", "z"])", R"(["w"])"}) {
      if (grows && words == R"(["w"])") continue;
      const auto dictionary = arrow::json::ArrayFromJSONString(arrow::utf8(), words).ValueOrDie();
      const auto places = arrow::json::ArrayFromJSONString(arrow::int8(), "[0, null]").ValueOrDie();
      parts.push_back(arrow::DictionaryArray::FromArrays(type, places, dictionary).ValueOrDie());
    }
    const auto table = arrow::Table::Make(arrow::schema({field("d", type)}),
                                          {std::make_shared<arrow::ChunkedArray>(std::move(parts))});
    arrow::ipc::IpcWriteOptions options = arrow::ipc::IpcWriteOptions::Defaults();
    options.emit_dictionary_deltas = grows;
    const auto source = open({write("a", stream_of(*table, 2, options))}).ValueOrDie();
    ASSERT_EQ(source->chunks().size(), static_cast<size_t>(table->column(0)->num_chunks()));
    for (int chunk = table->column(0)->num_chunks() - 1; chunk >= 0; --chunk) {
      const auto batch = source->read(chunk, 0).ValueOrDie();
      const auto& found = static_cast<const arrow::DictionaryArray&>(*batch->column(0));
      EXPECT_EQ(found.length(), 2);
      EXPECT_TRUE(found.dictionary()->RangeEquals(
          *static_cast<const arrow::DictionaryArray&>(*table->column(0)->chunk(chunk)).dictionary(), 0, 1, 0));
    }
  }
}

TEST_F(FeatherSourceTest, ErrorsNameTheFile) {
  const std::string good = write("good", file_of(*table_));
  EXPECT_THAT(error({}), HasSubstr("no Feather file was given"));
  EXPECT_THAT(error({good, write("text", "this is none of Arrow's files")}),
              HasSubstr("cannot read the Feather file " + folder_ / "text"));
  EXPECT_THAT(error({write("empty", "")}), AllOf(HasSubstr(folder_ / "empty"), HasSubstr("it is empty")));
  const std::string whole = file_of(*table_);
  for (const size_t size : {size_t{5}, size_t{100}, whole.size() / 2, whole.size() - 1}) {
    EXPECT_THAT(error({write("cut", whole.substr(0, size))}), HasSubstr(folder_ / "cut")) << size;
  }
  const std::string other = write("other", file_of(*table_of_json({field("n", arrow::utf8())}, {R"(["x"])"})));
  EXPECT_THAT(error({good, other}, {.columns = {{"n"}}}),
              AllOf(HasSubstr(other), HasSubstr("'n' is string"), HasSubstr("it is int64")));
  EXPECT_THAT(error({good, other}, {.columns = {{"z"}}}), HasSubstr("no file has a column 'z'"));
  EXPECT_THAT(error({good}, {.columns = {{"n", "n"}}}), HasSubstr("two columns called 'n'"));
  const auto source = open({good}).ValueOrDie();
  std::filesystem::resize_file(good, 100);
  EXPECT_THAT(source->read(0, 0).status().message(), AllOf(HasSubstr(good), HasSubstr("it has changed")));
}

}  // namespace
}  // namespace paceline::data
