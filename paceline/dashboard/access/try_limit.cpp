#include "paceline/dashboard/access/try_limit.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>

namespace paceline::dashboard {

std::string counted_as(const std::string& address) {
  std::array<unsigned char, 16> bytes{};
  constexpr size_t kPrefix = 8;
  const std::string without_zone = address.substr(0, address.find('%'));  // "fe80::1%eth0"
  if (::inet_pton(AF_INET6, without_zone.c_str(), bytes.data()) != 1) return address;
  return "/64 " + std::string(bytes.begin(), bytes.begin() + kPrefix);
}

std::optional<std::chrono::seconds> TryLimit::wait_of(const std::string& address, Time now) const {
  const auto found = until_.find(counted_as(address));
  if (found == until_.end()) return std::nullopt;
  const auto wait = std::chrono::ceil<std::chrono::seconds>(found->second - now - (kTries - 1) * kPause);
  return wait.count() > 0 ? std::optional(wait) : std::nullopt;
}

void TryLimit::note_wrong(const std::string& address, Time now) {
  if (until_.size() >= kMostAddresses) std::erase_if(until_, [now](const auto& one) { return one.second <= now; });
  if (until_.size() >= kMostAddresses) {
    until_.erase(std::ranges::min_element(until_, {}, [](const auto& one) { return one.second; }));
  }
  Time& until = until_[counted_as(address)];
  until = std::max(until, now) + kPause;
}

}  // namespace paceline::dashboard
