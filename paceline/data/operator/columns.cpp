#include "paceline/data/operator/columns.h"

#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <algorithm>

#include "paceline/data/schema/missing_column_internal.h"

namespace paceline::data {
namespace {

// A column of the result: which of the input's it is, and what it is called.
struct Pick {
  int column = 0;
  std::string name;
};
using Picks = std::vector<Pick>;

class ColumnsOperator : public Operator {
 public:
  std::string name() const override {
    std::string text;
    for (const std::string& argument : arguments()) text += (text.empty() ? "" : ", ") + argument;
    return std::string(verb()) + "(" + text + ")";
  }
  bool keeps_rows() const override { return true; }
  uint64_t fingerprint() const override { return mix_text(0, name()); }
  int64_t bytes_besides(int64_t) const override { return 0; }

  arrow::Result<std::shared_ptr<arrow::Schema>> schema(const std::shared_ptr<arrow::Schema>& input) const override {
    if (input == nullptr) return nullptr;
    ARROW_ASSIGN_OR_RAISE(const Picks picks, picks_of(*input));
    return schema_of(*input, picks);
  }

  arrow::Result<std::shared_ptr<arrow::RecordBatch>> apply(const std::shared_ptr<arrow::RecordBatch>& block,
                                                           uint64_t) const override {
    ARROW_ASSIGN_OR_RAISE(const Picks picks, picks_of(*block->schema()));
    arrow::ArrayVector columns;
    for (const Pick& pick : picks) columns.push_back(block->column(pick.column));
    return arrow::RecordBatch::Make(schema_of(*block->schema(), picks), block->num_rows(), std::move(columns));
  }

 protected:
  virtual std::string_view verb() const = 0;
  virtual std::vector<std::string> arguments() const = 0;
  virtual arrow::Result<Picks> picks_of(const arrow::Schema& input) const = 0;

  arrow::Result<int> find(const arrow::Schema& input, const std::string& column) const {
    const int found = input.GetFieldIndex(column);
    if (found >= 0) return found;
    return missing_column(name(), column, input);
  }

 private:
  static std::shared_ptr<arrow::Schema> schema_of(const arrow::Schema& input, const Picks& picks) {
    arrow::FieldVector fields;
    for (const Pick& pick : picks) fields.push_back(input.field(pick.column)->WithName(pick.name));
    return arrow::schema(std::move(fields));
  }
};

class Select : public ColumnsOperator {
 public:
  explicit Select(std::vector<std::string> names) : names_(std::move(names)) {}

 private:
  std::string_view verb() const override { return "SelectColumns"; }
  std::vector<std::string> arguments() const override { return names_; }
  arrow::Result<Picks> picks_of(const arrow::Schema& input) const override {
    Picks picks;
    for (const std::string& column : names_) {
      ARROW_ASSIGN_OR_RAISE(const int found, find(input, column));
      picks.push_back({found, column});
    }
    return picks;
  }
  const std::vector<std::string> names_;
};

class Drop : public ColumnsOperator {
 public:
  explicit Drop(std::vector<std::string> names) : names_(std::move(names)) {}

 private:
  std::string_view verb() const override { return "DropColumns"; }
  std::vector<std::string> arguments() const override { return names_; }
  arrow::Result<Picks> picks_of(const arrow::Schema& input) const override {
    for (const std::string& column : names_) ARROW_RETURN_NOT_OK(find(input, column));
    Picks picks;
    for (int column = 0; column < input.num_fields(); ++column) {
      const std::string& called = input.field(column)->name();
      if (std::ranges::find(names_, called) == names_.end()) picks.push_back({column, called});
    }
    return picks;
  }
  const std::vector<std::string> names_;
};

class Rename : public ColumnsOperator {
 public:
  explicit Rename(std::map<std::string, std::string> names) : names_(std::move(names)) {}

 private:
  std::string_view verb() const override { return "RenameColumns"; }
  std::vector<std::string> arguments() const override {
    std::vector<std::string> texts;
    for (const auto& [before, after] : names_) texts.push_back(before + " → " + after);
    return texts;
  }
  arrow::Result<Picks> picks_of(const arrow::Schema& input) const override {
    for (const auto& [before, after] : names_) ARROW_RETURN_NOT_OK(find(input, before));
    Picks picks;
    for (int column = 0; column < input.num_fields(); ++column) {
      const std::string& called = input.field(column)->name();
      const auto renamed = names_.find(called);
      picks.push_back({column, renamed == names_.end() ? called : renamed->second});
      const auto is_called_alike = [&](const Pick& pick) { return pick.name == picks.back().name; };
      if (std::ranges::count_if(picks, is_called_alike) > 1) {
        return arrow::Status::Invalid(name(), ": two columns would be called '", picks.back().name, "'");
      }
    }
    return picks;
  }
  const std::map<std::string, std::string> names_;
};

}  // namespace

std::shared_ptr<const Operator> select_columns(std::vector<std::string> names) {
  return std::make_shared<Select>(std::move(names));
}

std::shared_ptr<const Operator> drop_columns(std::vector<std::string> names) {
  return std::make_shared<Drop>(std::move(names));
}

std::shared_ptr<const Operator> rename_columns(std::map<std::string, std::string> names) {
  return std::make_shared<Rename>(std::move(names));
}

}  // namespace paceline::data
