#include "paceline/data/source/datasource.h"

#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "paceline/core/error.h"
#include "paceline/core/registry.h"
#include "paceline/data/order/permutation.h"

namespace paceline::data {
namespace {

Registry<Datasource>& datasources() {
  static Registry<Datasource> registry(
      {"datasource", "the function given to read_datasource()", "PACELINE_DATASOURCE"});
  return registry;
}

class TaskSource : public Source {
 public:
  TaskSource(std::string name, const Json& options, std::vector<ReadTask> tasks)
      : name_(std::move(name)), tasks_(std::move(tasks)), fingerprint_(mix_text(mix_text(3, name_), options.dump())) {
    counts_rows_ = std::ranges::all_of(tasks_, [](const ReadTask& task) { return task.num_rows.has_value(); });
    for (const ReadTask& task : tasks_) {
      chunks_.push_back({.rows = task.num_rows.value_or(1), .bytes = task.size_bytes});
      fingerprint_ = mix(fingerprint_, static_cast<uint64_t>(task.num_rows.value_or(-1)));
    }
  }

  arrow::Result<std::shared_ptr<arrow::Schema>> schema() const override {
    if (tasks_.empty()) return arrow::schema({});
    ARROW_ASSIGN_OR_RAISE(const auto rows, read(0, 0));
    return rows->schema();
  }
  const std::vector<ChunkSize>& chunks() const override { return chunks_; }
  bool counts_rows() const override { return counts_rows_; }
  uint64_t fingerprint() const override { return fingerprint_; }

  arrow::Result<std::shared_ptr<arrow::RecordBatch>> read(int64_t chunk, uint64_t) const override {
    try {
      auto rows = tasks_[static_cast<size_t>(chunk)].read();
      if (rows != nullptr) return rows;
      return arrow::Status::Invalid("task ", chunk, " of the datasource ", name_, " has given no batch");
    } catch (const std::exception& error) {
      return arrow::Status::Invalid("task ", chunk, " of the datasource ", name_, ": ", error.what());
    }
  }

 private:
  const std::string name_;
  const std::vector<ReadTask> tasks_;
  std::vector<ChunkSize> chunks_;
  bool counts_rows_ = false;
  uint64_t fingerprint_ = 0;
};

}  // namespace

void register_datasource(const std::string& name, Datasource datasource) {
  datasources().add(name, datasource);
}

std::string datasource_name(Datasource datasource) {
  return datasources().name_of(datasource);
}

arrow::Result<std::unique_ptr<Source>> datasource_source(const std::string& name, const Json& options) {
  try {
    std::vector<ReadTask> tasks = datasources().find(name)(options);
    return std::make_unique<TaskSource>(name, options, std::move(tasks));
  } catch (const std::exception& error) {
    return arrow::Status::Invalid("the datasource ", name, ": ", error.what());
  }
}

}  // namespace paceline::data
