#include <arrow/filesystem/filesystem.h>
#include <arrow/type.h>

#include <algorithm>
#include <map>
#include <set>

#include "paceline/core/notice.h"
#include "paceline/data/format/line_types_internal.h"

namespace paceline::data {
namespace {

using Type = std::shared_ptr<arrow::DataType>;

constexpr size_t kMostBehind = 16;
constexpr int64_t kBytesOfAll = int64_t{16} << 20;
constexpr int64_t kLeastBytes = int64_t{4} << 10;

bool is_text(const arrow::DataType& type) {
  return arrow::is_base_binary_like(type.id());
}

// Texts that all look like days or times are taken for these.
bool is_text_or_time(const arrow::DataType& type) {
  return is_text(type) || type.id() == arrow::Type::TIMESTAMP || type.id() == arrow::Type::DATE32;
}

Type type_of_both(const Type& one, const Type& other);

// Of structs: the fields of both.
Type struct_of_both(const arrow::DataType& one, const arrow::DataType& other) {
  arrow::FieldVector fields = one.fields();
  for (const auto& field : other.fields()) {
    const auto same = std::ranges::find(fields, field->name(), &arrow::Field::name);
    if (same == fields.end()) {
      fields.push_back(field);
      continue;
    }
    const Type type = type_of_both((*same)->type(), field->type());
    if (type == nullptr) return nullptr;
    *same = (*same)->WithType(type);
  }
  return arrow::struct_(std::move(fields));
}

// A null pointer where there is none.
Type type_of_both(const Type& one, const Type& other) {
  if (one->Equals(*other) || other->id() == arrow::Type::NA) return one;
  if (one->id() == arrow::Type::NA) return other;
  if (one->id() == arrow::Type::STRUCT && other->id() == arrow::Type::STRUCT) return struct_of_both(*one, *other);
  if (one->id() == arrow::Type::LIST && other->id() == arrow::Type::LIST) {
    const Type value = type_of_both(one->field(0)->type(), other->field(0)->type());
    return value == nullptr ? nullptr : arrow::list(one->field(0)->WithType(value));
  }
  if (is_text_or_time(*one) && is_text_or_time(*other) && is_text(*one) != is_text(*other)) {
    return is_text(*one) ? one : other;
  }
  if (one->id() == arrow::Type::TIMESTAMP && other->id() == arrow::Type::DATE32) return one;
  if (one->id() == arrow::Type::DATE32 && other->id() == arrow::Type::TIMESTAMP) return other;
  const auto merged =
      arrow::field("", one)->MergeWith(arrow::field("", other), arrow::Field::MergeOptions::Permissive());
  return merged.ok() ? (*merged)->type() : nullptr;
}

Type text_of_both(const arrow::DataType& one, const arrow::DataType& other) {
  const bool is_utf8 = one.id() != arrow::Type::BINARY && other.id() != arrow::Type::BINARY;
  return is_utf8 ? arrow::utf8() : arrow::binary();
}

arrow::Status check_names(const SampledColumns& sample) {
  std::set<std::string> names;
  for (const std::string& name : sample.schema->field_names()) {
    if (names.insert(name).second) continue;
    return arrow::Status::Invalid("two columns of ", sample.path, " are called '", name, "'");
  }
  return arrow::Status::OK();
}

}  // namespace

arrow::Result<std::shared_ptr<arrow::Schema>> columns_of_samples(const std::vector<SampledColumns>& samples,
                                                                 const SamplesOptions& options) {
  struct Column {
    std::shared_ptr<arrow::Field> field;
    const std::string* path;  // of the file that has such a type
  };
  std::vector<Column> columns;
  std::map<std::string, size_t> places;
  bool is_first = true;
  for (const SampledColumns& sample : samples) {
    if (sample.schema == nullptr || sample.schema->num_fields() == 0) continue;
    ARROW_RETURN_NOT_OK(check_names(sample));
    const std::vector<std::string> names = sample.schema->field_names();
    const auto is_known = [&](const std::string& name) { return places.contains(name); };
    if (options.are_texts && !is_first && std::ranges::none_of(names, is_known)) {
      return arrow::Status::Invalid(sample.path, " has none of the columns of ", *columns.front().path, ", but '",
                                    names.front(), "'; does it lack the line with their names?");
    }
    for (const auto& field : sample.schema->fields()) {
      const auto place = places.find(field->name());
      if (place == places.end()) {
        if (!is_first && !options.new_columns) continue;
        places.emplace(field->name(), columns.size());
        columns.push_back({field->WithNullable(true), &sample.path});
        continue;
      }
      Column& known = columns[place->second];
      const Type& type = known.field->type();
      const Type& other = field->type();
      if (std::ranges::find(options.given, field->name()) != options.given.end()) continue;
      Type both = type_of_both(type, other);
      if (options.forgive && (both == nullptr || (is_text(*both) && !is_text(*type)))) continue;
      const auto differ = [&] {
        return "the column '" + field->name() + "' is " + type->ToString() + " in " + *known.path + " and " +
               other->ToString() + " in " + sample.path;
      };
      if (both == nullptr && options.are_texts) {
        both = text_of_both(*type, *other);
        notice_once(differ() + ", so it is read as " + both->ToString() + "; column_types may say what it is");
      }
      if (both == nullptr) {
        return arrow::Status::Invalid(differ(), ", and there is no type for both; give one in column_types");
      }
      if (!both->Equals(*type)) known = {known.field->WithType(both), &sample.path};
    }
    is_first = false;
  }
  arrow::FieldVector fields;
  for (Column& column : columns) fields.push_back(std::move(column.field));
  return arrow::schema(std::move(fields));
}

std::string differences(const arrow::Schema& found, const arrow::Schema& wanted) {
  std::string text;
  const auto add = [&](const std::string& difference) { text += (text.empty() ? "" : "; ") + difference; };
  for (const auto& field : found.fields()) {
    const auto other = wanted.GetFieldByName(field->name());
    if (other == nullptr) {
      add("it has a column '" + field->name() + "', which is not known");
      continue;
    }
    const Type both = type_of_both(other->type(), field->type());
    const bool fits = is_text(*other->type()) || (both != nullptr && both->Equals(*other->type()));
    if (fits) continue;
    add("the column '" + field->name() + "' is " + field->type()->ToString() +
        " there; wanted: " + other->type()->ToString());
  }
  return text;
}

std::vector<LineRange> blocks_to_sample(const std::vector<arrow::fs::FileInfo>& files, int64_t first_file) {
  std::vector<LineRange> begin, behind, blocks;
  for (const LineRange& block : line_ranges(files, kFirstBlockBytes)) {
    if (block.file < first_file || (block.file == first_file && block.is_first())) continue;
    (block.is_first() ? begin : behind).push_back(block);
  }
  const auto add_some = [&](const std::vector<LineRange>& all, size_t most) {
    const size_t count = std::min(all.size(), most);
    // The last of all is among them, since much differs with time.
    for (size_t i = 1; i <= count; ++i) blocks.push_back(all[i * all.size() / count - 1]);
  };
  add_some(begin, kMostBeginnings);
  add_some(behind, kMostBehind);
  return blocks;
}

int64_t bytes_of_beginnings(size_t blocks) {
  return std::clamp(kBytesOfAll / std::max<int64_t>(static_cast<int64_t>(blocks), 1), kLeastBytes, kFirstBlockBytes);
}

}  // namespace paceline::data
