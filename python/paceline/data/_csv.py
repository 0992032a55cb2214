"""pyarrow.csv's options, as a plan takes them."""

from typing import Any, Dict

from pyarrow import csv

# Those that change no row.
_WITHOUT_EFFECT = {"block_size", "use_threads", "auto_dict_max_cardinality"}
# Those that a plan has under the same name (plan/csv_options_internal.h), and those that read_csv() itself hands over.
_KNOWN = {
    "delimiter", "quote_char", "double_quote", "escape_char", "newlines_in_values", "ignore_empty_lines",
    "skip_rows", "skip_rows_after_names", "column_names", "autogenerate_column_names",
    "check_utf8", "null_values", "true_values", "false_values", "strings_can_be_null", "quoted_strings_can_be_null",
    "decimal_point", "include_missing_columns", "timestamp_parsers",
}  # fmt: skip
_OF_READER = {"include_columns", "column_types"}
_INSTEAD = {
    "invalid_row_handler": "; use on_error= and quarantine= of read_csv()",
    "encoding": "; files are read as UTF-8",
    "default_column_type": "; give column_types",
}


def options(*given: Any) -> Dict[str, Any]:
    """What is not as it is by default in pyarrow's ReadOptions, ParseOptions and ConvertOptions; None are left out."""
    made: Dict[str, Any] = {}
    for one in given:
        if one is None:
            continue
        if not isinstance(one, (csv.ReadOptions, csv.ParseOptions, csv.ConvertOptions)):
            raise TypeError("read_csv() takes pyarrow.csv's ReadOptions, ParseOptions and ConvertOptions, not a "
                            f"{type(one).__name__}")
        usual = type(one)()
        for name in dir(one):
            value = getattr(one, name)
            is_method = callable(value) and name not in _INSTEAD
            if name.startswith("_") or is_method or name in _WITHOUT_EFFECT | _OF_READER or value == getattr(usual, name):
                continue
            if name not in _KNOWN:
                raise NotImplementedError(f"read_csv() does not know {type(one).__name__}({name}={value!r})"
                                          + _INSTEAD.get(name, ""))
            made[name] = value
    if parsers := made.get("timestamp_parsers"):
        made["timestamp_parsers"] = [parser if isinstance(parser, str) else None for parser in parsers]
    return made
