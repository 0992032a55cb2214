// For tests of sources: all rows of one, and files to read.
#pragma once

#include <arrow/array.h>
#include <arrow/filesystem/filesystem.h>
#include <arrow/filesystem/localfs.h>
#include <arrow/io/compressed.h>
#include <arrow/io/file.h>
#include <arrow/record_batch.h>
#include <arrow/scalar.h>
#include <arrow/table.h>
#include <arrow/util/compression.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "paceline/data/source/source.h"
#include "paceline/testing/temporary_folder.h"

namespace paceline::data {

/// A folder for files, and the file system that has it.
class FilesTest : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& content) {
    testing::write_file(folder_ / name, content);
    return folder_ / name;
  }

  std::string write_compressed(const std::string& name, arrow::Compression::type type, const std::string& content) {
    const auto codec = arrow::util::Codec::Create(type).ValueOrDie();
    const auto file = arrow::io::FileOutputStream::Open(folder_ / name).ValueOrDie();
    const auto stream = arrow::io::CompressedOutputStream::Make(codec.get(), file).ValueOrDie();
    EXPECT_TRUE(stream->Write(content).ok());
    EXPECT_TRUE(stream->Close().ok());
    return folder_ / name;
  }

  std::vector<arrow::fs::FileInfo> infos(const std::vector<std::string>& paths) {
    return file_system_->GetFileInfo(paths).ValueOrDie();
  }

  testing::TemporaryFolder folder_;
  std::shared_ptr<arrow::fs::FileSystem> file_system_ = std::make_shared<arrow::fs::LocalFileSystem>();
};

/// All rows in the source's order. Checks what read() promises.
inline std::shared_ptr<arrow::Table> all_rows(const Source& source) {
  arrow::RecordBatchVector batches;
  for (size_t chunk = 0; chunk < source.chunks().size(); ++chunk) {
    const auto batch = source.read(static_cast<int64_t>(chunk), 0);
    EXPECT_TRUE(batch.ok()) << batch.status().ToString();
    if (!batch.ok()) continue;
    batches.push_back(*batch);
    EXPECT_TRUE((*batch)->ValidateFull().ok());
    if (source.counts_rows()) {
      EXPECT_EQ((*batch)->num_rows(), source.chunks()[chunk].rows);
    } else {
      EXPECT_GT(source.chunks()[chunk].rows, 0);  // an order leaves out chunks without rows
    }
  }
  return arrow::Table::FromRecordBatches(*source.schema(), batches).ValueOrDie()->CombineChunks().ValueOrDie();
}

/// A column of strings; "(null)" for null.
inline std::vector<std::string> strings_of(const arrow::Table& table, int column = 0) {
  std::vector<std::string> strings;
  for (const auto& chunk : table.column(column)->chunks()) {
    for (int64_t i = 0; i < chunk->length(); ++i) {
      strings.push_back(chunk->IsNull(i) ? "(null)" : chunk->GetScalar(i).ValueOrDie()->ToString());
    }
  }
  return strings;
}

}  // namespace paceline::data
