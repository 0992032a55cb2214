#include <arrow/buffer.h>
#include <arrow/filesystem/filesystem.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/dictionary.h>
#include <arrow/ipc/reader.h>
#include <arrow/record_batch.h>
#include <arrow/table.h>
#include <arrow/type.h>
#include <arrow/util/base64.h>

#include <algorithm>

#include "paceline/core/json.h"
#include "paceline/data/file/files.h"
#include "paceline/data/format/binary_source.h"
#include "paceline/data/format/feather_source.h"
#include "paceline/data/format/json_source.h"
#include "paceline/data/format/numpy_source.h"
#include "paceline/data/format/orc_source.h"
#include "paceline/data/format/parquet_source.h"
#include "paceline/data/format/partitioning.h"
#include "paceline/data/format/text_source.h"
#include "paceline/data/plan/csv_options_internal.h"
#include "paceline/data/plan/readers_internal.h"
#include "paceline/data/plan/steps_internal.h"
#include "paceline/data/source/datasource.h"
#include "paceline/data/source/plain_tensors.h"
#include "paceline/data/source/range_source.h"

namespace paceline::data {
namespace {

using Opened = arrow::Result<std::shared_ptr<const Source>>;

namespace compute = arrow::compute;

struct Found {
  bool has_place(const std::string& column) const { return places->schema()->GetFieldIndex(column) >= 0; }

  std::shared_ptr<arrow::fs::FileSystem> file_system;
  std::vector<arrow::fs::FileInfo> files;
  PlaceOptions place_options;
  std::shared_ptr<arrow::RecordBatch> places;           // what their places say, a row for each file
  std::optional<std::vector<std::string>> all_columns;  // of files and places; nullopt for all
  std::optional<std::vector<std::string>> columns;      // which of the files' own are read
};

// An option such as `column_types`: a schema as Arrow's IPC format has it, in base64. Without it, no column.
arrow::Result<std::shared_ptr<arrow::Schema>> schema_of(const Plan& plan, const char* option) {
  if (!plan.options.contains(option)) return arrow::schema({});
  ARROW_ASSIGN_OR_RAISE(std::string bytes, arrow::util::base64_decode(plan.options[option].get<std::string>()));
  arrow::io::BufferReader input(arrow::Buffer::FromString(std::move(bytes)));
  arrow::ipc::DictionaryMemo dictionaries;
  return arrow::ipc::ReadSchema(&input, &dictionaries);
}

// What the step says of folders. Options: partitioning, "hive" or "dir"; partition_base_dir, where a path is taken as
// those of the files are; partition_fields, names; partition_types, a schema as `column_types` is.
arrow::Status take_partitioning(const Plan& plan, PlaceOptions& options) {
  const std::string style = plan.options["partitioning"];
  if (style != "hive" && style != "dir") {
    return arrow::Status::Invalid("partitioning is '", style, "'; allowed: 'hive', 'dir'");
  }
  options.folders = style == "hive" ? FolderStyle::hive : FolderStyle::named;
  if (plan.options.contains("partition_base_dir")) {
    ARROW_ASSIGN_OR_RAISE(const Place place, open_location(plan.options["partition_base_dir"].get<std::string>()));
    options.base_dir = place.path;
  }
  options.names = plan.options.value("partition_fields", std::vector<std::string>());
  ARROW_ASSIGN_OR_RAISE(const auto types, schema_of(plan, "partition_types"));
  for (const auto& field : types->fields()) options.types[field->name()] = field->type();
  return arrow::Status::OK();
}

// The files that the step names. Options: paths; file_extensions, by default `usual`; ignore_missing_paths; columns;
// partitioning or absent; include_paths.
arrow::Result<Found> files_of(const Plan& plan, std::vector<std::string> usual) {
  Found found;
  std::vector<std::string> paths;
  for (const std::string path : plan.options.at("paths")) {
    ARROW_ASSIGN_OR_RAISE(const Place place, open_location(path));
    if (found.file_system == nullptr) found.file_system = place.file_system;
    if (!found.file_system->Equals(place.file_system)) {
      return arrow::Status::Invalid(
          "the paths of one dataset are in two file systems: ", plan.options["paths"].front().get<std::string>(),
          " and ", path, "; read each, and put them together with union()");
    }
    paths.push_back(place.path);
  }
  if (paths.empty()) return arrow::Status::Invalid("no path was given");
  ListOptions options{.file_extensions = plan.options.value("file_extensions", std::move(usual)),
                      .ignore_missing_paths = plan.options.value("ignore_missing_paths", false)};
  ARROW_ASSIGN_OR_RAISE(found.files, list_files(*found.file_system, paths, options));
  if (plan.options.contains("partitioning")) {
    ARROW_RETURN_NOT_OK(take_partitioning(plan, found.place_options));
  }
  found.place_options.include_paths = plan.options.value("include_paths", false);
  ARROW_ASSIGN_OR_RAISE(found.places, columns_of_places(found.files, found.place_options));
  if (plan.options.contains("columns")) {
    found.all_columns = plan.options["columns"].get<std::vector<std::string>>();
    found.columns = found.all_columns;
    std::erase_if(*found.columns, [&](const std::string& name) { return found.has_place(name); });
    // Where places say all that is wanted, files are read for the number of their rows; not every format can do that
    // without columns.
    if (found.columns->empty() && !found.all_columns->empty()) found.columns.reset();
  }
  return found;
}

Opened with_places(const Found& found, arrow::Result<std::unique_ptr<Source>> source) {
  ARROW_RETURN_NOT_OK(source);
  ARROW_ASSIGN_OR_RAISE(const auto schema, (*source)->schema());
  for (const std::string& name : schema->field_names()) {
    if (is_utf8(name)) continue;
    return arrow::Status::Invalid("a column of ", found.files.front().path(),
                                  ", or of a file read with it, is called '", name,
                                  "', which is not UTF-8; is the file damaged?");
  }
  ARROW_ASSIGN_OR_RAISE(auto whole, with_columns_of_places(*std::move(source), found.places, found.all_columns));
  return with_plain_tensors(std::move(whole));
}

// Leaves out the files none of whose rows can pass the filter, by what their places say. One stays, for its columns.
// Gives what of the filter is to be told by the files themselves.
arrow::Result<std::optional<compute::Expression>> leave_out_files(const compute::Expression& filter, Found& found) {
  std::vector<compute::Expression> of_places, of_files;
  for (const compute::Expression& condition : conjuncts(filter)) {
    const auto columns = columns_of(condition);
    const auto is_place = [&](const std::string& name) { return found.has_place(name); };
    if (!columns || std::ranges::none_of(*columns, is_place)) {
      of_files.push_back(condition);
    } else if (std::ranges::all_of(*columns, is_place)) {
      of_places.push_back(condition);
    }
  }
  if (!of_places.empty()) {
    ARROW_ASSIGN_OR_RAISE(auto passed, places_that_pass(*found.places, compute::and_(of_places)));
    if (passed.empty()) passed.push_back(0);
    std::vector<arrow::fs::FileInfo> files;
    arrow::RecordBatchVector places;
    for (const size_t file : passed) {
      files.push_back(found.files[file]);
      places.push_back(found.places->Slice(static_cast<int64_t>(file), 1));
    }
    found.files = std::move(files);
    ARROW_ASSIGN_OR_RAISE(const auto table, arrow::Table::FromRecordBatches(places));
    ARROW_ASSIGN_OR_RAISE(found.places, table->CombineChunksToBatch());
  }
  return of_files.empty() ? std::nullopt : std::optional(compute::and_(of_files));
}

std::vector<std::string> with_compression(const std::string& extension) {
  return {extension, extension + ".gz", extension + ".zst", extension + ".bz2", extension + ".lz4"};
}

Opened read_parquet(const Plan& plan) {
  ARROW_ASSIGN_OR_RAISE(Found found, files_of(plan, {"parquet"}));
  ParquetOptions options{.columns = found.columns};
  options.bytes_of_chunk = plan.options.value("block_bytes", options.bytes_of_chunk);
  if (plan.options.contains("filter")) {
    ARROW_ASSIGN_OR_RAISE(const compute::Expression filter, expression_of(plan.options["filter"]));
    ARROW_ASSIGN_OR_RAISE(options.filter, leave_out_files(filter, found));
  }
  return with_places(found, parquet_source(found.file_system, found.files, options));
}

Opened read_csv(const Plan& plan) {
  ARROW_ASSIGN_OR_RAISE(const Found found, files_of(plan, with_compression("csv")));
  ARROW_ASSIGN_OR_RAISE(CsvOptions options, csv_options_of(plan.options));
  if (found.columns) options.convert.include_columns = *found.columns;
  ARROW_ASSIGN_OR_RAISE(options.bad_rows, bad_rows_of(plan.options));
  ARROW_ASSIGN_OR_RAISE(const auto types, schema_of(plan, "column_types"));
  for (const auto& field : types->fields()) options.convert.column_types[field->name()] = field->type();
  return with_places(found, csv_source(found.file_system, found.files, options));
}

Opened read_json(const Plan& plan) {
  std::vector<std::string> usual = with_compression("json");
  std::ranges::copy(with_compression("jsonl"), std::back_inserter(usual));
  ARROW_ASSIGN_OR_RAISE(const Found found, files_of(plan, std::move(usual)));
  JsonOptions options;
  ARROW_ASSIGN_OR_RAISE(options.bad_rows, bad_rows_of(plan.options));
  ARROW_ASSIGN_OR_RAISE(const auto types, schema_of(plan, "column_types"));
  if (types->num_fields() > 0) options.column_types = types;
  return with_places(found, json_source(found.file_system, found.files, options));
}

Opened read_feather(const Plan& plan) {
  ARROW_ASSIGN_OR_RAISE(const Found found, files_of(plan, {"feather", "arrow", "ipc"}));
  return with_places(found, feather_source(found.file_system, found.files, {.columns = found.columns}));
}

Opened read_orc(const Plan& plan) {
  ARROW_ASSIGN_OR_RAISE(const Found found, files_of(plan, {"orc"}));
  return with_places(found, orc_source(found.file_system, found.files, {.columns = found.columns}));
}

Opened read_text(const Plan& plan) {
  ARROW_ASSIGN_OR_RAISE(const Found found, files_of(plan, {}));
  TextOptions options{.drop_empty_lines = plan.options.value("drop_empty_lines", true)};
  ARROW_ASSIGN_OR_RAISE(options.bad_rows, bad_rows_of(plan.options));
  return with_places(found, text_source(found.file_system, found.files, options));
}

Opened read_binary_files(const Plan& plan) {
  ARROW_ASSIGN_OR_RAISE(const Found found, files_of(plan, {}));
  BinaryOptions options{.include_paths = found.place_options.include_paths};
  if (found.place_options.folders == FolderStyle::none) {
    return binary_source(found.file_system, found.files, options);
  }
  options.chunk_bytes = 0;  // a file each: a chunk of several would be in several folders
  ARROW_ASSIGN_OR_RAISE(auto source, binary_source(found.file_system, found.files, options));
  PlaceOptions places = found.place_options;
  places.include_paths = false;  // the source has them
  ARROW_ASSIGN_OR_RAISE(auto folders, columns_of_places(found.files, places));
  return with_columns_of_places(std::move(source), std::move(folders), found.all_columns);
}

Opened read_numpy(const Plan& plan) {
  ARROW_ASSIGN_OR_RAISE(const Found found, files_of(plan, {"npy"}));
  return with_places(found, numpy_source(found.file_system, found.files));
}

Opened range(const Plan& plan) {
  std::optional<std::vector<int64_t>> shape;
  if (plan.options.contains("shape")) shape = plan.options["shape"].get<std::vector<int64_t>>();
  return range_source(plan.options.at("rows"), shape);
}

Opened rows_in_memory(const Plan& plan) {
  if (plan.rows.empty()) return arrow::Status::Invalid("a dataset needs at least the columns of its rows");
  ARROW_ASSIGN_OR_RAISE(auto source, memory_source(plan.rows.front()->schema(), plan.rows));
  return with_plain_tensors(std::move(source));
}

Opened own_source(const Plan& plan) {
  if (plan.source == nullptr) return arrow::Status::Invalid("the plan has no source");
  return plan.source;
}

// Options: name, of a function that is registered; options, which it gets.
Opened datasource(const Plan& plan) {
  return datasource_source(plan.options.at("name"), plan.options.at("options"),
                           {.tasks = plan.options.at("tasks"), .fingerprint = plan.options.at("fingerprint")});
}

constexpr Reader kReaders[] = {
    {"read_parquet", "ReadParquet", read_parquet, true, true, true},
    {"read_csv", "ReadCSV", read_csv, true},
    {"read_json", "ReadJSON", read_json},
    {"read_feather", "ReadFeather", read_feather, true},
    {"read_orc", "ReadORC", read_orc, true},
    {"read_text", "ReadText", read_text},
    {"read_binary_files", "ReadBinaryFiles", read_binary_files},
    {"read_numpy", "ReadNumpy", read_numpy},
    {"numbers", "Range", range},
    {"rows", "Rows", rows_in_memory},
    {"source", "Read", own_source},
    {"datasource", "ReadDatasource", datasource},
};

}  // namespace

std::span<const Reader> readers() {
  return kReaders;
}

}  // namespace paceline::data
