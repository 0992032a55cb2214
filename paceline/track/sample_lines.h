// The lines of a file of samples (docs/architecture/samples_format.md): what is measured, and then how much of it there
// was, a line for each moment or each bucket of moments.
//
// Pure. Reading takes any text: a line that was cut off or damaged is no line.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/json.h"
#include "paceline/core/record.h"

namespace paceline::track {

inline constexpr int64_t kSamplesVersion = 1;

// What the lines behind it tell of.
#define PACELINE_SAMPLES_HEADER_FIELDS(FIELD)                                                                 \
  FIELD(int64_t, version, kSamplesVersion)                                                                    \
  FIELD(std::string, source, "")               /* "node" or "data" */                                         \
  FIELD(std::string, name, "")                 /* of the node; of the data process its number */              \
  FIELD(double, seconds, 1.0)                  /* that a line stands for */                                   \
  FIELD(std::vector<std::string>, columns, {}) /* names of numbers; those that end with "_total" only grow */ \
  FIELD(Json, about, Json::object())           /* what is no number: names of GPUs, roles of processes */
PACELINE_RECORD(SamplesHeader, PACELINE_SAMPLES_HEADER_FIELDS);

/// One number in the time that a line stands for. NaN where there was none.
struct SampleValue {
  double mean = std::numeric_limits<double>::quiet_NaN();
  double min = std::numeric_limits<double>::quiet_NaN();
  double max = std::numeric_limits<double>::quiet_NaN();
};

struct SamplesRow {
  double time = 0;                  // at which it begins, in seconds since the Unix epoch
  std::vector<SampleValue> values;  // by the header's columns
};

/// Whether a number only grows: of several the last counts.
bool is_total(std::string_view column);

/// With their newlines.
std::string encode_samples_header(const SamplesHeader& header);
std::string encode_samples_row(const SamplesRow& row, const std::vector<std::string>& columns);

/// Of a line without its newline. Nothing for what is no header, or one of a later version.
std::optional<SamplesHeader> decode_samples_header(std::string_view line);
/// False for what is no row with so many columns.
bool decode_samples_row(std::string_view line, size_t columns, SamplesRow& row);

}  // namespace paceline::track
