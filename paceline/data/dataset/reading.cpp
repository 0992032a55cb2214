// What Dataset has to read its rows, each call anew.
#include <arrow/io/file.h>
#include <arrow/record_batch.h>
#include <arrow/table.h>
#include <arrow/type.h>
#include <parquet/arrow/writer.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <random>
#include <set>
#include <thread>

#include "paceline/core/error.h"
#include "paceline/data/dataset/shared_internal.h"
#include "paceline/data/reader/statistics_text.h"

namespace paceline::data {
namespace {

void add_paths(const Plan& plan, std::set<std::string>& paths) {
  for (const std::string path : plan.options.value("paths", Json::array())) paths.insert(path);
  for (const auto& input : plan.inputs) add_paths(*input, paths);
}

arrow::Status write_file(const std::shared_ptr<arrow::RecordBatch>& block, const std::filesystem::path& path) {
  ARROW_ASSIGN_OR_RAISE(const auto table, arrow::Table::FromRecordBatches({block}));
  ARROW_ASSIGN_OR_RAISE(const auto file, arrow::io::FileOutputStream::Open(path.string()));
  const auto keep_types = parquet::ArrowWriterProperties::Builder().store_schema()->build();
  ARROW_RETURN_NOT_OK(parquet::arrow::WriteTable(*table, arrow::default_memory_pool(), file,
                                                 std::max<int64_t>(1, table->num_rows()),
                                                 parquet::default_writer_properties(), keep_types));
  return file->Close();
}

}  // namespace

std::shared_ptr<DatasetReader> Dataset::reader() const {
  const std::lock_guard lock(*shared_->mutex);
  if (shared_->reader == nullptr) shared_->reader = local_reader(value_or_throw(open(plan())));
  return shared_->reader;
}

void Dataset::for_each_block(const std::function<bool(const std::shared_ptr<arrow::RecordBatch>&)>& visit,
                             int64_t batch_size) const {
  const auto batches = value_or_throw(reader()->batches(
      {.options = {.batch_size = batch_size}, .threads = std::max(1U, std::thread::hardware_concurrency())}));
  for (auto block = value_or_throw(batches->next()); block != nullptr; block = value_or_throw(batches->next())) {
    if (!visit(block)) return;
  }
}

std::shared_ptr<arrow::Schema> Dataset::schema() const {
  return value_or_throw(reader()->schema());
}

std::vector<std::string> Dataset::columns() const {
  return schema()->field_names();
}

int64_t Dataset::count() const {
  const DatasetFacts facts = value_or_throw(reader()->facts());
  if (facts.counts_rows) return facts.rows;
  int64_t rows = 0;
  for_each_block([&](const auto& block) {
    rows += block->num_rows();
    return true;
  });
  return rows;
}

int64_t Dataset::num_blocks() const {
  return value_or_throw(reader()->facts()).blocks;
}

int64_t Dataset::size_bytes() const {
  return value_or_throw(reader()->facts()).bytes;
}

std::vector<std::string> Dataset::input_files() const {
  std::set<std::string> paths;
  add_paths(plan(), paths);
  return {paths.begin(), paths.end()};
}

std::shared_ptr<arrow::Table> Dataset::take(int64_t limit) const {
  constexpr int64_t kMostAtOnce = 1024;
  arrow::RecordBatchVector blocks;
  int64_t missing = limit;
  if (missing > 0) {
    for_each_block(
        [&](const auto& block) {
          blocks.push_back(block->Slice(0, missing));
          missing -= blocks.back()->num_rows();
          return missing > 0;
        },
        std::min(limit, kMostAtOnce));
  }
  if (blocks.empty()) return value_or_throw(arrow::Table::MakeEmpty(schema()));
  return value_or_throw(arrow::Table::FromRecordBatches(blocks));
}

void Dataset::show(int64_t limit) const {
  std::cout << take(limit)->ToString() << "\n";
}

Dataset Dataset::materialize() const {
  Plan plan{.kind = "rows"};
  for_each_block([&](const auto& block) {
    plan.rows.push_back(block);
    return true;
  });
  if (plan.rows.empty()) plan.rows.push_back(value_or_throw(arrow::RecordBatch::MakeEmpty(schema())));
  return Dataset(std::move(plan));
}

// Names that sort as the blocks stand, and names of their own each time, as files are added to a folder.
void Dataset::write_parquet(const std::string& path) const {
  const std::filesystem::path folder(path);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw StorageError("write_parquet(): the folder " + path + " cannot be made: " + error.message());
  std::random_device device;
  char mark[20];
  std::snprintf(mark, sizeof mark, "%08x%08x", device(), device());
  int64_t number = 0;
  for_each_block([&](const auto& block) {
    char name[64];
    std::snprintf(name, sizeof name, "%s_%06lld.parquet", mark, static_cast<long long>(number++));
    const std::filesystem::path unfinished = folder / ("." + std::string(name));  // readers leave out such names
    throw_if_error(write_file(block, unfinished));
    std::filesystem::rename(unfinished, folder / name);
    return true;
  });
}

std::string Dataset::stats() const {
  return statistics_text(value_or_throw(reader()->statistics()));
}

}  // namespace paceline::data
