#include "paceline/data/rows/gather.h"

#include <arrow/array.h>
#include <arrow/builder.h>
#include <arrow/compute/api_vector.h>
#include <arrow/compute/initialize.h>
#include <arrow/extension/uuid.h>
#include <arrow/json/from_string.h>
#include <arrow/record_batch.h>
#include <arrow/scalar.h>
#include <arrow/table.h>
#include <arrow/type.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace paceline::data {
namespace {

using arrow::field;

// A column of each kind, with nulls in the second batch.
std::shared_ptr<arrow::Schema> schema_of_all_types() {
  return arrow::schema({field("integer", arrow::int32()), field("real", arrow::float64()),
                        field("flag", arrow::boolean()), field("text", arrow::utf8()),
                        field("list", arrow::list(arrow::int16())),
                        field("tensor", arrow::fixed_size_list(arrow::fixed_size_list(arrow::float32(), 2), 2)),
                        field("dictionary", arrow::dictionary(arrow::int8(), arrow::utf8()))});
}

std::shared_ptr<arrow::RecordBatch> batch_of(int first, int rows, bool nulls) {
  const std::shared_ptr<arrow::Schema> schema = schema_of_all_types();
  arrow::ArrayVector columns;
  const auto texts = [&](const auto& value) {
    std::string json = "[";
    for (int row = first; row < first + rows; ++row) {
      json += (row == first ? "" : ", ") + (nulls && row % 3 == 0 ? "null" : value(std::to_string(row)));
    }
    return json + "]";
  };
  const auto column = [&](int number, const auto& value) {
    columns.push_back(arrow::json::ArrayFromJSONString(schema->field(number)->type(), texts(value)).ValueOrDie());
  };
  column(0, [](const std::string& row) { return row; });
  column(1, [](const std::string& row) { return row + ".5"; });
  column(2,
         [](const std::string& row) { return std::stoi(row) % 2 == 0 ? std::string("true") : std::string("false"); });
  column(3, [](const std::string& row) { return "\"row " + row + "\""; });
  column(4, [](const std::string& row) { return "[" + row + (std::stoi(row) % 2 == 0 ? "]" : ", 7]"); });
  column(5, [](const std::string& row) { return "[[" + row + ", 1], [2, 3]]"; });
  column(6,
         [](const std::string& row) { return std::stoi(row) % 2 == 0 ? std::string("\"a\"") : std::string("\"b\""); });
  return arrow::RecordBatch::Make(schema, rows, columns);
}

// The rows one by one, as text: the oracle.
std::string text_of(const arrow::RecordBatchVector& batches, const std::vector<RowRun>& rows) {
  std::string text;
  for (const RowRun& row : rows) {
    for (const auto& column : batches[static_cast<size_t>(row.chunk)]->columns()) {
      std::shared_ptr<arrow::Scalar> value = column->GetScalar(row.first).ValueOrDie();
      // A dictionary is made anew: what counts is what stands in it.
      if (const auto* entry = dynamic_cast<const arrow::DictionaryScalar*>(value.get()))
        value = *entry->GetEncodedValue();
      text += value->ToString() + " ";
    }
    text += "\n";
  }
  return text;
}

std::vector<RowRun> all_rows(int64_t rows) {
  std::vector<RowRun> all;
  for (int64_t row = 0; row < rows; ++row) all.push_back({0, row, 1});
  return all;
}

TEST(Gather, GivesTheRowsOfEveryType) {
  // The third is a slice, whose arrays begin in the middle of their buffers.
  const arrow::RecordBatchVector batches = {batch_of(0, 20, false), batch_of(100, 10, true),
                                            batch_of(200, 30, false)->Slice(7, 15)};
  std::mt19937_64 random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<RowRun> rows(random() % 40);
    for (RowRun& row : rows) {
      const size_t batch = random() % 3;
      row = {static_cast<int64_t>(batch),
             static_cast<int64_t>(random() % static_cast<uint64_t>(batches[batch]->num_rows())), 1};
    }
    if (round % 3 == 0) std::ranges::sort(rows, {}, [](const RowRun& row) { return std::pair(row.chunk, row.first); });
    const auto batch = gather(batches, rows, arrow::default_memory_pool()).ValueOrDie();
    ASSERT_TRUE(batch->ValidateFull().ok()) << batch->ValidateFull().ToString();
    ASSERT_TRUE(batch->schema()->Equals(*schema_of_all_types()));
    ASSERT_EQ(text_of({batch}, all_rows(batch->num_rows())), text_of(batches, rows)) << "round " << round;
  }
}

TEST(Gather, TakesAllRowsInAnyOrder) {
  const arrow::RecordBatchVector batches = {batch_of(0, 20, false), batch_of(100, 10, true)};
  std::vector<uint32_t> order(30);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937_64(1));
  std::vector<RowRun> rows;
  for (const int64_t row : order) rows.push_back(row < 20 ? RowRun{0, row, 1} : RowRun{1, row - 20, 1});
  const auto batch = take_all(batches, order, arrow::default_memory_pool()).ValueOrDie();
  EXPECT_EQ(text_of({batch}, all_rows(30)), text_of(batches, rows));
}

// Tensors of a shape with a zero, of which a row has no byte.
TEST(Gather, TakesRowsWithoutBytes) {
  const auto type = arrow::fixed_size_list(arrow::int32(), 0);
  const auto array = arrow::json::ArrayFromJSONString(type, "[[], [], []]").ValueOrDie();
  const auto batch = arrow::RecordBatch::Make(arrow::schema({arrow::field("x", type)}), 3, {array});
  EXPECT_TRUE(take_all({batch}, {2, 0, 1}, arrow::default_memory_pool()).ValueOrDie()->Equals(*batch));
  const std::vector<RowRun> runs = {{0, 2, 1}, {0, 0, 2}};
  EXPECT_TRUE(gather({batch, batch}, runs, arrow::default_memory_pool()).ValueOrDie()->Equals(*batch));
}

TEST(Gather, RowsInSequenceAreNotCopied) {
  const arrow::RecordBatchVector batches = {batch_of(0, 20, false)};
  const auto batch = gather(batches, std::vector<RowRun>{{0, 4, 2}, {0, 6, 1}}, arrow::default_memory_pool());
  EXPECT_EQ((*batch)->column_data(0)->buffers[1].get(), batches[0]->column_data(0)->buffers[1].get());
  EXPECT_EQ(text_of({*batch}, all_rows(3)), text_of(batches, {{0, 4, 1}, {0, 5, 1}, {0, 6, 1}}));
}

// A view, for which Arrow has no take(), and an extension type, for which it has no builder.
TEST(Gather, TypesThatArrowsFunctionsDoNotKnow) {
  const auto schema = arrow::schema({field("view", arrow::utf8_view()), field("uuid", arrow::extension::uuid())});
  const auto batch_from = [&](char first) {
    std::string texts = "[", bytes = "[";
    for (char letter = first; letter < first + 4; ++letter) {
      texts += (letter == first ? "\"" : ", \"") + std::string(20, letter) + "\"";
      bytes += (letter == first ? "\"" : ", \"") + std::string(16, letter) + "\"";
    }
    const auto view = arrow::json::ArrayFromJSONString(arrow::utf8_view(), texts + ", null]").ValueOrDie();
    const auto uuid = arrow::json::ArrayFromJSONString(arrow::fixed_size_binary(16), bytes + ", null]").ValueOrDie();
    return arrow::RecordBatch::Make(schema, 5, {view, arrow::ExtensionType::WrapArray(arrow::extension::uuid(), uuid)});
  };
  const arrow::RecordBatchVector batches = {batch_from('a'), batch_from('q')};
  const std::vector<RowRun> rows = {{1, 4, 1}, {0, 2, 1}, {1, 0, 1}, {0, 3, 1}};
  const auto gathered = gather(batches, rows, arrow::default_memory_pool()).ValueOrDie();
  const auto taken = take_all(batches, {9, 2, 5, 3}, arrow::default_memory_pool()).ValueOrDie();
  for (const auto& batch : {gathered, taken}) {
    ASSERT_TRUE(batch->ValidateFull().ok());
    ASSERT_TRUE(batch->schema()->Equals(*schema));
    EXPECT_EQ(text_of({batch}, all_rows(4)), text_of(batches, rows));
  }
}

// Of so many rows that columns are mixed in several bins; also of some of the rows, and of rows that come twice.
TEST(Mixing, TakesManyRowsInAnyOrder) {
  ASSERT_TRUE(arrow::compute::Initialize().ok());
  constexpr int64_t kRows = 70'000;
  arrow::RecordBatchVector batches;
  int64_t next = 0;
  const auto numbers = [&](const auto& type, int64_t rows) {
    std::unique_ptr<arrow::ArrayBuilder> builder;
    EXPECT_TRUE(arrow::MakeBuilder(arrow::default_memory_pool(), type, &builder).ok());
    for (int64_t row = 0; row < rows; ++row) {
      EXPECT_TRUE(builder->AppendScalar(*arrow::MakeScalar(type, (next + row) % 120).ValueOrDie()).ok());
    }
    return builder->Finish().ValueOrDie();
  };
  const auto schema = arrow::schema(
      {field("a", arrow::int8()), field("b", arrow::int16()), field("c", arrow::float32()), field("d", arrow::int64()),
       field("e", arrow::fixed_size_list(arrow::int8(), 3)), field("f", arrow::fixed_size_list(arrow::float32(), 3))});
  for (const int64_t rows : {kRows, int64_t{0}, kRows / 2, int64_t{1}}) {
    arrow::ArrayVector columns;
    for (const auto& column : schema->fields()) {
      const auto* const list = dynamic_cast<const arrow::FixedSizeListType*>(column->type().get());
      if (list == nullptr) {
        columns.push_back(numbers(column->type(), rows));
      } else {
        const auto items = numbers(list->value_type(), rows * list->list_size());
        columns.push_back(arrow::FixedSizeListArray::FromArrays(items, list->list_size()).ValueOrDie());
      }
    }
    batches.push_back(arrow::RecordBatch::Make(schema, rows, columns));
    next += rows;
  }
  std::vector<uint32_t> order(static_cast<size_t>(next));
  std::iota(order.begin(), order.end(), 0);
  std::mt19937_64 random(3);
  std::ranges::shuffle(order, random);
  const std::vector<uint32_t> some(order.begin(), order.begin() + kRows);
  std::vector<uint32_t> twice = order;
  twice[0] = twice[1];
  const auto whole = arrow::Table::FromRecordBatches(batches).ValueOrDie()->CombineChunksToBatch().ValueOrDie();
  for (const auto& rows : {order, some, twice}) {
    const auto taken = take_all(batches, rows, arrow::default_memory_pool()).ValueOrDie();
    const arrow::UInt32Array places(static_cast<int64_t>(rows.size()), arrow::Buffer::Wrap(rows));
    ASSERT_TRUE(taken->ValidateFull().ok());
    for (int column = 0; column < schema->num_fields(); ++column) {
      const auto wanted = arrow::compute::Take(*whole->column(column), places).ValueOrDie();
      EXPECT_TRUE(taken->column(column)->Equals(*wanted)) << schema->field(column)->name();
    }
  }
}

}  // namespace
}  // namespace paceline::data
