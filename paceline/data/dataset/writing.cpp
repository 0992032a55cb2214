// What Dataset has to write its rows: a file for each block, in a folder.
#include <arrow/csv/writer.h>
#include <arrow/filesystem/filesystem.h>
#include <arrow/io/memory.h>
#include <arrow/record_batch.h>
#include <arrow/table.h>
#include <arrow/type_traits.h>
#include <parquet/arrow/writer.h>

#include <cstdio>
#include <random>

#include "paceline/core/error.h"
#include "paceline/data/dataset/block_texts_internal.h"
#include "paceline/data/dataset/shared_internal.h"
#include "paceline/data/file/files.h"
#include "paceline/storage/location.h"

namespace paceline::data {
namespace {

using Block = std::shared_ptr<arrow::RecordBatch>;
using WriteBlock = std::function<arrow::Status(const Block&, const std::shared_ptr<arrow::io::OutputStream>&)>;

// Where a file appears when its stream is closed, and a rename is a copy.
bool is_store(const arrow::fs::FileSystem& file_system) {
  const std::string type = file_system.type_name();
  return type == "s3" || type == "gcs" || type == "abfs";
}

// The files of one call: none stays unless all are there.
class Files {
 public:
  Files(std::string location, std::string ending) : location_(std::move(location)), ending_(std::move(ending)) {
    std::random_device device;
    char mark[20];
    std::snprintf(mark, sizeof mark, "%08x%08x", device(), device());
    mark_ = mark;
  }
  ~Files() {
    for (const std::string& path : written_) (void)place_.file_system->DeleteFile(path);  // one stays that cannot go
  }

  arrow::Status open() {
    ARROW_ASSIGN_OR_RAISE(place_, open_location(location_));
    // In a store a file and what is below its name may be there both.
    if (!is_store(*place_.file_system)) {
      ARROW_ASSIGN_OR_RAISE(const auto there, place_.file_system->GetFileInfo(place_.path));
      if (there.IsFile()) return arrow::Status::IOError("this is a file; wanted: a folder, new or not, for the files");
    }
    return place_.file_system->CreateDir(place_.path, true);
  }

  // Names that sort as the blocks stand, and names of their own each time, as files are added to a folder.
  arrow::Status add(const Block& block, const WriteBlock& write) {
    char number[24];
    std::snprintf(number, sizeof number, "_%06zu.", written_.size());
    const std::string name = mark_ + number + ending_;
    auto& file_system = *place_.file_system;
    written_.push_back(place_.path + "/" + name);
    if (is_store(file_system)) {
      // A stream that has failed would publish a part when it ends.
      ARROW_ASSIGN_OR_RAISE(const auto held, arrow::io::BufferOutputStream::Create());
      ARROW_RETURN_NOT_OK(write(block, held));
      ARROW_ASSIGN_OR_RAISE(const auto bytes, held->Finish());
      ARROW_ASSIGN_OR_RAISE(const auto stream, file_system.OpenOutputStream(written_.back()));
      ARROW_RETURN_NOT_OK(stream->Write(bytes));
      return stream->Close();
    }
    const std::string unfinished = place_.path + "/." + name;  // readers leave out such names
    arrow::Status status = write_to(unfinished, block, write);
    if (status.ok()) status = file_system.Move(unfinished, written_.back());
    if (!status.ok()) (void)file_system.DeleteFile(unfinished);
    return status;
  }

  void keep() { written_.clear(); }

 private:
  arrow::Status write_to(const std::string& path, const Block& block, const WriteBlock& write) const {
    ARROW_ASSIGN_OR_RAISE(const auto stream, place_.file_system->OpenOutputStream(path));
    ARROW_RETURN_NOT_OK(write(block, stream));
    return stream->Close();
  }

  const std::string location_;
  const std::string ending_;
  std::string mark_;
  Place place_;
  std::vector<std::string> written_;
};

// Runs a call of the user's; its error names call and folder, without keys.
void check(const char* call, const std::string& path, const arrow::Status& status) {
  if (status.ok()) return;
  const storage::Location location(path);
  throw_if_error(status.WithMessage(call, "(\"", location.text(), "\"): ", location.redacted(status.message())));
}

arrow::Status write_parquet_file(const Block& block, const std::shared_ptr<arrow::io::OutputStream>& stream) {
  ARROW_ASSIGN_OR_RAISE(const auto table, arrow::Table::FromRecordBatches({block}));
  const auto keep_types = parquet::ArrowWriterProperties::Builder().store_schema()->build();
  return parquet::arrow::WriteTable(*table, arrow::default_memory_pool(), stream, table->num_rows(),
                                    parquet::default_writer_properties(), keep_types);
}

arrow::Status write_csv_file(const Block& block, const std::shared_ptr<arrow::io::OutputStream>& stream) {
  return arrow::csv::WriteCSV(*block, arrow::csv::WriteOptions::Defaults(), stream.get());
}

arrow::Status write_json_file(const Block& block, const std::shared_ptr<arrow::io::OutputStream>& stream) {
  ARROW_ASSIGN_OR_RAISE(const std::string lines, json_lines(*block));
  return stream->Write(lines);
}

}  // namespace

void Dataset::write_files(
    const char* call, const std::string& path, const char* ending,
    const std::function<arrow::Status(const std::shared_ptr<arrow::RecordBatch>&,
                                      const std::shared_ptr<arrow::io::OutputStream>&)>& write) const {
  Files files(path, ending);
  check(call, path, files.open());
  for_each_block([&](const Block& block) {
    if (block->num_rows() > 0) check(call, path, files.add(block, write));
    return true;
  });
  files.keep();
}

void Dataset::write_datasink(Datasink& sink) const {
  const auto columns = schema();
  try {
    sink.on_write_start(*columns);
    for_each_block([&](const Block& block) {
      if (block->num_rows() > 0) sink.write(block);
      return true;
    });
    sink.on_write_complete();
  } catch (...) {
    sink.on_write_failed();
    throw;
  }
}

void Dataset::write_parquet(const std::string& path) const {
  write_files("write_parquet", path, "parquet", write_parquet_file);
}

void Dataset::write_csv(const std::string& path) const {
  std::string nested;
  for (const auto& field : schema()->fields()) {
    if (!arrow::is_nested(field->type()->id()) && field->type()->id() != arrow::Type::EXTENSION) continue;
    nested += (nested.empty() ? "" : ", ") + field->name() + " (" + field->type()->ToString() + ")";
  }
  if (!nested.empty()) {
    throw ConfigError("write_csv(): CSV files cannot hold these columns: " + nested +
                      "; leave them out with drop_columns(), or use write_parquet()");
  }
  write_files("write_csv", path, "csv", write_csv_file);
}

void Dataset::write_json(const std::string& path) const {
  write_files("write_json", path, "json", write_json_file);
}

void Dataset::write_numpy(const std::string& path, const std::string& column) const {
  select_columns({column}).write_files("write_numpy", path, "npy", [](const Block& block, const auto& stream) {
    ARROW_ASSIGN_OR_RAISE(const std::string header, numpy_header(*block->column(0)));
    ARROW_RETURN_NOT_OK(stream->Write(header));
    ARROW_ASSIGN_OR_RAISE(const auto numbers, numpy_numbers(*block->column(0)));
    return stream->Write(numbers);
  });
}

}  // namespace paceline::data
