#include "paceline/dashboard/problem.h"

#include "paceline/core/json.h"

namespace paceline::dashboard {
namespace {

std::string title_of(int status) {
  switch (status) {
    case 400:
      return "the request is wrong";
    case 401:
      return "no session";
    case 403:
      return "refused";
    case 404:
      return "not there";
    case 405:
      return "no such method";
    case 409:
      return "not now";
    case 413:
      return "the request is too large";
    case 429:
      return "too many";
    case 431:
      return "the request's head is too large";
    case 501:
      return "not in this version";
    case 503:
      return "too much to do";
    case 504:
      return "no answer from the run";
    default:
      return "it could not be done";
  }
}

struct ProblemMeaning {
  int status;
  const char* hint;
};

ProblemMeaning meaning_of(const arrow::Status& status) {
  if (status.IsKeyError()) return {404, "GET /api/v1/runs lists the runs, and what is below a run what it has"};
  if (status.IsInvalid())
    return {400, "docs/dashboard.md describes the interface, GET /api/v1/openapi.json every field"};
  if (status.IsCancelled()) return {504, "ask again; `paceline show` tells what the run's driver waits for"};
  if (status.IsAlreadyExists()) return {409, "look at the run again: it has changed meanwhile"};
  if (status.IsNotImplemented()) return {501, "a later Paceline wrote this: start its `paceline dashboard`"};
  return {500, "`paceline doctor` checks this machine's set-up; `paceline show` tells the same of the run"};
}

}  // namespace

Response problem(int status, const std::string& detail, const std::string& hint) {
  const Problem about{.title = title_of(status), .status = status, .detail = detail, .hint = hint};
  return {.status = status, .content_type = "application/problem+json", .body = encode_json(about)};
}

Response wait_before_next(std::chrono::seconds wait) {
  const std::string seconds = std::to_string(wait.count());
  Response response = problem(429, "too many wrong codes or tokens came from your address",
                              "wait for " + seconds + " s before the next");
  response.headers.emplace_back("Retry-After", seconds);
  return response;
}

Response problem(const arrow::Status& status) {
  const ProblemMeaning meaning = meaning_of(status);
  return problem(meaning.status, status.message(), meaning.hint);
}

}  // namespace paceline::dashboard
