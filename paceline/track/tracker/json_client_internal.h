// JsonClient: JSON over HTTP for trackers that talk to a server.
//
// Not thread-safe. Errors: IOError for what may pass (no connection, a time-out, 408, 429, 5xx, abandoned), with the
// server's own words KeyError for 404 and Invalid for what else will not.
#pragma once

#include <arrow/result.h>

#include <stop_token>
#include <string>

#include "paceline/core/http/http_client.h"
#include "paceline/core/json.h"

namespace paceline::track {

class JsonClient {
 public:
  /// `base`: "https://server:5000/prefix/", in front of every path. `token`, or `password` ("NAME:PASSWORD") without
  /// one: who asks; "" for neither.
  JsonClient(std::string base, const std::string& token, std::string password, std::stop_token abandoned);

  arrow::Result<Json> get(const std::string& path);
  arrow::Result<Json> post(const std::string& path, const Json& body);
  /// Text as part of a query.
  std::string escaped(const std::string& text) const { return http_.escaped(text); }

 private:
  arrow::Result<Json> request(const HttpRequest& request);

  HttpClient http_;
};

}  // namespace paceline::track
