// What a browser asks and what it is answered: HTTP without sockets. Plain data.
#pragma once

#include <algorithm>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace paceline::dashboard {

/// Names of headers in small letters, in the order in which they came.
using Headers = std::vector<std::pair<std::string, std::string>>;

struct Request {
  std::string method;
  /// As it stands in the request: "/api/v1/runs?limit=10".
  std::string target;
  Headers headers;
  std::string body;
  /// Address of who asks: "127.0.0.1".
  std::string peer;
  /// This machine's, to which the request came.
  std::string own_address = {};
  /// Told when the connection ends before the answer.
  std::stop_token given_up = {};

  /// The header's value; nothing where there is none, or more than one.
  std::optional<std::string_view> header(std::string_view name) const {
    const auto is_it = [name](const auto& header) { return header.first == name; };
    const auto found = std::ranges::find_if(headers, is_it);
    if (found == headers.end() || std::ranges::count_if(headers, is_it) > 1) return std::nullopt;
    return found->second;
  }
};

/// The events that an answer goes on with, instead of a body (feed.h).
struct EventStream {
  std::vector<std::string> topics;
  std::string last_event_id;
};

struct Response {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  Headers headers = {};
  std::optional<EventStream> events = {};
};

}  // namespace paceline::dashboard
