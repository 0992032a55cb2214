// JobsClient: the Jobs interface of a Ray cluster, at the address of its dashboard.
//
// It asks as Ray's own client does: with the headers of RAY_JOB_HEADERS and, where RAY_AUTH_MODE is "token", the token
// of RAY_AUTH_TOKEN, of the file RAY_AUTH_TOKEN_PATH, or of ~/.ray/auth_token. Not thread-safe. Errors name the
// address, and never what proves who asks: IOError for what may pass (no connection, a time-out, 5xx), Invalid for what
// will not.
#pragma once

#include <arrow/result.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "paceline/cli/ray/package.h"
#include "paceline/core/http/http_client.h"
#include "paceline/core/http/web_socket.h"
#include "paceline/core/json.h"
#include "paceline/launch/program.h"

namespace paceline::cli {

struct RayJob {
  /// "PENDING", "RUNNING", "STOPPED", "SUCCEEDED", "FAILED".
  std::string status;
  std::string message;
  /// Of its command, once that has ended by itself.
  std::optional<int64_t> exit_code;

  bool is_over() const { return status == "STOPPED" || status == "SUCCEEDED" || status == "FAILED"; }
};

class JobsClient {
 public:
  /// `address`: "http://HEAD:8265"; "": RAY_API_SERVER_ADDRESS, else RAY_ADDRESS where that is one, else this
  /// machine's. Invalid when it is no such address, or a variable cannot be read.
  static arrow::Result<JobsClient> make(const std::string& address, const launch::Variables& variables);

  /// The version of Ray there.
  arrow::Result<std::string> version();
  /// Has the cluster keep the package; false when it had it.
  arrow::Result<bool> upload(const Package& package);
  /// Starts `command`, a shell's, as the job `id`.
  arrow::Status submit(const std::string& id, const std::string& command, const Json& runtime_env);
  arrow::Result<RayJob> job(const std::string& id);
  /// All that it has written, with line ends as follow() gives them.
  arrow::Result<std::string> logs(const std::string& id);
  /// What it writes, from its first line on, as it comes. IOError where something before the cluster lets none through.
  arrow::Result<std::unique_ptr<WebSocket>> follow(const std::string& id);
  /// Has Ray end it; returns before it has ended.
  arrow::Status stop(const std::string& id);

  const std::string& name() const { return http_->name(); }

 private:
  explicit JobsClient(const HttpClient::Options& options)
      : options_(options), http_(std::make_unique<HttpClient>(options)) {}
  arrow::Result<HttpAnswer> ask(const HttpRequest& request);
  arrow::Result<Json> ask_json(const HttpRequest& request);

  HttpClient::Options options_;
  std::unique_ptr<HttpClient> http_;
};

}  // namespace paceline::cli
