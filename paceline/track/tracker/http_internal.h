// HttpClient: JSON over HTTP for trackers that talk to a server.
//
// Proxies, certificates and passwords in the address work as in curl. Not thread-safe. Errors: IOError for what may
// pass (no connection, a time-out, 408, 429, 5xx, abandoned), with the server's own words KeyError for 404 and Invalid
// for what else will not.
#pragma once

#include <arrow/result.h>

#include <memory>
#include <stop_token>
#include <string>

#include "paceline/core/json.h"

namespace paceline::track {

class HttpClient {
 public:
  /// `base`: "https://server:5000/prefix/", in front of every path. `token`, or `password` ("NAME:PASSWORD") without
  /// one: who asks; "" for neither.
  HttpClient(std::string base, const std::string& token, std::string password, std::stop_token abandoned);
  ~HttpClient();

  arrow::Result<Json> get(const std::string& path);
  arrow::Result<Json> post(const std::string& path, const Json& body);
  /// Text as part of a query.
  std::string escaped(const std::string& text) const;

 private:
  arrow::Result<Json> request(const std::string& path, const std::string* body);

  struct Handle;
  std::unique_ptr<Handle> handle_;
  std::string base_;
  std::string password_;
  std::stop_token abandoned_;
};

}  // namespace paceline::track
