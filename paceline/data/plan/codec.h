// Plans as bytes, for the processes that are to read what another process has described.
//
// A line of JSON with the steps, each of which names its inputs by their number, then the rows that plans hold in
// memory, as streams of Arrow's IPC. Thread-safe: no state.
#pragma once

#include <arrow/buffer.h>
#include <arrow/result.h>

#include <map>
#include <memory>
#include <string>

#include "paceline/data/plan/plan.h"

namespace paceline::data {

/// Plans by name. What several of them share is written once. NotImplemented for a step that is a function without a
/// name, naming it.
arrow::Result<std::string> encode_plans(const std::map<std::string, Plan>& plans);
/// The plans that encode_plans() wrote. Rows are not copied: they keep `bytes`. Invalid for other bytes.
arrow::Result<std::map<std::string, Plan>> decode_plans(const std::shared_ptr<arrow::Buffer>& bytes);

}  // namespace paceline::data
