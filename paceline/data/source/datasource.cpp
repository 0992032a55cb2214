#include "paceline/data/source/datasource.h"

#include <arrow/array/data.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <arrow/util/byte_size.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <string_view>
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

// What is thrown while tasks are listed or read. `whose` is for an error that has no text.
template <typename Call>
auto caught(const std::string& whose, const Call& call) -> decltype(call()) {
  try {
    return call();
  } catch (const Json::exception& error) {
    const std::string_view text = error.what();  // "[json.exception.…] key 'rows' not found"
    return arrow::Status::Invalid(whose, ": its options: ", text.substr(std::min(text.find("] ") + 2, text.size())));
  } catch (const StorageError& error) {
    return arrow::Status::IOError(whose, ": ", error.what());
  } catch (const ConfigError& error) {
    return arrow::Status::Invalid(whose, ": ", error.what());
  } catch (const UsageError& error) {
    return arrow::Status::Invalid(whose, ": ", error.what());
  } catch (const std::exception& error) {
    return arrow::Status::UnknownError(whose, ": ", error.what());
  } catch (...) {
    return arrow::Status::UnknownError(whose, " has thrown what is no std::exception");
  }
}

arrow::Status check_task(const ReadTask& task) {
  if (!task.read) return arrow::Status::Invalid("has no function `read`");
  if (task.num_rows.value_or(0) < 0) return arrow::Status::Invalid("says num_rows ", *task.num_rows);
  if (task.size_bytes.value_or(0) < 0) return arrow::Status::Invalid("says size_bytes ", *task.size_bytes);
  return arrow::Status::OK();
}

struct Listed {
  std::vector<ReadTask> tasks;
  uint64_t fingerprint = 0;
};

arrow::Result<Listed> list_tasks(const std::string& name, const Json& options) {
  const std::string whose = "the datasource " + name;
  return caught(whose, [&]() -> arrow::Result<Listed> {
    Listed listed{.tasks = datasources().find(name)(options),
                  .fingerprint = mix_text(mix_text(3, name), options.dump())};
    for (size_t number = 0; number < listed.tasks.size(); ++number) {
      const ReadTask& task = listed.tasks[number];
      if (const arrow::Status good = check_task(task); !good.ok()) {
        return good.WithMessage("task ", number, " of ", whose, " ", good.message());
      }
      // Which rows are mixed together goes by sizes.
      listed.fingerprint = mix(listed.fingerprint, static_cast<uint64_t>(task.num_rows.value_or(-1)));
      listed.fingerprint = mix(listed.fingerprint, static_cast<uint64_t>(task.size_bytes.value_or(-1)));
    }
    return listed;
  });
}

constexpr int64_t kBytesOfUnknownTask = int64_t{1} << 20;
constexpr int64_t kMostReadForSizes = 8;     // tasks, besides the first one
constexpr double kMostBytesOfTask = 0x1p60;  // whatever it says

class TaskSource : public Source {
 public:
  TaskSource(std::string name, Listed listed) : name_(std::move(name)), listed_(std::move(listed)) {}

  // The first task tells the columns; the first that has rows, how large tasks are that do not say it.
  arrow::Status open() {
    schema_ = arrow::schema({});
    fingerprint_ = listed_.fingerprint;
    if (listed_.tasks.empty()) return arrow::Status::OK();
    ARROW_ASSIGN_OR_RAISE(const auto first, rows_of(0));
    schema_ = first->schema();
    counts_rows_ = std::ranges::all_of(listed_.tasks, [](const ReadTask& task) { return task.num_rows.has_value(); });
    ARROW_ASSIGN_OR_RAISE(const Sample sample, sample_from(*first));
    for (const ReadTask& task : listed_.tasks) {
      chunks_.push_back({.rows = task.num_rows.value_or(1), .bytes = task.size_bytes.value_or(size_by(sample, task))});
      fingerprint_ = mix(fingerprint_, static_cast<uint64_t>(chunks_.back().bytes));
    }
    return arrow::Status::OK();
  }

  arrow::Result<std::shared_ptr<arrow::Schema>> schema() const override { return schema_; }
  const std::vector<ChunkSize>& chunks() const override { return chunks_; }
  bool counts_rows() const override { return counts_rows_; }
  uint64_t fingerprint() const override { return fingerprint_; }

  arrow::Result<std::shared_ptr<arrow::RecordBatch>> read(int64_t chunk, uint64_t) const override {
    ARROW_ASSIGN_OR_RAISE(auto rows, rows_of(chunk));
    if (!rows->schema()->Equals(*schema_)) {
      return arrow::Status::Invalid(whose(chunk), " has given other columns than task 0: ", text_of(*rows->schema()),
                                    "; wanted: ", text_of(*schema_));
    }
    const std::optional<int64_t> count = listed_.tasks[static_cast<size_t>(chunk)].num_rows;
    if (counts_rows_ && rows->num_rows() != *count) {
      return arrow::Status::Invalid(whose(chunk), " has given ", rows->num_rows(), " rows; its num_rows is ", *count);
    }
    return rows;
  }

 private:
  // What is known of the sizes of tasks that do not say theirs.
  struct Sample {
    int64_t rows = 0;
    double bytes_of_row = 0;
  };

  // Of the first task that has rows. Nobody wants to wait until many are read to learn that they have none.
  arrow::Result<Sample> sample_from(const arrow::RecordBatch& first) const {
    ARROW_ASSIGN_OR_RAISE(Sample sample, sample_of(first));
    int64_t reads = 0;
    for (int64_t task = 1; sample.rows == 0 && task < std::ssize(listed_.tasks) && reads < kMostReadForSizes; ++task) {
      const ReadTask& said = listed_.tasks[static_cast<size_t>(task)];
      if (said.num_rows == 0 || said.size_bytes) continue;
      ARROW_ASSIGN_OR_RAISE(const auto rows, rows_of(task));
      ARROW_ASSIGN_OR_RAISE(sample, sample_of(*rows));
      ++reads;
    }
    return sample;
  }

  // The same rows may have bits for nulls once, and none another time, but are to have one size.
  static std::shared_ptr<arrow::ArrayData> without_bits_for_nulls(const arrow::ArrayData& data) {
    auto copy = data.Copy();
    if (!copy->buffers.empty()) copy->buffers[0] = nullptr;
    copy->null_count = 0;
    for (auto& child : copy->child_data) child = without_bits_for_nulls(*child);
    if (copy->dictionary != nullptr) copy->dictionary = without_bits_for_nulls(*copy->dictionary);
    return copy;
  }

  static arrow::Result<Sample> sample_of(const arrow::RecordBatch& rows) {
    if (rows.num_rows() == 0) return Sample();
    int64_t bytes = 0;
    for (const auto& column : rows.column_data()) {
      ARROW_ASSIGN_OR_RAISE(const int64_t more, arrow::util::ReferencedBufferSize(*without_bits_for_nulls(*column)));
      bytes += more;
    }
    return Sample{.rows = rows.num_rows(),
                  .bytes_of_row = static_cast<double>(bytes) / static_cast<double>(rows.num_rows())};
  }

  static int64_t size_by(const Sample& sample, const ReadTask& task) {
    if (task.num_rows == 0) return 0;
    if (sample.rows == 0) return kBytesOfUnknownTask;
    const auto rows = static_cast<double>(task.num_rows.value_or(sample.rows));
    return static_cast<int64_t>(std::ceil(std::min(sample.bytes_of_row * rows, kMostBytesOfTask)));
  }

  std::string whose(int64_t task) const { return "task " + std::to_string(task) + " of the datasource " + name_; }

  static std::string text_of(const arrow::Schema& schema) {
    std::string text;
    for (const auto& field : schema.fields()) text += (text.empty() ? "" : ", ") + field->ToString();
    return text;
  }

  arrow::Result<std::shared_ptr<arrow::RecordBatch>> rows_of(int64_t task) const {
    using Rows = arrow::Result<std::shared_ptr<arrow::RecordBatch>>;
    return caught(whose(task), [&]() -> Rows {
      auto rows = listed_.tasks[static_cast<size_t>(task)].read();
      if (rows == nullptr) return arrow::Status::Invalid(whose(task), " has given no batch");
      const arrow::Status valid = rows->Validate();
      if (!valid.ok()) return valid.WithMessage(whose(task), " has given no valid batch: ", valid.message());
      return rows;
    });
  }

  const std::string name_;
  const Listed listed_;
  std::shared_ptr<arrow::Schema> schema_;
  std::vector<ChunkSize> chunks_;
  uint64_t fingerprint_ = 0;
  bool counts_rows_ = true;
};

}  // namespace

void register_datasource(const std::string& name, Datasource datasource) {
  datasources().add(name, datasource);
}

std::string datasource_name(Datasource datasource) {
  return datasources().name_of(datasource);
}

arrow::Result<DatasourceListing> datasource_listing(const std::string& name, const Json& options) {
  ARROW_ASSIGN_OR_RAISE(const Listed listed, list_tasks(name, options));
  return DatasourceListing{.tasks = std::ssize(listed.tasks), .fingerprint = listed.fingerprint};
}

arrow::Result<std::unique_ptr<Source>> datasource_source(const std::string& name, const Json& options,
                                                         const DatasourceListing& wanted) {
  ARROW_ASSIGN_OR_RAISE(Listed listed, list_tasks(name, options));
  const auto count = std::ssize(listed.tasks);
  if (count != wanted.tasks || listed.fingerprint != wanted.fingerprint) {
    return arrow::Status::Invalid("the datasource ", name,
                                  " lists other tasks here than where read_datasource() was called: ", count,
                                  " of them instead of ", wanted.tasks,
                                  ", or of other numbers of rows or bytes. It may depend on its options alone: the "
                                  "process that reads has not run main(), "
                                  "so give what is set there as options");
  }
  auto source = std::make_unique<TaskSource>(name, std::move(listed));
  ARROW_RETURN_NOT_OK(source->open());
  return source;
}

}  // namespace paceline::data
