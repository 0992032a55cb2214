// Site: the addresses by which browsers have the dashboard besides those of the loopback: through a reverse proxy, and
// over the network. Pure.
#pragma once

#include <arrow/result.h>

#include <string>
#include <string_view>
#include <vector>

namespace paceline::dashboard {

struct Site {
  /// What browsers send as Origin: "https://train.example:8443"; "" where there is no proxy.
  std::string origin;
  /// What they send as Host: "train.example:8443".
  std::string host;
  /// Under which the dashboard lies there: "/tools/paceline/", "/" for the top. A proxy may leave the prefix in what it
  /// passes on, or take it away.
  std::string path = "/";
  /// The same in segments.
  std::vector<std::string> prefix;
  /// It listens at more than the loopback: then the address that a request came to is its host too, and these names.
  bool is_on_network = false;
  std::vector<std::string> names;

  bool is_given() const { return !origin.empty(); }
  bool operator==(const Site&) const = default;
};

/// Of an URL such as "https://train.example/tools/paceline". Invalid for another scheme, for a user, a query or a
/// fragment, and, unless `may_be_clear`, for http of a host other than the loopback: sessions would be in the clear on
/// the network.
arrow::Result<Site> parse_site(std::string_view url, bool may_be_clear = false);

}  // namespace paceline::dashboard
