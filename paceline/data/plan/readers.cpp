#include <arrow/filesystem/filesystem.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <algorithm>

#include "paceline/data/plan/readers_internal.h"
#include "paceline/data/source/binary_source.h"
#include "paceline/data/source/csv_source.h"
#include "paceline/data/source/feather_source.h"
#include "paceline/data/source/files.h"
#include "paceline/data/source/json_source.h"
#include "paceline/data/source/numpy_source.h"
#include "paceline/data/source/orc_source.h"
#include "paceline/data/source/parquet_source.h"
#include "paceline/data/source/range_source.h"
#include "paceline/data/source/text_source.h"

namespace paceline::data {
namespace {

using Opened = arrow::Result<std::shared_ptr<const Source>>;

struct Found {
  std::shared_ptr<arrow::fs::FileSystem> file_system;
  std::vector<arrow::fs::FileInfo> files;
};

// The files that the step names. Options: paths; file_extensions, by default `usual`; ignore_missing_paths.
arrow::Result<Found> files_of(const Plan& plan, std::vector<std::string> usual) {
  Found found;
  std::vector<std::string> paths;
  for (const std::string path : plan.options.at("paths")) {
    ARROW_ASSIGN_OR_RAISE(const Place place, open_location(path));
    if (found.file_system == nullptr) found.file_system = place.file_system;
    if (!found.file_system->Equals(place.file_system)) {
      return arrow::Status::Invalid(
          "the paths of one data set are in two file systems: ", plan.options["paths"].front(), " and ", path,
          "; read each, and put them together with union()");
    }
    paths.push_back(place.path);
  }
  if (paths.empty()) return arrow::Status::Invalid("no path was given");
  ListOptions options{.file_extensions = plan.options.value("file_extensions", std::move(usual)),
                      .ignore_missing_paths = plan.options.value("ignore_missing_paths", false)};
  ARROW_ASSIGN_OR_RAISE(found.files, list_files(*found.file_system, paths, options));
  return found;
}

std::vector<std::string> with_compression(const std::string& extension) {
  return {extension, extension + ".gz", extension + ".zst", extension + ".bz2", extension + ".lz4"};
}

Opened read_parquet(const Plan& plan) {
  ARROW_ASSIGN_OR_RAISE(const Found found, files_of(plan, {"parquet"}));
  ParquetOptions options;
  if (plan.options.contains("columns")) options.columns = plan.options["columns"].get<std::vector<std::string>>();
  return parquet_source(found.file_system, found.files, options);
}

Opened read_csv(const Plan& plan) {
  ARROW_ASSIGN_OR_RAISE(const Found found, files_of(plan, with_compression("csv")));
  CsvOptions options;
  const std::string delimiter = plan.options.value("delimiter", std::string(","));
  if (delimiter.size() != 1) return arrow::Status::Invalid("the delimiter is '", delimiter, "'; wanted: one character");
  options.parse.delimiter = delimiter.front();
  options.read.column_names = plan.options.value("column_names", std::vector<std::string>());
  if (plan.options.contains("columns")) {
    options.convert.include_columns = plan.options["columns"].get<std::vector<std::string>>();
  }
  return csv_source(found.file_system, found.files, options);
}

Opened read_json(const Plan& plan) {
  std::vector<std::string> usual = with_compression("json");
  std::ranges::copy(with_compression("jsonl"), std::back_inserter(usual));
  ARROW_ASSIGN_OR_RAISE(const Found found, files_of(plan, std::move(usual)));
  return json_source(found.file_system, found.files);
}

Opened read_feather(const Plan& plan) {
  ARROW_ASSIGN_OR_RAISE(const Found found, files_of(plan, {"feather", "arrow", "ipc"}));
  FeatherOptions options;
  if (plan.options.contains("columns")) options.columns = plan.options["columns"].get<std::vector<std::string>>();
  return feather_source(found.file_system, found.files, options);
}

Opened read_orc(const Plan& plan) {
  ARROW_ASSIGN_OR_RAISE(const Found found, files_of(plan, {"orc"}));
  OrcOptions options;
  if (plan.options.contains("columns")) options.columns = plan.options["columns"].get<std::vector<std::string>>();
  return orc_source(found.file_system, found.files, options);
}

Opened read_text(const Plan& plan) {
  ARROW_ASSIGN_OR_RAISE(const Found found, files_of(plan, {}));
  return text_source(found.file_system, found.files,
                     {.drop_empty_lines = plan.options.value("drop_empty_lines", true)});
}

Opened read_binary_files(const Plan& plan) {
  ARROW_ASSIGN_OR_RAISE(const Found found, files_of(plan, {}));
  return binary_source(found.file_system, found.files, {.include_paths = plan.options.value("include_paths", false)});
}

Opened read_numpy(const Plan& plan) {
  ARROW_ASSIGN_OR_RAISE(const Found found, files_of(plan, {"npy"}));
  return numpy_source(found.file_system, found.files);
}

Opened range(const Plan& plan) {
  std::optional<std::vector<int64_t>> shape;
  if (plan.options.contains("shape")) shape = plan.options["shape"].get<std::vector<int64_t>>();
  return range_source(plan.options.at("rows"), shape);
}

Opened rows_in_memory(const Plan& plan) {
  if (plan.rows.empty()) return arrow::Status::Invalid("a data set needs at least the columns of its rows");
  return memory_source(plan.rows.front()->schema(), plan.rows);
}

constexpr Reader kReaders[] = {
    {"read_parquet", "ReadParquet", read_parquet},
    {"read_csv", "ReadCSV", read_csv},
    {"read_json", "ReadJSON", read_json},
    {"read_feather", "ReadFeather", read_feather},
    {"read_orc", "ReadORC", read_orc},
    {"read_text", "ReadText", read_text},
    {"read_binary_files", "ReadBinaryFiles", read_binary_files},
    {"read_numpy", "ReadNumpy", read_numpy},
    {"numbers", "Range", range},
    {"rows", "Rows", rows_in_memory},
};

}  // namespace

std::span<const Reader> readers() {
  return kReaders;
}

}  // namespace paceline::data
