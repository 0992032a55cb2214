#include <arrow/array.h>
#include <arrow/compute/cast.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <algorithm>
#include <map>

#include "paceline/data/schema/schema_merge_internal.h"

namespace paceline::data {
namespace {

std::optional<double> fixed_bytes_of(const arrow::DataType& type) {
  if (type.id() == arrow::Type::NA) return 0;
  if (type.id() == arrow::Type::EXTENSION) {
    return fixed_bytes_of(*static_cast<const arrow::ExtensionType&>(type).storage_type());
  }
  if (type.id() == arrow::Type::DICTIONARY) return std::nullopt;
  if (type.id() == arrow::Type::FIXED_SIZE_LIST) {
    const auto& list = static_cast<const arrow::FixedSizeListType&>(type);
    const auto value = fixed_bytes_of(*list.value_type());
    return value ? std::optional(*value * list.list_size()) : std::nullopt;
  }
  if (type.id() == arrow::Type::STRUCT) {
    double bytes = 0;
    for (const auto& field : type.fields()) {
      const auto value = fixed_bytes_of(*field->type());
      if (!value) return std::nullopt;
      bytes += *value;
    }
    return bytes;
  }
  if (!arrow::is_fixed_width(type.id())) return std::nullopt;
  return static_cast<const arrow::FixedWidthType&>(type).bit_width() / 8.0;
}

std::shared_ptr<arrow::Field> without_dictionary(const std::shared_ptr<arrow::Field>& field) {
  if (field->type()->id() != arrow::Type::DICTIONARY) return field;
  return field->WithType(static_cast<const arrow::DictionaryType&>(*field->type()).value_type());
}

// A dictionary and what stands in it: the latter, since a column has one type.
arrow::Result<std::shared_ptr<arrow::Field>> merged_field(std::shared_ptr<arrow::Field> one,
                                                          std::shared_ptr<arrow::Field> other) {
  if ((one->type()->id() == arrow::Type::DICTIONARY) != (other->type()->id() == arrow::Type::DICTIONARY)) {
    one = without_dictionary(one);
    other = without_dictionary(other);
  }
  return one->MergeWith(*other, arrow::Field::MergeOptions::Permissive());
}

}  // namespace

std::optional<double> fixed_bytes_of_row(const arrow::Schema& schema) {
  return fixed_bytes_of(*arrow::struct_(schema.fields()));
}

arrow::Result<std::shared_ptr<arrow::Schema>> merge_schemas(const std::vector<std::shared_ptr<arrow::Schema>>& schemas,
                                                            const std::vector<std::string>& paths,
                                                            const std::optional<std::vector<std::string>>& columns) {
  arrow::FieldVector fields;
  std::vector<size_t> first_files;  // of each field: the file that had it first
  std::vector<size_t> appearances;  // of each field: the files that have it
  std::map<std::string, size_t> places;
  const auto is_wanted = [&](const std::string& name) {
    return !columns || std::ranges::find(*columns, name) != columns->end();
  };
  for (size_t file = 0; file < schemas.size(); ++file) {
    for (const auto& field : schemas[file]->fields()) {
      if (!is_wanted(field->name())) continue;
      const auto [place, is_new] = places.emplace(field->name(), fields.size());
      if (is_new) {
        fields.push_back(field);
        first_files.push_back(file);
        appearances.push_back(1);
        continue;
      }
      std::shared_ptr<arrow::Field>& known = fields[place->second];
      if (first_files[place->second] == file || schemas[file]->GetAllFieldIndices(field->name()).size() > 1) {
        return arrow::Status::Invalid("two columns of ", paths[file], " are called '", field->name(), "'");
      }
      if (!known->Equals(*field)) {
        auto merged = merged_field(known, field);
        if (!merged.ok()) {
          return arrow::Status::Invalid("the column '", field->name(), "' is ", field->type()->ToString(), " in ",
                                        paths[file], "; in ", paths[first_files[place->second]], " it is ",
                                        known->type()->ToString(),
                                        ", and there is no type for both; leave the column out by `columns`, or read "
                                        "the files apart and cast it");
        }
        known = *std::move(merged);
      }
      ++appearances[place->second];
    }
  }
  for (size_t i = 0; i < fields.size(); ++i) {
    if (appearances[i] < schemas.size()) fields[i] = fields[i]->WithNullable(true);  // a file does not have it
  }
  if (!columns) return arrow::schema(std::move(fields));
  arrow::FieldVector chosen;
  for (const std::string& name : *columns) {
    if (std::ranges::count(*columns, name) > 1) {
      return arrow::Status::Invalid("`columns` has two columns called '", name, "'");
    }
    const auto place = places.find(name);
    if (place == places.end()) {
      std::string there;
      for (const auto& schema : schemas) {
        for (const auto& field : schema->fields()) {
          if (there.find("'" + field->name() + "'") == std::string::npos) {
            there += (there.empty() ? "'" : ", '") + field->name() + "'";
          }
        }
      }
      return arrow::Status::Invalid("no file has a column '", name, "'; there is ", there.empty() ? "none" : there);
    }
    chosen.push_back(fields[place->second]);
  }
  return arrow::schema(std::move(chosen));
}

arrow::Result<std::shared_ptr<arrow::RecordBatch>> fit_to_schema(const arrow::RecordBatch& batch,
                                                                 const std::shared_ptr<arrow::Schema>& schema) {
  arrow::ArrayVector arrays;
  for (const auto& field : schema->fields()) {
    std::shared_ptr<arrow::Array> array = batch.GetColumnByName(field->name());
    if (array == nullptr) {
      ARROW_ASSIGN_OR_RAISE(array, arrow::MakeArrayOfNull(field->type(), batch.num_rows()));
    } else if (!array->type()->Equals(*field->type())) {
      auto cast = arrow::compute::Cast(*array, field->type());
      if (!cast.ok()) return cast.status().WithMessage("the column '", field->name(), "': ", cast.status().message());
      array = *std::move(cast);
    }
    arrays.push_back(std::move(array));
  }
  return arrow::RecordBatch::Make(schema, batch.num_rows(), std::move(arrays));
}

arrow::Result<std::shared_ptr<arrow::Schema>> SchemaOfAll::schema() const {
  const std::lock_guard lock(known_->mutex);
  if (known_->schema != nullptr) return known_->schema;
  std::vector<std::shared_ptr<arrow::Schema>> schemas;
  for (const auto& source : sources_) {
    ARROW_ASSIGN_OR_RAISE(const auto schema, source());
    schemas.push_back(schema->RemoveMetadata());
  }
  ARROW_ASSIGN_OR_RAISE(known_->schema, arrow::UnifySchemas(schemas, arrow::Field::MergeOptions::Permissive()));
  return known_->schema;
}

arrow::Result<std::shared_ptr<arrow::RecordBatch>> SchemaOfAll::fit(std::shared_ptr<arrow::RecordBatch> batch) const {
  ARROW_ASSIGN_OR_RAISE(const auto all, schema());
  if (batch->schema()->Equals(*all, /*check_metadata=*/false)) return batch;
  return fit_to_schema(*batch, all);
}

}  // namespace paceline::data
