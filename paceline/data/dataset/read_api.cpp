#include "paceline/data/dataset/read_api.h"

#include <arrow/buffer.h>
#include <arrow/builder.h>
#include <arrow/ipc/writer.h>
#include <arrow/record_batch.h>
#include <arrow/table.h>
#include <arrow/util/base64.h>

#include <filesystem>

#include "paceline/core/error.h"
#include "paceline/data/dataset/shared_internal.h"

namespace paceline::data {
namespace {

// `lines`: whether its rows are lines of text, `typed`: whether these have types.
Dataset read(const char* kind, const Paths& paths, const FileOptions& files, Json options = Json::object(),
             bool lines = false, bool typed = false) {
  if (paths.all().empty()) throw ConfigError(std::string(kind) + "() was given no path; wanted: at least one");
  options["paths"] = paths.all();
  if (files.columns) options["columns"] = *files.columns;
  if (files.file_extensions) options["file_extensions"] = *files.file_extensions;
  if (files.ignore_missing_paths) options["ignore_missing_paths"] = true;
  if (files.include_paths) options["include_paths"] = true;
  const bool is_parquet = std::string_view(kind) == "read_parquet";
  const std::string partitioning = files.partitioning.value_or(is_parquet ? "hive" : "");
  if (!partitioning.empty()) options["partitioning"] = partitioning;
  if (!lines && (files.on_error != "raise" || !files.quarantine.empty())) {
    throw ConfigError(std::string(kind) + "() takes no on_error; readers of CSV, JSON and text files do");
  }
  add_bad_rows(files.on_error, files.quarantine, options);
  if (files.column_types != nullptr) {
    if (!typed) throw ConfigError(std::string(kind) + "() takes no column_types; readers of CSV and JSON files do");
    const auto bytes = value_or_throw(arrow::ipc::SerializeSchema(*files.column_types));
    options["column_types"] = arrow::util::base64_encode(std::string_view(*bytes));
  }
  Dataset dataset(Plan{.kind = kind, .options = std::move(options)});
  if (files.override_num_blocks) dataset = dataset.repartition(*files.override_num_blocks);
  if (!files.shuffle) return dataset;
  if (*files.shuffle != "files") {
    throw ConfigError(std::string(kind) + "()'s shuffle is \"" + *files.shuffle + "\"; allowed: \"files\"");
  }
  return dataset.randomize_file_order({.seed = files.shuffle_seed});
}

}  // namespace

void add_bad_rows(const std::string& on_error, const std::string& quarantine, Json& options) {
  if (on_error != "raise" && on_error != "skip" && on_error != "replace") {
    throw ConfigError("on_error is \"" + on_error + "\"; allowed: \"raise\", \"skip\", \"replace\"");
  }
  if (on_error == "raise") {
    if (quarantine.empty()) return;
    throw ConfigError("a quarantine is for on_error = \"skip\" and \"replace\"");
  }
  options["on_error"] = on_error;
  // Workers may have another current directory.
  if (!quarantine.empty()) options["quarantine"] = std::filesystem::absolute(quarantine).string();
}

Dataset read_parquet(const Paths& paths, const FileOptions& options) {
  return read("read_parquet", paths, options);
}

Dataset read_csv(const Paths& paths, const CsvFileOptions& options) {
  Json json{{"delimiter", std::string(1, options.delimiter)}};
  if (!options.column_names.empty()) json["column_names"] = options.column_names;
  return read("read_csv", paths, options.files, std::move(json), true, true);
}

Dataset read_json(const Paths& paths, const FileOptions& options) {
  return read("read_json", paths, options, Json::object(), true, true);
}

Dataset read_feather(const Paths& paths, const FileOptions& options) {
  return read("read_feather", paths, options);
}

Dataset read_orc(const Paths& paths, const FileOptions& options) {
  return read("read_orc", paths, options);
}

Dataset read_text(const Paths& paths, const FileOptions& options) {
  return read("read_text", paths, options, Json::object(), true);
}

Dataset read_binary_files(const Paths& paths, const FileOptions& options) {
  return read("read_binary_files", paths, options);
}

Dataset read_numpy(const Paths& paths, const FileOptions& options) {
  return read("read_numpy", paths, options);
}

Dataset read_datasource(Datasource datasource, const Json& options) {
  const std::string name = datasource_name(datasource);
  const DatasourceListing listing = value_or_throw(datasource_listing(name, options));
  return Dataset(
      Plan{.kind = "datasource",
           .options = {
               {"name", name}, {"options", options}, {"tasks", listing.tasks}, {"fingerprint", listing.fingerprint}}});
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

template <typename Item>
Dataset from_items(const std::vector<Item>& items) {
  typename arrow::CTypeTraits<Item>::BuilderType builder;
  for (const Item& item : items) throw_if_error(builder.Append(item));
  const std::shared_ptr<arrow::Array> column = value_or_throw(builder.Finish());
  const auto columns = arrow::schema({arrow::field("item", column->type())});
  return from_arrow({arrow::RecordBatch::Make(columns, column->length(), {column})});
}

template Dataset from_items(const std::vector<bool>& items);
template Dataset from_items(const std::vector<int32_t>& items);
template Dataset from_items(const std::vector<int64_t>& items);
template Dataset from_items(const std::vector<float>& items);
template Dataset from_items(const std::vector<double>& items);
template Dataset from_items(const std::vector<std::string>& items);

Dataset range_tensor(int64_t n, const std::vector<int64_t>& shape) {
  if (n < 0) throw ConfigError("range_tensor() is " + std::to_string(n) + "; allowed: a number from 0");
  return Dataset(Plan{.kind = "numbers", .options = {{"rows", n}, {"shape", shape}}});
}

Dataset range(int64_t n) {
  if (n < 0) throw ConfigError("range() is " + std::to_string(n) + "; allowed: a number from 0");
  return Dataset(Plan{.kind = "numbers", .options = {{"rows", n}}});
}

}  // namespace paceline::data
