#include "paceline/data/source/partitioning.h"

#include <arrow/array.h>
#include <arrow/filesystem/filesystem.h>
#include <arrow/record_batch.h>
#include <arrow/scalar.h>
#include <arrow/type.h>
#include <arrow/util/uri.h>
#include <arrow/util/utf8.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>

#include "paceline/data/order/permutation.h"

namespace paceline::data {
namespace {

constexpr const char* kPathColumn = "path";
constexpr const char* kNullFolder = "__HIVE_DEFAULT_PARTITION__";

std::optional<int64_t> whole_number(const std::string& text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  // "007" stays text: the number would not say what the folder was called.
  return std::to_string(number) == text ? std::optional(number) : std::nullopt;
}

// Bytes that belong to no character are replaced, each by one.
std::string as_utf8(const std::string& text) {
  arrow::util::InitializeUTF8();
  const auto is_utf8 = [](const char* begin, size_t size) {
    return arrow::util::ValidateUTF8(reinterpret_cast<const uint8_t*>(begin), static_cast<int64_t>(size));
  };
  if (is_utf8(text.data(), text.size())) return text;
  std::string fixed;
  for (size_t i = 0; i < text.size();) {
    size_t size = 1;
    while (size <= 4 && i + size <= text.size() && !is_utf8(text.data() + i, size)) ++size;
    if (size > 4 || i + size > text.size()) {
      fixed += "\xEF\xBF\xBD";
      ++i;
    } else {
      fixed += text.substr(i, size);
      i += size;
    }
  }
  return fixed;
}

// A column, and its value in each file.
struct FileConstant {
  std::shared_ptr<arrow::Field> field;
  std::vector<std::shared_ptr<arrow::Scalar>> values;
};

FileConstant constant_of(const std::string& key, const std::vector<std::optional<std::string>>& texts) {
  const bool are_numbers =
      std::ranges::all_of(texts, [](const auto& text) { return !text || whole_number(*text).has_value(); }) &&
      std::ranges::any_of(texts, [](const auto& text) { return text.has_value(); });
  FileConstant constant{.field = arrow::field(key, are_numbers ? arrow::int64() : arrow::utf8())};
  for (const auto& text : texts) {
    if (!text) {
      constant.values.push_back(arrow::MakeNullScalar(constant.field->type()));
    } else if (are_numbers) {
      constant.values.push_back(std::make_shared<arrow::Int64Scalar>(*whole_number(*text)));
    } else {
      constant.values.push_back(std::make_shared<arrow::StringScalar>(as_utf8(*text)));
    }
  }
  return constant;
}

std::vector<FileConstant> hive_constants(const std::vector<arrow::fs::FileInfo>& files) {
  std::vector<std::string> keys;  // as they appear
  std::map<std::string, std::vector<std::optional<std::string>>> texts;
  for (size_t file = 0; file < files.size(); ++file) {
    for (auto& [key, value] : hive_values(files[file].path())) {
      auto& values = texts[key];
      if (values.empty()) {
        keys.push_back(key);
        values.resize(files.size());
      }
      if (value != kNullFolder) values[file] = std::move(value);
    }
  }
  std::vector<FileConstant> constants;
  for (const std::string& key : keys) constants.push_back(constant_of(key, texts.at(key)));
  return constants;
}

class WithFileColumns : public Source {
 public:
  WithFileColumns(std::unique_ptr<Source> source, std::vector<FileConstant> constants)
      : source_(std::move(source)), constants_(std::move(constants)), chunks_(source_->chunks()) {}

  arrow::Status open(const std::optional<std::vector<std::string>>& columns) {
    ARROW_ASSIGN_OR_RAISE(const auto inner, source_->schema());
    fingerprint_ = source_->fingerprint();
    std::vector<std::string> names = inner->field_names();
    for (const FileConstant& constant : constants_) {
      if (inner->GetFieldIndex(constant.field->name()) < 0) names.push_back(constant.field->name());
      for (const auto& value : constant.values) fingerprint_ = mix_text(fingerprint_, value->ToString());
      for (ChunkSize& chunk : chunks_) {
        chunk.bytes += chunk.rows * bytes_of(*constant.values[static_cast<size_t>(chunk.file)]);
      }
    }
    arrow::FieldVector fields;
    for (const std::string& name : columns.value_or(names)) {
      const auto constant =
          std::ranges::find(constants_, name, [](const FileConstant& known) { return known.field->name(); });
      const bool is_constant = constant != constants_.end();
      const int place = is_constant ? static_cast<int>(constant - constants_.begin()) : inner->GetFieldIndex(name);
      if (place < 0) return arrow::Status::Invalid("no file has a column '", name, "', and no folder says it");
      fields.push_back(is_constant ? constant->field : inner->field(place));
      columns_.push_back({.is_constant = is_constant, .place = place});
    }
    schema_ = arrow::schema(std::move(fields), inner->metadata());
    fingerprint_ = mix_text(fingerprint_, schema_->ToString());
    return arrow::Status::OK();
  }

  arrow::Result<std::shared_ptr<arrow::Schema>> schema() const override { return schema_; }
  const std::vector<ChunkSize>& chunks() const override { return chunks_; }
  bool counts_rows() const override { return source_->counts_rows(); }
  uint64_t fingerprint() const override { return fingerprint_; }

  arrow::Result<std::shared_ptr<arrow::RecordBatch>> read(int64_t chunk, uint64_t key) const override {
    ARROW_ASSIGN_OR_RAISE(const auto batch, source_->read(chunk, key));
    const auto file = static_cast<size_t>(chunks_[static_cast<size_t>(chunk)].file);
    arrow::ArrayVector arrays;
    for (const OutColumn& column : columns_) {
      if (!column.is_constant) {
        arrays.push_back(batch->column(column.place));
        continue;
      }
      const auto& value = constants_[static_cast<size_t>(column.place)].values[file];
      ARROW_ASSIGN_OR_RAISE(auto array, arrow::MakeArrayFromScalar(*value, batch->num_rows()));
      arrays.push_back(std::move(array));
    }
    return arrow::RecordBatch::Make(schema_, batch->num_rows(), std::move(arrays));
  }

 private:
  struct OutColumn {
    bool is_constant = false;
    int place = 0;  // among the constants, or in the batches of the source
  };

  static int64_t bytes_of(const arrow::Scalar& value) {
    if (value.type->id() != arrow::Type::STRING) return sizeof(int64_t);
    const auto& text = static_cast<const arrow::StringScalar&>(value);
    return static_cast<int64_t>(sizeof(int32_t)) + (text.is_valid ? text.value->size() : 0);
  }

  const std::unique_ptr<Source> source_;
  const std::vector<FileConstant> constants_;
  std::vector<ChunkSize> chunks_;
  std::vector<OutColumn> columns_;
  std::shared_ptr<arrow::Schema> schema_;
  uint64_t fingerprint_ = 0;
};

}  // namespace

std::vector<std::pair<std::string, std::string>> hive_values(const std::string& path) {
  std::vector<std::pair<std::string, std::string>> values;
  size_t from = 0;
  for (size_t end = path.find('/'); end != std::string::npos; from = end + 1, end = path.find('/', from)) {
    const std::string folder = path.substr(from, end - from);
    const size_t equals = folder.find('=');
    if (equals == std::string::npos || equals == 0) continue;
    values.emplace_back(arrow::util::UriUnescape(folder.substr(0, equals)),
                        arrow::util::UriUnescape(folder.substr(equals + 1)));
  }
  return values;
}

std::vector<std::string> columns_in_files(const std::vector<arrow::fs::FileInfo>& files, const FileColumns& columns) {
  std::vector<std::string> names = columns.columns.value_or(std::vector<std::string>());
  if (columns.include_paths) std::erase(names, kPathColumn);
  for (size_t file = 0; columns.hive && file < files.size(); ++file) {
    for (const auto& [key, value] : hive_values(files[file].path())) std::erase(names, key);
  }
  return names;
}

arrow::Result<std::unique_ptr<Source>> with_file_columns(std::unique_ptr<Source> source,
                                                         const std::vector<arrow::fs::FileInfo>& files,
                                                         const FileColumns& columns) {
  std::vector<FileConstant> constants;
  if (columns.hive) constants = hive_constants(files);
  if (columns.include_paths) {
    ARROW_ASSIGN_OR_RAISE(const auto schema, source->schema());
    if (schema->GetFieldIndex(kPathColumn) >= 0 ||
        std::ranges::any_of(constants, [](const FileConstant& known) { return known.field->name() == kPathColumn; })) {
      return arrow::Status::Invalid("include_paths adds the column 'path', but ", files.front().path(),
                                    " has one already; rename it, or leave it out by `columns`");
    }
    FileConstant paths{.field = arrow::field(kPathColumn, arrow::utf8(), /*nullable=*/false)};
    for (const auto& file : files) paths.values.push_back(std::make_shared<arrow::StringScalar>(as_utf8(file.path())));
    constants.push_back(std::move(paths));
  }
  if (constants.empty()) return source;
  auto with_columns = std::make_unique<WithFileColumns>(std::move(source), std::move(constants));
  ARROW_RETURN_NOT_OK(with_columns->open(columns.columns));
  return with_columns;
}

}  // namespace paceline::data
