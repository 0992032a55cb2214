#include "paceline/data/memory/counted_batch.h"

#include <arrow/array.h>
#include <arrow/json/from_string.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <gtest/gtest.h>

namespace paceline::data {
namespace {

TEST(CountedBatch, CountsUntilTheLastSliceOfItGoes) {
  const std::vector<std::pair<std::shared_ptr<arrow::DataType>, std::string>> columns = {
      {arrow::int64(), "[1, null, 3]"},
      {arrow::utf8(), R"(["a", "b", null])"},
      {arrow::fixed_size_list(arrow::float32(), 2), "[[1, 2], [3, 4], [5, 6]]"},
      {arrow::dictionary(arrow::int8(), arrow::utf8()), R"(["x", "y", "x"])"},
      {arrow::struct_({arrow::field("a", arrow::int8())}), R"([{"a": 1}, null, {"a": 3}])"}};
  for (const auto& [type, json] : columns) {
    const auto ledger = std::make_shared<Ledger>(1000);
    const auto values = *arrow::json::ArrayFromJSONString(type, json);
    const auto plain = arrow::RecordBatch::Make(arrow::schema({arrow::field("x", type)}), 3, {values});
    EXPECT_FALSE(has_counted_part(*plain));
    auto batch = counted_batch(*plain, std::make_shared<Ledger::Reservation>(Ledger::reserve(ledger, 800)));
    EXPECT_TRUE(batch->Equals(*plain)) << *type;
    std::shared_ptr<arrow::RecordBatch> slice = batch->Slice(1, 2);
    EXPECT_TRUE(has_counted_part(*slice)) << *type;
    std::shared_ptr<arrow::Array> rows = slice->column(0);
    batch.reset();
    slice.reset();
    EXPECT_EQ(ledger->held(), 800) << *type;
    rows.reset();
    EXPECT_EQ(ledger->held(), 0) << *type;
  }
}

TEST(CountedBatch, TwoThatAConsumerKeepsLeaveTheRoomThatTheyDoNotTake) {
  const auto ledger = std::make_shared<Ledger>(1000);
  const auto has_room = [&](int64_t bytes) {
    const std::lock_guard lock(ledger->mutex());
    return ledger->has_room(bytes);
  };
  std::vector<Ledger::Reservation> chunks;
  for (int64_t kept = 1; kept <= 2; ++kept) {
    chunks.push_back(Ledger::reserve(ledger, 245));
    chunks.back().leave_to_batches();
    EXPECT_TRUE(has_room(1000 - kept * 245));
    EXPECT_FALSE(has_room(1000 - kept * 245 + 1));
  }
  chunks.push_back(Ledger::reserve(ledger, 245));
  chunks.back().leave_to_batches();
  EXPECT_TRUE(has_room(500)) << "who collects batches stops all reading";
}

}  // namespace
}  // namespace paceline::data
