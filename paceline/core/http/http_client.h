// HttpClient: requests to one HTTP server.
//
// Proxies, certificates and passwords in the address work as in curl. Not thread-safe. A connection is used again.
#pragma once

#include <arrow/result.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace paceline {

struct HttpRequest {
  /// "GET", "POST", "PUT".
  std::string method = "GET";
  /// Behind the address of the server.
  std::string path;
  std::string_view body = {};
  /// So long the whole of it may take.
  std::chrono::seconds patience{30};
};

struct HttpAnswer {
  int64_t code = 0;
  std::string body;
};

class HttpClient {
 public:
  struct Options {
    /// "https://server:5000/prefix/", in front of every path.
    std::string base;
    /// Of every request: "Name: value". They may hold secrets, so no error quotes them.
    std::vector<std::string> headers;
    /// "NAME:PASSWORD" of who asks; "" for neither.
    std::string password;
    /// To another address of the server's choice, with the same body.
    bool follows_redirects = false;
    /// Ends a request that is on its way.
    std::stop_token abandoned;
  };

  explicit HttpClient(Options options);
  ~HttpClient();

  /// What the server answers, of whatever code. Invalid: no libcurl, or an address that it cannot read. IOError: no
  /// answer, because there is no connection, it takes too long, or it was abandoned.
  arrow::Result<HttpAnswer> request(const HttpRequest& request);
  /// Text as part of a query.
  std::string escaped(const std::string& text) const;
  /// The server as errors name it: its address without a password.
  const std::string& name() const { return name_; }

 private:
  struct Handle;
  std::unique_ptr<Handle> handle_;
  Options options_;
  std::string name_;
};

}  // namespace paceline
