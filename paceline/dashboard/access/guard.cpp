#include "paceline/dashboard/access/guard.h"

#include <algorithm>
#include <cctype>

#include "paceline/dashboard/problem.h"

namespace paceline::dashboard {
namespace {

constexpr const char* kThisSite =
    "open the dashboard by the address that `paceline dashboard` prints; behind a proxy, or by another name of the "
    "machine, it needs --external-url";

std::string quoted(const std::optional<std::string_view>& value) {
  return value ? "\"" + std::string(*value) + "\"" : "none, or several";
}

// "train" of "train:8265"; "" where behind the name is no port.
std::string_view name_in(std::string_view host) {
  const size_t end = host.starts_with('[') ? host.find(']') + 1 : host.find(':');
  const std::string_view port = end == std::string_view::npos ? "" : host.substr(end);
  const bool has_port = port.size() > 1 && port[0] == ':' && port.size() <= 6 &&
                        port.find_first_not_of("0123456789", 1) == std::string_view::npos;
  return port.empty() || has_port ? host.substr(0, end) : "";
}

}  // namespace

bool is_loopback_host(std::string_view host) {
  const std::string_view name = name_in(host);
  return name == "localhost" || name == "127.0.0.1" || name == "[::1]";
}

bool is_own_host(std::string_view host, const Request& request, const Site& site) {
  if (is_loopback_host(host) || (site.is_given() && host == site.host)) return true;
  if (!site.is_on_network) return false;
  std::string name(name_in(host));
  std::ranges::transform(name, name.begin(), [](unsigned char letter) { return std::tolower(letter); });
  const std::string& own = request.own_address;
  if (name.empty()) return false;
  return name == (own.find(':') == std::string::npos ? own : "[" + own + "]") ||
         std::ranges::find(site.names, name) != site.names.end();
}

std::optional<Response> refuse_stranger(const Request& request, const Site& site) {
  if (request.method != "GET" && request.method != "HEAD" && request.method != "POST") {
    Response response =
        problem(405, "the dashboard does not answer " + request.method, "it answers GET, HEAD and POST");
    response.headers.emplace_back("Allow", "GET, HEAD, POST");
    return response;
  }
  const auto host = request.header("host");
  if (!host) return problem(400, "the request has no Host header, or several", "send one");
  if (!is_own_host(*host, request, site)) {
    return problem(403, "the request is for the host " + quoted(host) + ", which this dashboard is not", kThisSite);
  }
  return std::nullopt;
}

std::optional<Response> refuse_other_site(const Request& request, const Site& site) {
  const auto is_given = [&request](std::string_view name) {
    return std::ranges::any_of(request.headers, [name](const auto& header) { return header.first == name; });
  };
  if (is_given("origin")) {
    const auto origin = request.header("origin");
    const std::string host(request.header("host").value_or(""));
    const std::string own = site.is_given() && host == site.host ? site.origin : "http://" + host;
    if (!origin || !(*origin == own || (site.is_given() && *origin == site.origin))) {
      return problem(403, "the request comes from a page of another site, " + quoted(origin), kThisSite);
    }
  }
  if (is_given("sec-fetch-site")) {
    const auto from = request.header("sec-fetch-site");
    if (!from || (*from != "same-origin" && *from != "none")) {
      return problem(403, "the request comes from a page of another site (Sec-Fetch-Site " + quoted(from) + ")",
                     kThisSite);
    }
  }
  return std::nullopt;
}

std::optional<Response> refuse_form(const Request& request) {
  if (request.method != "POST" || request.header(kOwnHeader)) return std::nullopt;
  return problem(403, "what changes something needs the header X-Paceline", "send it, with any value");
}

void add_security_headers(Response& response) {
  const auto has = [&response](std::string_view name) {
    return std::ranges::any_of(response.headers, [name](const auto& header) { return header.first == name; });
  };
  if (!has(kPolicyHeader)) {
    response.headers.emplace_back(kPolicyHeader,
                                  "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
                                  "object-src 'none'");
  }
  response.headers.emplace_back("X-Content-Type-Options", "nosniff");
  response.headers.emplace_back("X-Frame-Options", "DENY");
  response.headers.emplace_back("Referrer-Policy", "no-referrer");
  response.headers.emplace_back("Cross-Origin-Opener-Policy", "same-origin");
  response.headers.emplace_back("Cross-Origin-Resource-Policy", "same-origin");
  if (!has("Cache-Control")) response.headers.emplace_back("Cache-Control", "no-store");
}

}  // namespace paceline::dashboard
