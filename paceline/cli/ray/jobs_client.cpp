#include "paceline/cli/ray/jobs_client.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <iterator>
#include <sstream>
#include <vector>

#include "paceline/core/state_directory.h"

namespace paceline::cli {
namespace {

constexpr const char* kThisMachine = "http://127.0.0.1:8265";
constexpr std::chrono::minutes kUploadPatience{30};
constexpr std::chrono::minutes kSubmitPatience{2};  // Ray first looks for an agent on its head
constexpr size_t kMostShown = 1000;

std::string trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

bool is_http(const std::string& address) {
  return address.starts_with("http://") || address.starts_with("https://");
}

arrow::Result<std::string> address_of(const std::string& given, const launch::Variables& variables) {
  constexpr const char* kWanted = "; wanted: the address of the cluster's dashboard, such as http://HEAD:8265";
  if (!given.empty()) {
    if (is_http(given)) return given;
    if (given.find("://") == std::string::npos && given != "auto") return "http://" + given;
    return arrow::Status::Invalid("--address is \"", given, "\"", kWanted);
  }
  if (const auto address = variables("RAY_API_SERVER_ADDRESS"); address && !address->empty()) {
    if (is_http(*address)) return *address;
    return arrow::Status::Invalid("RAY_API_SERVER_ADDRESS is \"", *address, "\"", kWanted);
  }
  const std::string address = variables("RAY_ADDRESS").value_or("");
  if (is_http(address)) return address;
  if (address.empty()) return kThisMachine;
  return arrow::Status::Invalid("RAY_ADDRESS is \"", address, "\", which is not where jobs are submitted", kWanted,
                                " (--address)");
}

// A name or value with a line break would be two headers.
bool is_header_text(const std::string& text) {
  return std::ranges::none_of(text, [](unsigned char c) { return c < ' ' || c == 0x7f; });
}

arrow::Result<std::vector<std::string>> given_headers(const launch::Variables& variables) {
  std::vector<std::string> headers;
  const auto text = variables("RAY_JOB_HEADERS");
  if (!text || text->empty()) return headers;
  // What it holds may be a secret: the error does not quote it.
  const arrow::Status wrong =
      arrow::Status::Invalid("RAY_JOB_HEADERS is no JSON object of texts by name, such as {\"X-Name\": \"value\"}");
  const Json json = decode_json(*text).ValueOr(Json());
  if (!json.is_object()) return wrong;
  for (const auto& [name, value] : json.items()) {
    if (!value.is_string() || !is_header_text(name) || !is_header_text(value)) return wrong;
    headers.push_back(name + ": " + value.get<std::string>());
  }
  return headers;
}

arrow::Result<std::string> token_of(const launch::Variables& variables) {
  if (const auto token = variables("RAY_AUTH_TOKEN"); token && !trimmed(*token).empty()) return trimmed(*token);
  const auto named = variables("RAY_AUTH_TOKEN_PATH");
  const std::string path = named && !named->empty() ? *named : home_directory() + "/.ray/auth_token";
  std::ifstream file(path);
  const std::string token = trimmed(std::string(std::istreambuf_iterator<char>(file), {}));
  if (!token.empty() && is_header_text(token)) return token;
  return arrow::Status::Invalid(
      "RAY_AUTH_MODE is \"token\", but there is none: neither RAY_AUTH_TOKEN has one nor the file ", path);
}

arrow::Result<std::vector<std::string>> headers_of(const launch::Variables& variables) {
  ARROW_ASSIGN_OR_RAISE(std::vector<std::string> headers, given_headers(variables));
  const bool says_who =
      std::ranges::any_of(headers, [](const std::string& line) { return lower(line).starts_with("authorization:"); });
  if (!says_who && lower(variables("RAY_AUTH_MODE").value_or("")) == "token") {
    ARROW_ASSIGN_OR_RAISE(const std::string token, token_of(variables));
    headers.push_back("Authorization: Bearer " + token);
  }
  headers.emplace_back("Content-Type: application/json");
  return headers;
}

// Ray reads a log that it follows as Python reads text: "\r\n" and "\r" end a line as "\n" does.
std::string with_plain_line_ends(const std::string& text) {
  std::string plain;
  plain.reserve(text.size());
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '\r') {
      plain.push_back(text[at]);
    } else if (at + 1 == text.size() || text[at + 1] != '\n') {
      plain.push_back('\n');
    }
  }
  return plain;
}

// Ray answers with the traceback of what went wrong: its last line is the reason.
std::string reason_in(const std::string& answer) {
  const std::string text = trimmed(answer);
  const bool is_traceback = text.starts_with("Traceback");
  const size_t line = is_traceback ? text.rfind("\n", text.size()) : std::string::npos;
  return (line == std::string::npos ? text : text.substr(line + 1)).substr(0, kMostShown);
}

}  // namespace

arrow::Result<JobsClient> JobsClient::make(const std::string& address, const launch::Variables& variables) {
  ARROW_ASSIGN_OR_RAISE(std::string base, address_of(address, variables));
  ARROW_ASSIGN_OR_RAISE(std::vector<std::string> headers, headers_of(variables));
  return JobsClient({.base = std::move(base), .headers = std::move(headers)});
}

arrow::Result<HttpAnswer> JobsClient::ask(const HttpRequest& request) {
  ARROW_ASSIGN_OR_RAISE(HttpAnswer answer, http_->request(request));
  if (answer.code == 401 || answer.code == 403) {
    return arrow::Status::Invalid(
        name(), " does not know who asks (", answer.code,
        "); set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN_PATH to a file with the cluster's token, or "
        "RAY_JOB_HEADERS to what a proxy before it wants");
  }
  if (answer.code == 200 || answer.code == 404) return answer;
  const std::string text = name() + " answered " + std::to_string(answer.code) + " to " + request.method + " " +
                           request.path + ": " + reason_in(answer.body);
  return answer.code >= 500 || answer.code == 429 ? arrow::Status::IOError(text) : arrow::Status::Invalid(text);
}

arrow::Result<Json> JobsClient::ask_json(const HttpRequest& request) {
  ARROW_ASSIGN_OR_RAISE(const HttpAnswer answer, ask(request));
  if (answer.code == 404) {
    return arrow::Status::Invalid(name(), " knows no ", request.path, ": ", reason_in(answer.body));
  }
  auto json = decode_json(answer.body);
  if (json.ok() && json->is_object()) return json;
  return arrow::Status::Invalid(name(), " answered ", request.path,
                                " with what is no JSON object; is it the dashboard of a Ray cluster?");
}

arrow::Result<std::string> JobsClient::version() {
  ARROW_ASSIGN_OR_RAISE(const Json answer, ask_json({.path = "api/version"}));
  if (answer.contains("ray_version") && answer["ray_version"].is_string())
    return answer["ray_version"].get<std::string>();
  return arrow::Status::Invalid(name(),
                                " does not say which version of Ray it has; is it the dashboard of a Ray cluster?");
}

arrow::Result<bool> JobsClient::upload(const Package& package) {
  const std::string path = "api/packages/gcs/" + package.name;
  ARROW_ASSIGN_OR_RAISE(const HttpAnswer there, ask({.path = path}));
  if (there.code == 200) return false;
  ARROW_ASSIGN_OR_RAISE(const HttpAnswer taken,
                        ask({.method = "PUT", .path = path, .body = package.bytes, .patience = kUploadPatience}));
  if (taken.code == 200) return true;
  return arrow::Status::Invalid(name(), " does not take packages (404); jobs need Ray 2.0 or later with its dashboard");
}

arrow::Status JobsClient::submit(const std::string& id, const std::string& command, const Json& runtime_env) {
  const std::string text = encode_json({{"entrypoint", command}, {"submission_id", id}, {"runtime_env", runtime_env}});
  return ask_json({.method = "POST", .path = "api/jobs/", .body = text, .patience = kSubmitPatience}).status();
}

arrow::Result<RayJob> JobsClient::job(const std::string& id) {
  ARROW_ASSIGN_OR_RAISE(const Json answer, ask_json({.path = "api/jobs/" + id}));
  const auto text = [&answer](const char* name) {
    return answer.contains(name) && answer[name].is_string() ? answer[name].get<std::string>() : std::string();
  };
  RayJob job{.status = text("status"), .message = text("message"), .exit_code = std::nullopt};
  if (answer.contains("driver_exit_code") && answer["driver_exit_code"].is_number_integer()) {
    job.exit_code = answer["driver_exit_code"].get<int64_t>();
  }
  return job;
}

arrow::Result<std::string> JobsClient::logs(const std::string& id) {
  ARROW_ASSIGN_OR_RAISE(const Json answer, ask_json({.path = "api/jobs/" + id + "/logs"}));
  if (!answer.contains("logs") || !answer["logs"].is_string()) return "";
  return with_plain_line_ends(answer["logs"].get<std::string>());
}

arrow::Result<std::unique_ptr<WebSocket>> JobsClient::follow(const std::string& id) {
  return WebSocket::open(options_, "api/jobs/" + id + "/logs/tail");
}

arrow::Status JobsClient::stop(const std::string& id) {
  return ask_json({.method = "POST", .path = "api/jobs/" + id + "/stop"}).status();
}

}  // namespace paceline::cli
