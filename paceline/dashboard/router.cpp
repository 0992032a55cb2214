#include "paceline/dashboard/router.h"

#include <algorithm>
#include <exception>

#include "paceline/core/spelling.h"
#include "paceline/dashboard/access/guard.h"
#include "paceline/dashboard/access/token_file.h"
#include "paceline/dashboard/problem.h"

namespace paceline::dashboard {
namespace {

constexpr const char* kWithToken =
    "the token is in the file metrics_token of the state directory; send it as `Authorization: Bearer TOKEN`, in "
    "Prometheus `authorization: {credentials_file: …}`";

bool is_of_interface(const std::vector<std::string>& path) {
  if (path.empty()) return false;
  return path[0] == "api" || (path.size() == 1 && (path[0] == "metrics" || path[0] == "healthz"));
}

// "" where the route takes all that the query has.
std::string problem_of_query(const Route& route, const Query& query) {
  std::vector<std::string> known;
  for (const Parameter& parameter : route.query) known.emplace_back(parameter.name);
  for (const auto& [name, value] : query.values()) {
    if (std::ranges::find(known, name) != known.end()) continue;
    return std::string(route.path) + " takes no \"" + name + "\"" + suggestion(name, known);
  }
  return "";
}

Response wrong_method(const std::string& allowed) {
  Response response = problem(405, "this address does not take the method", "it takes " + allowed);
  response.headers.emplace_back("Allow", allowed);
  return response;
}

// Whether the path began with the prefix, which is not empty, and now does not.
bool drop_prefix(std::vector<std::string>& path, const std::vector<std::string>& prefix) {
  if (prefix.empty() || path.size() < prefix.size() || !std::equal(prefix.begin(), prefix.end(), path.begin())) {
    return false;
  }
  path.erase(path.begin(), path.begin() + std::ssize(prefix));
  return true;
}

bool is_of_folder(std::string_view target) {
  return target.substr(0, target.find('?')).ends_with('/');
}

Response moved_to(const std::string& path) {
  return {.status = 308, .content_type = "text/plain", .headers = {{"Location", path}}};
}

// A name for a file of the page: "fonts/a.woff2".
std::string joined(const std::vector<std::string>& path) {
  std::string name;
  for (const std::string& part : path) name += (name.empty() ? "" : "/") + part;
  return name;
}

}  // namespace

Response Router::answer(const Request& request) const {
  Response response;
  try {
    response = answer_unguarded(request);
  } catch (const std::exception& error) {  // of the standard library: no memory
    response = problem(500, error.what(), "ask again");
  }
  add_security_headers(response);
  return response;
}

Response Router::answer_unguarded(const Request& request) const {
  if (auto refusal = refuse_stranger(request, site_)) return *std::move(refusal);
  auto target = parse_target(request.target);
  if (!target.ok()) return problem(target.status());
  if (drop_prefix(target->path, site_.prefix) && target->path.empty() && !is_of_folder(request.target)) {
    return moved_to(site_.path);  // addresses in the page are relative to its folder
  }
  return is_of_interface(target->path) ? answer_interface(request, *target) : answer_page(request, *target);
}

std::optional<Response> Router::refuse_without(Needs needs, const Request& request, std::string& who) const {
  const auto session = sessions_.session_of(request);
  who = (session ? "session " + std::to_string(*session) : std::string("somebody")) + " from " + request.peer;
  if (needs == Needs::nothing || session) return std::nullopt;
  if (needs == Needs::session_or_token && request.header("authorization")) {
    if (has_token(request, token_)) return std::nullopt;
    if (const auto wait = sessions_.wait_of(Secret::metrics_token, request.peer)) return wait_before_next(*wait);
    sessions_.note_wrong(Secret::metrics_token, request.peer);
    return problem(401, "this is not the token for /metrics", kWithToken);
  }
  if (needs == Needs::session_or_token) {
    return problem(401, "the request has neither the token for /metrics nor a session", kWithToken);
  }
  return problem(401, "the request has no cookie of a session",
                 "open the address with a code that `paceline dashboard` has printed; a code works once");
}

Response Router::answer_interface(const Request& request, const Target& target) const {
  if (auto refusal = refuse_other_site(request, site_)) return *std::move(refusal);
  const std::string method = request.method == "HEAD" ? "GET" : request.method;
  std::string allowed, who;
  std::map<std::string, std::string> parts;
  for (const Route& route : routes()) {
    if (!matches(route, target.path, parts)) continue;
    if (method != route.method) {
      const std::string one = route.method == std::string("GET") ? "GET, HEAD" : route.method;
      allowed += (allowed.empty() ? "" : ", ") + one;
      continue;
    }
    if (auto refusal = refuse_without(route.needs, request, who)) return *std::move(refusal);
    if (route.needs != Needs::nothing) {
      if (auto refusal = refuse_form(request)) return *std::move(refusal);
    }
    if (const std::string wrong = problem_of_query(route, target.query); !wrong.empty()) {
      return problem(arrow::Status::Invalid(wrong));
    }
    auto response = route.answer(api_, {.request = request, .parts = parts, .query = target.query, .who = who});
    if (!response.ok()) return problem(response.status());
    if (response->status < 400) response->content_type = route.content_type;
    return *std::move(response);
  }
  if (auto refusal = refuse_without(Needs::session, request, who)) return *std::move(refusal);
  if (!allowed.empty()) return wrong_method(allowed);
  return problem(404, "the interface has no such address", "GET /api/v1/openapi.json describes all that there are");
}

Response Router::answer_page(const Request& request, const Target& target) const {
  if (request.method == "POST") return wrong_method("GET, HEAD");
  const std::string name = target.path.empty() ? "" : joined(target.path) + (is_of_folder(request.target) ? "/" : "");
  const auto asset = assets_.find(name.empty() || name.ends_with('/') ? name + "index.html" : name);
  if (!asset) return problem(404, "the page has no such file", "open /");
  Response response{.content_type = asset->content_type,
                    .headers = {{"ETag", asset->etag}, {"Cache-Control", asset->cache_control}}};
  if (!target.path.empty() && target.path[0] == "speedscope") {
    response.headers.emplace_back(kPolicyHeader, kViewerPolicy);
  }
  const auto known = request.header("if-none-match");
  if (known && *known == asset->etag) {
    response.status = 304;
  } else {
    response.body = asset->body;
  }
  return response;
}

}  // namespace paceline::dashboard
