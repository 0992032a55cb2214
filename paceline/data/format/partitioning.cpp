#include "paceline/data/format/partitioning.h"

#include <arrow/array.h>
#include <arrow/builder.h>
#include <arrow/compute/exec.h>
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
#include <sstream>

#include "paceline/data/format/parquet_pruning_internal.h"
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

template <typename Builder, typename Append>
arrow::Result<std::shared_ptr<arrow::Array>> built(const std::vector<std::optional<std::string>>& texts,
                                                   const Append& append) {
  Builder builder;
  for (const auto& text : texts) ARROW_RETURN_NOT_OK(text ? append(builder, *text) : builder.AppendNull());
  return builder.Finish();
}

arrow::Result<std::shared_ptr<arrow::Array>> column_of_texts(const std::vector<std::optional<std::string>>& texts) {
  const bool are_numbers =
      std::ranges::all_of(texts, [](const auto& text) { return !text || whole_number(*text).has_value(); }) &&
      std::ranges::any_of(texts, [](const auto& text) { return text.has_value(); });
  if (are_numbers) {
    return built<arrow::Int64Builder>(
        texts, [](auto& builder, const std::string& text) { return builder.Append(*whole_number(text)); });
  }
  return built<arrow::StringBuilder>(
      texts, [](auto& builder, const std::string& text) { return builder.Append(as_utf8(text)); });
}

arrow::Result<std::shared_ptr<arrow::Array>> column_of_type(const std::string& key,
                                                            const std::shared_ptr<arrow::DataType>& type,
                                                            const std::vector<std::optional<std::string>>& texts) {
  ARROW_ASSIGN_OR_RAISE(const auto builder, arrow::MakeBuilder(type));
  for (const auto& text : texts) {
    if (!text) {
      ARROW_RETURN_NOT_OK(builder->AppendNull());
      continue;
    }
    const auto value = arrow::Scalar::Parse(type, *text);
    if (!value.ok()) {
      return arrow::Status::Invalid("a folder says ", key, "=", *text, ", which is not of the type ", type->ToString(),
                                    " that it is to be");
    }
    ARROW_RETURN_NOT_OK(builder->AppendScalar(**value));
  }
  return builder->Finish();
}

arrow::Status path_is_taken(const std::string& path) {
  return arrow::Status::Invalid("include_paths adds the column 'path', but ", path,
                                " has one already; rename it, or leave it out by `columns`");
}

class WithPlaces : public Source {
 public:
  WithPlaces(std::unique_ptr<Source> source, std::shared_ptr<arrow::RecordBatch> places)
      : source_(std::move(source)), places_(std::move(places)), chunks_(source_->chunks()) {}

  arrow::Status open(const std::optional<std::vector<std::string>>& columns) {
    ARROW_ASSIGN_OR_RAISE(const auto inner, source_->schema());
    fingerprint_ = source_->fingerprint();
    std::vector<std::string> names = inner->field_names();
    for (int column = 0; column < places_->num_columns(); ++column) {
      const std::string& name = places_->column_name(column);
      if (inner->GetFieldIndex(name) < 0) names.push_back(name);
      std::vector<int64_t> bytes;  // of each file's value
      for (int64_t file = 0; file < places_->num_rows(); ++file) {
        ARROW_ASSIGN_OR_RAISE(const auto value, places_->column(column)->GetScalar(file));
        fingerprint_ = mix_text(fingerprint_, value->ToString());
        bytes.push_back(bytes_of(*value));
      }
      for (ChunkSize& chunk : chunks_) chunk.bytes += chunk.rows * bytes[static_cast<size_t>(chunk.file)];
    }
    arrow::FieldVector fields;
    for (const std::string& name : columns.value_or(names)) {
      int place = places_->schema()->GetFieldIndex(name);
      const bool is_place = place >= 0;
      if (!is_place) place = inner->GetFieldIndex(name);
      if (place < 0) return arrow::Status::Invalid("no file has a column '", name, "', and no folder says it");
      fields.push_back(is_place ? places_->schema()->field(place) : inner->field(place));
      columns_.push_back({.is_place = is_place, .place = place});
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
    const int64_t file = chunks_[static_cast<size_t>(chunk)].file;
    arrow::ArrayVector arrays;
    for (const OutColumn& column : columns_) {
      if (!column.is_place) {
        arrays.push_back(batch->column(column.place));
        continue;
      }
      ARROW_ASSIGN_OR_RAISE(const auto value, places_->column(column.place)->GetScalar(file));
      ARROW_ASSIGN_OR_RAISE(auto array, arrow::MakeArrayFromScalar(*value, batch->num_rows()));
      arrays.push_back(std::move(array));
    }
    return arrow::RecordBatch::Make(schema_, batch->num_rows(), std::move(arrays));
  }

 private:
  struct OutColumn {
    bool is_place = false;
    int place = 0;  // in places_, or in the batches of the source
  };

  static int64_t bytes_of(const arrow::Scalar& value) {
    if (value.type->id() != arrow::Type::STRING) return sizeof(int64_t);
    const auto& text = static_cast<const arrow::StringScalar&>(value);
    return static_cast<int64_t>(sizeof(int32_t)) + (text.is_valid ? text.value->size() : 0);
  }

  const std::unique_ptr<Source> source_;
  const std::shared_ptr<arrow::RecordBatch> places_;
  std::vector<ChunkSize> chunks_;
  std::vector<OutColumn> columns_;
  std::shared_ptr<arrow::Schema> schema_;
  uint64_t fingerprint_ = 0;
};

}  // namespace

arrow::Result<std::vector<std::pair<std::string, std::string>>> folder_values(const std::string& path,
                                                                              const PlaceOptions& options) {
  std::vector<std::pair<std::string, std::string>> values;
  std::string below = options.base_dir;
  if (!below.empty() && !below.ends_with('/')) below += '/';
  if (options.folders == FolderStyle::none || !path.starts_with(below)) return values;
  std::vector<std::string> folders;
  std::stringstream parts(path.substr(below.size(), path.rfind('/') + 1 - below.size()));
  for (std::string folder; std::getline(parts, folder, '/');) {
    if (!folder.empty()) folders.push_back(folder);
  }
  if (options.folders == FolderStyle::named && folders.size() != options.names.size()) {
    return arrow::Status::Invalid(path, " has ", folders.size(), " folders below '", below, "', and field_names has ",
                                  options.names.size(), "; give base_dir and a name for each folder below it");
  }
  for (size_t i = 0; i < folders.size(); ++i) {
    if (options.folders == FolderStyle::named) {
      values.emplace_back(options.names[i], arrow::util::UriUnescape(folders[i]));
      continue;
    }
    const size_t equals = folders[i].find('=');
    if (equals == std::string::npos || equals == 0) continue;
    values.emplace_back(arrow::util::UriUnescape(folders[i].substr(0, equals)),
                        arrow::util::UriUnescape(folders[i].substr(equals + 1)));
  }
  const auto key = &std::pair<std::string, std::string>::first;
  if (!options.names.empty() && !std::ranges::equal(values, options.names, {}, key)) {
    std::string wanted;
    for (const std::string& name : options.names) wanted += name + "=…/";
    return arrow::Status::Invalid("the folders of ", path, " are not those of field_names, ", wanted);
  }
  return values;
}

arrow::Result<std::shared_ptr<arrow::RecordBatch>> columns_of_places(const std::vector<arrow::fs::FileInfo>& files,
                                                                     const PlaceOptions& options) {
  std::vector<std::string> keys;  // as they appear
  std::map<std::string, std::vector<std::optional<std::string>>> texts;
  for (size_t file = 0; file < files.size(); ++file) {
    ARROW_ASSIGN_OR_RAISE(auto of_file, folder_values(files[file].path(), options));
    for (auto& [key, value] : of_file) {
      auto& values = texts[key];
      if (values.empty()) {
        keys.push_back(key);
        values.resize(files.size());
      }
      if (value != kNullFolder) values[file] = std::move(value);
    }
  }
  arrow::FieldVector fields;
  arrow::ArrayVector arrays;
  for (const std::string& key : keys) {
    const auto type = options.types.find(key);
    ARROW_ASSIGN_OR_RAISE(arrays.emplace_back(), type == options.types.end()
                                                     ? column_of_texts(texts.at(key))
                                                     : column_of_type(key, type->second, texts.at(key)));
    fields.push_back(arrow::field(key, arrays.back()->type()));
  }
  if (options.include_paths) {
    if (texts.contains(kPathColumn)) return path_is_taken(files.front().path());
    std::vector<std::optional<std::string>> paths;
    for (const auto& file : files) paths.emplace_back(file.path());
    ARROW_ASSIGN_OR_RAISE(arrays.emplace_back(),
                          built<arrow::StringBuilder>(
                              paths, [](auto& builder, const auto& path) { return builder.Append(as_utf8(path)); }));
    fields.push_back(arrow::field(kPathColumn, arrow::utf8(), /*nullable=*/false));
  }
  return arrow::RecordBatch::Make(arrow::schema(std::move(fields)), static_cast<int64_t>(files.size()),
                                  std::move(arrays));
}

arrow::Result<std::vector<size_t>> places_that_pass(const arrow::RecordBatch& places,
                                                    const arrow::compute::Expression& condition) {
  ARROW_ASSIGN_OR_RAISE(const auto bound, bind_filter(condition, *places.schema()));
  const arrow::compute::ExecBatch rows(places);
  ARROW_ASSIGN_OR_RAISE(const arrow::Datum value, arrow::compute::ExecuteScalarExpression(bound, rows));
  std::vector<size_t> passed;
  for (int64_t file = 0; file < places.num_rows(); ++file) {
    std::shared_ptr<arrow::Scalar> passes = value.is_scalar() ? value.scalar() : nullptr;
    if (passes == nullptr) {
      ARROW_ASSIGN_OR_RAISE(passes, value.make_array()->GetScalar(file));
    }
    if (passes->is_valid && static_cast<const arrow::BooleanScalar&>(*passes).value) {
      passed.push_back(static_cast<size_t>(file));
    }
  }
  return passed;
}

arrow::Result<std::unique_ptr<Source>> with_columns_of_places(std::unique_ptr<Source> source,
                                                              std::shared_ptr<arrow::RecordBatch> places,
                                                              const std::optional<std::vector<std::string>>& columns) {
  if (places->num_columns() == 0) return source;
  const auto paths = places->GetColumnByName(kPathColumn);
  ARROW_ASSIGN_OR_RAISE(const auto schema, source->schema());
  if (paths != nullptr && schema->GetFieldIndex(kPathColumn) >= 0) {
    ARROW_ASSIGN_OR_RAISE(const auto first, paths->GetScalar(0));
    return path_is_taken(first->ToString());
  }
  auto with_places = std::make_unique<WithPlaces>(std::move(source), std::move(places));
  ARROW_RETURN_NOT_OK(with_places->open(columns));
  return with_places;
}

}  // namespace paceline::data
