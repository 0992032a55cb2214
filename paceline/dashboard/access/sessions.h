// Who may look: a code that opens one session, the token that opens any, and the sessions that were opened.
//
// A code is 128 random bits and works once; the next one is made then. The token is for who comes over the network, and
// lasts (token_file.h). Who is wrong about a secret too often has to wait (try_limit.h). A session is 256 random bits
// in a cookie, and lasts as long as the server. Compared in a time that does not tell where they differ. Thread-safe.
#pragma once

#include <arrow/result.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/dashboard/access/try_limit.h"
#include "paceline/dashboard/message.h"

namespace paceline::dashboard {

/// What somebody may be wrong about. They are counted apart: a scraper with an old token keeps nobody out.
enum class Secret { code_or_token, metrics_token };

class Sessions {
 public:
  /// At most so many sessions; the oldest ends when another is opened.
  static constexpr size_t kMostSessions = 64;

  /// At most so many codes; the oldest opens nothing any more when another is made.
  static constexpr size_t kMostCodes = 64;

  /// `on_new_code`: called with the code that follows the last one, on the thread that has used that.
  using OnNewCode = std::function<void(const std::string& code)>;
  /// `token`: opens sessions too; "" for none.
  static arrow::Result<std::unique_ptr<Sessions>> create(OnNewCode on_new_code = nullptr, std::string token = "");

  /// The code that was made last.
  std::string code() const;
  /// One more code, beside those that nobody has used. "" without random numbers.
  std::string another_code();
  /// The cookie of a new session; nothing for what is neither the token nor a code, or a code that was used.
  std::optional<std::string> open(const std::string& secret);
  /// How long somebody at that address must wait before saying another secret of the kind; nothing: not at all.
  std::optional<std::chrono::seconds> wait_of(Secret secret, const std::string& address) const;
  /// Somebody at that address was wrong.
  void note_wrong(Secret secret, const std::string& address);
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
  explicit Sessions(std::string code, OnNewCode on_new_code, std::string token)
      : on_new_code_(std::move(on_new_code)), token_(std::move(token)), codes_{std::move(code)} {}

  OnNewCode on_new_code_;
  const std::string token_;
  std::string cookie_name_ = "paceline_session";
  mutable std::mutex mutex_;
  std::vector<std::string> codes_;  // that nobody has used; never empty
  int64_t opened_ = 0;
  std::vector<Session> sessions_;
  std::map<Secret, TryLimit> limits_{{Secret::code_or_token, {}}, {Secret::metrics_token, {}}};
};

}  // namespace paceline::dashboard
