// Who may look: a code that opens one session, and the sessions that were opened.
//
// A code is 128 random bits and works once; the next one is made then. A session is 256 random bits in a cookie, and
// lasts as long as the server. Compared in a time that does not tell where they differ. Thread-safe.
#pragma once

#include <arrow/result.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/dashboard/message.h"

namespace paceline::dashboard {

class Sessions {
 public:
  /// At most so many sessions; the oldest ends when another is opened.
  static constexpr size_t kMostSessions = 64;

  /// `on_new_code`: called with each code that follows the first, on the thread that has used the one before.
  using OnNewCode = std::function<void(const std::string& code)>;
  static arrow::Result<std::unique_ptr<Sessions>> create(OnNewCode on_new_code = nullptr);

  /// The code that opens the next session.
  std::string code() const;
  /// The cookie of a new session; nothing for a code that is wrong, or was used.
  std::optional<std::string> open(const std::string& code);
  /// The number of the session whose cookie the request has, from 1; nothing where it has none.
  std::optional<int64_t> session_of(const Request& request) const;

  /// Cookies know no ports: each server has a name of its own. Before the first request.
  void name_cookie(uint16_t port) { cookie_name_ = "paceline_session_" + std::to_string(port); }
  const std::string& cookie_name() const { return cookie_name_; }

 private:
  struct Session {
    int64_t number;
    std::string cookie;
  };
  explicit Sessions(std::string code, OnNewCode on_new_code)
      : on_new_code_(std::move(on_new_code)), code_(std::move(code)) {}

  OnNewCode on_new_code_;
  std::string cookie_name_ = "paceline_session";
  mutable std::mutex mutex_;
  std::string code_;
  int64_t opened_ = 0;
  std::vector<Session> sessions_;
};

/// The token with which Prometheus reads /metrics: in a file that only its user can read, made where there is
/// none, in a folder that is there.
/// Invalid when others may read it.
arrow::Result<std::string> metrics_token(const std::string& path);
/// Whether the request has that token, as "Authorization: Bearer TOKEN".
bool has_token(const Request& request, const std::string& token);

}  // namespace paceline::dashboard
