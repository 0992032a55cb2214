#include "paceline/data/dataset/read_api.h"

#include <arrow/record_batch.h>
#include <arrow/table.h>

#include "paceline/core/error.h"

namespace paceline::data {
namespace {

Dataset read(const char* kind, const Paths& paths, const FileOptions& files, Json options = Json::object()) {
  if (paths.all().empty()) throw ConfigError(std::string(kind) + "() was given no path; wanted: at least one");
  options["paths"] = paths.all();
  if (files.columns) options["columns"] = *files.columns;
  if (files.file_extensions) options["file_extensions"] = *files.file_extensions;
  if (files.ignore_missing_paths) options["ignore_missing_paths"] = true;
  if (files.include_paths) options["include_paths"] = true;
  if (!files.partitioning.empty()) options["partitioning"] = files.partitioning;
  Dataset dataset(Plan{.kind = kind, .options = std::move(options)});
  if (files.override_num_blocks) dataset = dataset.repartition(*files.override_num_blocks);
  if (!files.shuffle) return dataset;
  if (*files.shuffle != "files") {
    throw ConfigError(std::string(kind) + "()'s shuffle is \"" + *files.shuffle + "\"; allowed: \"files\"");
  }
  return dataset.randomize_file_order();
}

}  // namespace

Dataset read_parquet(const Paths& paths, const FileOptions& options) {
  return read("read_parquet", paths, options);
}

Dataset read_csv(const Paths& paths, const CsvFileOptions& options) {
  Json json{{"delimiter", std::string(1, options.delimiter)}};
  if (!options.column_names.empty()) json["column_names"] = options.column_names;
  return read("read_csv", paths, options.files, std::move(json));
}

Dataset read_json(const Paths& paths, const FileOptions& options) {
  return read("read_json", paths, options);
}

Dataset read_feather(const Paths& paths, const FileOptions& options) {
  return read("read_feather", paths, options);
}

Dataset read_orc(const Paths& paths, const FileOptions& options) {
  return read("read_orc", paths, options);
}

Dataset read_text(const Paths& paths, const FileOptions& options) {
  return read("read_text", paths, options);
}

Dataset read_binary_files(const Paths& paths, const FileOptions& options) {
  return read("read_binary_files", paths, options);
}

Dataset read_numpy(const Paths& paths, const FileOptions& options) {
  return read("read_numpy", paths, options);
}

Dataset from_arrow(const std::shared_ptr<arrow::Table>& table) {
  arrow::TableBatchReader reader(*table);
  auto batches = value_or_throw(reader.ToRecordBatches());
  if (batches.empty()) batches.push_back(value_or_throw(arrow::RecordBatch::MakeEmpty(table->schema())));
  return from_arrow(std::move(batches));
}

Dataset from_arrow(std::vector<std::shared_ptr<arrow::RecordBatch>> batches) {
  if (batches.empty())
    throw ConfigError("from_arrow() was given no batch; wanted: at least one, which has the columns");
  return Dataset(Plan{.kind = "rows", .rows = std::move(batches)});
}

Dataset range(int64_t n) {
  if (n < 0) throw ConfigError("range() is " + std::to_string(n) + "; allowed: a number from 0");
  return Dataset(Plan{.kind = "numbers", .options = {{"rows", n}}});
}

}  // namespace paceline::data
