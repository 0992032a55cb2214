#include "paceline/data/operator/map_batches.h"

#include <arrow/record_batch.h>
#include <arrow/table.h>
#include <arrow/type.h>

#include <algorithm>

#include "paceline/core/registry.h"
#include "paceline/data/operator/forgiving.h"
#include "paceline/data/order/permutation.h"

namespace paceline::data {
namespace {

struct Registered {
  FunctionAddress address;
  BlockFunction function;
  FunctionForm form = FunctionForm::batches;
  friend bool operator==(const Registered& a, const Registered& b) { return a.address == b.address; }
};

struct FormWords {
  const char* call;  // of Dataset
  const char* step;
};

const FormWords& words_of(FunctionForm form) {
  static constexpr FormWords kWords[] = {{"map_batches", "MapBatches"},
                                         {"map", "Map"},
                                         {"flat_map", "FlatMap"},
                                         {"filter", "Filter"},
                                         {"add_column", "AddColumn"}};
  return kWords[static_cast<size_t>(form)];
}

Registry<Registered>& functions() {
  static Registry<Registered> registry({"function", "the function given to map_batches()", "PACELINE_MAP_BATCHES"});
  return registry;
}

class MapBatches : public Operator {
 public:
  MapBatches(std::string function_name, Registered registered, const MapBatchesOptions& options, std::string column)
      : function_name_(std::move(function_name)),
        registered_(std::move(registered)),
        options_(options),
        column_(std::move(column)) {}

  std::string name() const override {
    return std::string(words_of(form()).step) + "(" + (column_.empty() ? "" : column_ + ", ") + function_name_ + ")";
  }
  bool keeps_rows() const override {
    if (form() == FunctionForm::batches) return !options_.udf_modifying_row_count;
    return form() == FunctionForm::row || form() == FunctionForm::column;
  }
  uint64_t fingerprint() const override {
    return mix(mix_text(2, name()), static_cast<uint64_t>(options_.batch_size.value_or(0)));
  }
  arrow::Result<std::shared_ptr<arrow::Schema>> schema(const std::shared_ptr<arrow::Schema>&) const override {
    return nullptr;
  }

  arrow::Result<std::shared_ptr<arrow::RecordBatch>> apply(const std::shared_ptr<arrow::RecordBatch>& block,
                                                           uint64_t key) const override {
    const int64_t rows = block->num_rows();
    const int64_t size = options_.batch_size.value_or(std::max<int64_t>(rows, 1));
    if (rows <= size) return call(block, key);
    arrow::RecordBatchVector made;
    for (int64_t first = 0; first < rows; first += size) {
      ARROW_ASSIGN_OR_RAISE(made.emplace_back(),
                            call(block->Slice(first, size), mix(key, static_cast<uint64_t>(first))));
    }
    ARROW_ASSIGN_OR_RAISE(const auto table, arrow::Table::FromRecordBatches(made));
    return table->CombineChunksToBatch();
  }

 private:
  FunctionForm form() const { return registered_.form; }

  arrow::Result<std::shared_ptr<arrow::RecordBatch>> call(const std::shared_ptr<arrow::RecordBatch>& rows,
                                                          uint64_t key) const {
    const auto failed = [&](const std::string& why) {
      return arrow::Status::Invalid(words_of(form()).call, "(): the function ", function_name_, " has failed: ", why);
    };
    try {
      auto made = registered_.function(rows, key);
      if (!made.ok()) return failed(made.status().message());
      if (form() == FunctionForm::column && (*made)->num_rows() == rows->num_rows()) {
        const auto& values = (*made)->column(0);
        const auto field = arrow::field(column_, values->type());
        const int place = rows->schema()->GetFieldIndex(column_);
        if (place < 0) return rows->AddColumn(rows->num_columns(), field, values);
        return rows->SetColumn(place, field, values);
      }
      if (!keeps_rows() || (*made)->num_rows() == rows->num_rows()) return made;
      return failed("it gave " + std::to_string((*made)->num_rows()) + " rows for " + std::to_string(rows->num_rows()) +
                    (form() == FunctionForm::batches ? ", but udf_modifying_row_count is false" : ""));
    } catch (const std::exception& error) {
      return failed(error.what());
    }
  }

  const std::string function_name_;
  const Registered registered_;
  const MapBatchesOptions options_;
  const std::string column_;
};

}  // namespace

void register_map_batches(const std::string& name, FunctionAddress address, BlockFunction function, FunctionForm form) {
  functions().add(name, {.address = address, .function = std::move(function), .form = form});
}

std::string map_batches_name(FunctionAddress address) {
  return functions().name_of({.address = address, .function = nullptr});
}

arrow::Result<std::shared_ptr<const Operator>> map_batches(const std::string& name, const MapBatchesOptions& options,
                                                           FunctionForm form, const std::string& column) {
  if (options.batch_size && *options.batch_size < 1) {
    return arrow::Status::Invalid("map_batches(): batch_size is ", *options.batch_size,
                                  "; allowed: a number of rows from 1, or none");
  }
  std::shared_ptr<const Operator> made;
  try {
    const Registered registered = functions().find(name);
    if (registered.form != form) {
      return arrow::Status::Invalid("the function ", name, " is registered for ", words_of(registered.form).call,
                                    "(), but given to ", words_of(form).call,
                                    "(). Functions of a row are registered with PACELINE_MAP, those of a batch with "
                                    "PACELINE_MAP_BATCHES; what a function gives says the rest");
    }
    made = std::make_shared<MapBatches>(name, registered, options, column);
  } catch (const UsageError& error) {
    return arrow::Status::Invalid(error.what());
  }
  Json bad_rows = {{"on_error", options.on_error}};
  if (!options.quarantine.empty()) bad_rows["quarantine"] = options.quarantine;
  ARROW_ASSIGN_OR_RAISE(auto forgiven, bad_rows_of(bad_rows));
  return forgiven == nullptr ? made : forgiving(std::move(made), std::move(forgiven));
}

}  // namespace paceline::data
