#include <arrow/util/value_parsing.h>

#include "paceline/data/plan/csv_options_internal.h"

namespace paceline::data {
namespace {

template <typename Value>
void take(const Json& options, const char* name, Value& value) {
  if (const auto given = options.find(name); given != options.end()) value = given->get<Value>();
}

arrow::Status take_character(const Json& options, const char* name, char& character, bool* is_used = nullptr) {
  const auto given = options.find(name);
  if (given == options.end()) return arrow::Status::OK();
  if (is_used != nullptr) *is_used = *given != false;
  if (*given == false && is_used != nullptr) return arrow::Status::OK();
  const auto text = given->get<std::string>();
  if (text.size() != 1) {
    return arrow::Status::Invalid(name, " is '", text, "'; wanted: one character of ASCII");
  }
  character = text.front();
  return arrow::Status::OK();
}

}  // namespace

arrow::Result<CsvOptions> csv_options_of(const Json& options) {
  CsvOptions csv;
  take(options, "skip_rows", csv.read.skip_rows);
  take(options, "skip_rows_after_names", csv.read.skip_rows_after_names);
  take(options, "column_names", csv.read.column_names);
  take(options, "autogenerate_column_names", csv.read.autogenerate_column_names);

  ARROW_RETURN_NOT_OK(take_character(options, "delimiter", csv.parse.delimiter));
  ARROW_RETURN_NOT_OK(take_character(options, "quote_char", csv.parse.quote_char, &csv.parse.quoting));
  ARROW_RETURN_NOT_OK(take_character(options, "escape_char", csv.parse.escape_char, &csv.parse.escaping));
  take(options, "double_quote", csv.parse.double_quote);
  take(options, "newlines_in_values", csv.parse.newlines_in_values);
  take(options, "ignore_empty_lines", csv.parse.ignore_empty_lines);

  ARROW_RETURN_NOT_OK(take_character(options, "decimal_point", csv.convert.decimal_point));
  take(options, "check_utf8", csv.convert.check_utf8);
  take(options, "null_values", csv.convert.null_values);
  take(options, "true_values", csv.convert.true_values);
  take(options, "false_values", csv.convert.false_values);
  take(options, "strings_can_be_null", csv.convert.strings_can_be_null);
  take(options, "quoted_strings_can_be_null", csv.convert.quoted_strings_can_be_null);
  take(options, "include_missing_columns", csv.convert.include_missing_columns);
  for (const Json& format : options.value("timestamp_parsers", Json::array())) {
    csv.convert.timestamp_parsers.push_back(format.is_null()
                                                ? arrow::TimestampParser::MakeISO8601()
                                                : arrow::TimestampParser::MakeStrptime(format.get<std::string>()));
  }
  return csv;
}

}  // namespace paceline::data
