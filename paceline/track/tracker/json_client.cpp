#include "paceline/track/tracker/json_client_internal.h"

#include <utility>

namespace paceline::track {
namespace {

// What an error message shows of an answer that is not MLflow's JSON, such as a proxy's page.
constexpr size_t kMostShown = 300;

std::string words_of(const std::string& answer) {
  const Json json = decode_json(answer).ValueOr(Json());
  if (json.is_object() && json.contains("message") && json["message"].is_string()) return json["message"];
  return answer.substr(0, kMostShown);
}

bool may_pass(int64_t code) {
  return code == 408 || code == 429 || code >= 500;
}

HttpClient::Options options_of(std::string base, const std::string& token, std::string password,
                               std::stop_token abandoned) {
  HttpClient::Options options{.base = std::move(base),
                              .headers = {"Content-Type: application/json"},
                              .password = token.empty() ? std::move(password) : "",
                              .follows_redirects = true,
                              .abandoned = std::move(abandoned)};
  if (!token.empty()) options.headers.push_back("Authorization: Bearer " + token);
  return options;
}

}  // namespace

JsonClient::JsonClient(std::string base, const std::string& token, std::string password, std::stop_token abandoned)
    : http_(options_of(std::move(base), token, std::move(password), std::move(abandoned))) {}

arrow::Result<Json> JsonClient::get(const std::string& path) {
  return request({.path = path});
}

arrow::Result<Json> JsonClient::post(const std::string& path, const Json& body) {
  const std::string text = body.dump(-1, ' ', false, Json::error_handler_t::replace);
  return request({.method = "POST", .path = path, .body = text});
}

arrow::Result<Json> JsonClient::request(const HttpRequest& request) {
  ARROW_ASSIGN_OR_RAISE(const HttpAnswer answer, http_.request(request));
  if (answer.code == 200) return decode_json(answer.body.empty() ? "{}" : answer.body);
  const std::string text = http_.name() + " answered " + std::to_string(answer.code) + " to " +
                           request.path.substr(0, request.path.find('?')) + ": " + words_of(answer.body);
  if (may_pass(answer.code)) return arrow::Status::IOError(text);
  return answer.code == 404 ? arrow::Status::KeyError(text) : arrow::Status::Invalid(text);
}

}  // namespace paceline::track
