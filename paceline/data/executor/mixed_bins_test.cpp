#include "paceline/data/executor/mixed_bins.h"

#include <arrow/array.h>
#include <arrow/builder.h>
#include <arrow/compute/api_vector.h>
#include <arrow/compute/initialize.h>
#include <arrow/memory_pool.h>
#include <arrow/record_batch.h>
#include <arrow/scalar.h>
#include <arrow/table.h>
#include <arrow/type.h>
#include <gtest/gtest.h>

#include <numeric>

namespace paceline::data {
namespace {

using arrow::field;

// Rows of numbers of each width, of lists, of texts, and of numbers of which some are null.
std::shared_ptr<arrow::RecordBatch> batch_of(int64_t first, int64_t rows) {
  const auto numbers = [&](const auto& type, int64_t count, bool nulls = false) {
    std::unique_ptr<arrow::ArrayBuilder> builder;
    EXPECT_TRUE(arrow::MakeBuilder(arrow::default_memory_pool(), type, &builder).ok());
    for (int64_t row = 0; row < count; ++row) {
      const int64_t value = (first + row) % 113;
      if (nulls && value % 3 == 0) {
        EXPECT_TRUE(builder->AppendNull().ok());
      } else if (type->id() == arrow::Type::STRING) {
        EXPECT_TRUE(builder->AppendScalar(arrow::StringScalar("row " + std::to_string(value))).ok());
      } else {
        EXPECT_TRUE(builder->AppendScalar(*arrow::MakeScalar(type, value).ValueOrDie()).ok());
      }
    }
    return builder->Finish().ValueOrDie();
  };
  const auto list = [&](const auto& type, int32_t size) -> std::shared_ptr<arrow::Array> {
    return arrow::FixedSizeListArray::FromArrays(numbers(type, rows * size), size).ValueOrDie();
  };
  const arrow::ArrayVector columns = {
      numbers(arrow::int8(), rows), numbers(arrow::int16(), rows), numbers(arrow::float32(), rows),
      numbers(arrow::utf8(), rows), numbers(arrow::int64(), rows), list(arrow::float32(), 3),
      list(arrow::float64(), 2),    list(arrow::int8(), 5),        numbers(arrow::int32(), rows, /*nulls=*/true)};
  arrow::FieldVector fields;
  for (const auto& column : columns) fields.push_back(field("c" + std::to_string(fields.size()), column->type()));
  return arrow::RecordBatch::Make(arrow::schema(fields), rows, columns);
}

TEST(MixedBins, GiveTheRowsInTheOrderOfTheirMix) {
  ASSERT_TRUE(arrow::compute::Initialize().ok());
  const auto ledger = std::make_shared<Ledger>(int64_t{256} << 20);
  for (const auto& [counts, bytes] : {std::pair(std::vector<int64_t>{100, 0, 50}, int64_t{0}),
                                      std::pair(std::vector<int64_t>{12'000, 3, 9000}, int64_t{1} << 30),
                                      std::pair(std::vector<int64_t>{30'000}, int64_t{1} << 30),
                                      std::pair(std::vector<int64_t>{30'000, 20'000}, int64_t{0})}) {
    arrow::RecordBatchVector batches;
    int64_t rows = 0;
    for (const int64_t count : counts) {
      batches.push_back(batch_of(rows + 7, count + 1)->Slice(1));  // whose arrays do not begin with their buffers
      rows += count;
    }
    const WindowMix mix(11, rows);
    std::vector<DealtRows> parts;
    for (size_t chunk = 0; chunk < counts.size(); ++chunk) {
      std::vector<uint16_t> of_rows(static_cast<size_t>(counts[chunk]));
      mix.find_bins(static_cast<int64_t>(chunk), of_rows);
      parts.push_back(deal(batches[chunk], of_rows, mix.bins(), arrow::default_memory_pool()).ValueOrDie());
    }
    const auto bins = std::make_unique<MixedBins>(mix, std::move(parts), bytes, ledger, arrow::default_memory_pool());
    arrow::RecordBatchVector mixed;
    for (int64_t row = 0; row < rows; row += mixed.back()->num_rows()) {
      const auto bin = bins->at(row).ValueOrDie();
      ASSERT_EQ(bin->first, row);
      ASSERT_EQ(bins->at(row + bin->batch->num_rows() - 1).ValueOrDie(), bin) << "those who ask share it";
      ASSERT_TRUE(bin->batch->ValidateFull().ok());
      mixed.push_back(bin->batch);
    }
    EXPECT_EQ(std::ssize(mixed), bytes > 0 ? mix.bins() : 1);
    const std::vector<uint32_t> order = mix.order(counts);
    const arrow::UInt32Array places(rows, arrow::Buffer::Wrap(order));
    const auto all = arrow::Table::FromRecordBatches(batches).ValueOrDie()->CombineChunksToBatch().ValueOrDie();
    const auto given = arrow::Table::FromRecordBatches(mixed).ValueOrDie()->CombineChunksToBatch().ValueOrDie();
    for (int column = 0; column < all->num_columns(); ++column) {
      const auto wanted = arrow::compute::Take(*all->column(column), places).ValueOrDie();
      EXPECT_TRUE(given->column(column)->Equals(*wanted)) << all->schema()->field(column)->ToString();
    }
  }
}

}  // namespace
}  // namespace paceline::data
