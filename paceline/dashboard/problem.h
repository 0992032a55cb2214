// Errors as the dashboard answers them: problem JSON (RFC 9457) with what has happened and what to do. Pure.
#pragma once

#include <chrono>

#include <arrow/status.h>

#include <string>

#include "paceline/core/record.h"
#include "paceline/dashboard/message.h"

namespace paceline::dashboard {

// An error, for people and programs.
#define PACELINE_PROBLEM_FIELDS(FIELD)                              \
  FIELD(std::string, type, "about:blank")                           \
  FIELD(std::string, title, "") /* what kind of error it is */      \
  FIELD(int64_t, status, 500)                                       \
  FIELD(std::string, detail, "") /* what has happened, with data */ \
  FIELD(std::string, hint, "")   /* what to do about it */
PACELINE_RECORD(Problem, PACELINE_PROBLEM_FIELDS);

Response problem(int status, const std::string& detail, const std::string& hint);

/// Of a failure: KeyError is 404, Invalid 400, Cancelled 504, AlreadyExists 409, NotImplemented 501, others 500.
Response problem(const arrow::Status& status);

/// 429 for who was wrong about a secret too often, and has to wait.
Response wait_before_next(std::chrono::seconds wait);

}  // namespace paceline::dashboard
