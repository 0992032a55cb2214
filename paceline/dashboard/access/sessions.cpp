#include "paceline/dashboard/access/sessions.h"

#include <algorithm>

#include "paceline/transport/trust.h"

namespace paceline::dashboard {
namespace {

// Calls `take` with the value of each cookie of that name.
template <class Take>
void visit_cookies(const Request& request, const std::string& name, const Take& take) {
  for (const auto& [header, value] : request.headers) {
    if (header != "cookie") continue;
    std::string_view rest = value;
    while (!rest.empty()) {
      const size_t end = rest.find(';');
      std::string_view cookie = rest.substr(0, end);
      rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
      cookie.remove_prefix(std::min(cookie.find_first_not_of(' '), cookie.size()));
      if (cookie.starts_with(name) && cookie.substr(name.size()).starts_with('=')) {
        take(std::string(cookie.substr(name.size() + 1)));
      }
    }
  }
}

}  // namespace

arrow::Result<std::unique_ptr<Sessions>> Sessions::create(OnNewCode on_new_code, std::string token) {
  ARROW_ASSIGN_OR_RAISE(std::string code, transport::random_id());
  return std::unique_ptr<Sessions>(new Sessions(std::move(code), std::move(on_new_code), std::move(token)));
}

std::string Sessions::code() const {
  const std::lock_guard lock(mutex_);
  return codes_.back();
}

std::string Sessions::another_code() {
  const auto code = transport::random_id();
  if (!code.ok()) return "";
  const std::lock_guard lock(mutex_);
  if (codes_.size() == kMostCodes) codes_.erase(codes_.begin());
  codes_.push_back(*code);
  return *code;
}

std::optional<std::string> Sessions::open(const std::string& secret) {
  const auto next = transport::random_id(), first = transport::random_id(), second = transport::random_id();
  if (!next.ok() || !first.ok() || !second.ok()) return std::nullopt;  // no random numbers: no sessions
  std::string cookie = *first + *second;
  bool is_last = false;
  {
    const std::lock_guard lock(mutex_);
    const auto code =
        std::ranges::find_if(codes_, [&](const std::string& one) { return transport::is_same_token(secret, one); });
    const bool is_code = code != codes_.end();
    const bool is_token = !token_.empty() && transport::is_same_token(secret, token_);
    if (!is_code && !is_token) return std::nullopt;
    if (is_code) codes_.erase(code);
    is_last = codes_.empty();
    if (is_last) codes_.push_back(*next);
    if (sessions_.size() == kMostSessions) sessions_.erase(sessions_.begin());
    sessions_.push_back({++opened_, cookie});
  }
  if (is_last && on_new_code_) on_new_code_(*next);
  return cookie;
}

std::optional<std::chrono::seconds> Sessions::wait_of(Secret secret, const std::string& address) const {
  const std::lock_guard lock(mutex_);
  return limits_.at(secret).wait_of(address, std::chrono::steady_clock::now());
}

void Sessions::note_wrong(Secret secret, const std::string& address) {
  const std::lock_guard lock(mutex_);
  limits_.at(secret).note_wrong(address, std::chrono::steady_clock::now());
}

std::optional<int64_t> Sessions::session_of(const Request& request) const {
  std::optional<int64_t> found;
  visit_cookies(request, cookie_name_, [&](const std::string& cookie) {
    const std::lock_guard lock(mutex_);
    for (const Session& session : sessions_) {
      if (transport::is_same_token(cookie, session.cookie)) found = session.number;
    }
  });
  return found;
}

}  // namespace paceline::dashboard
