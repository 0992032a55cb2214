#include "paceline/dashboard/access/site.h"

#include <algorithm>
#include <cctype>

#include "paceline/dashboard/access/guard.h"
#include "paceline/dashboard/target.h"

namespace paceline::dashboard {
namespace {

bool is_of_host(char letter) {
  return std::isalnum(static_cast<unsigned char>(letter)) != 0 ||
         std::string_view(".-_:[]").find(letter) != std::string_view::npos;
}

}  // namespace

arrow::Result<Site> parse_site(std::string_view url, bool may_be_clear) {
  const auto wrong = [url](const char* why) {
    return arrow::Status::Invalid("the external URL \"", url, "\" ", why,
                                  "; wanted one such as https://train.example/paceline");
  };
  const bool is_secure = url.starts_with("https://");
  if (!is_secure && !url.starts_with("http://")) return wrong("begins with neither https:// nor http://");
  const std::string_view rest = url.substr(is_secure ? 8 : 7);
  const size_t slash = std::min(rest.find('/'), rest.size());
  // As browsers write it: in small letters, without the port that the scheme has anyway.
  std::string host(rest.substr(0, slash));
  std::ranges::transform(host, host.begin(), [](unsigned char letter) { return std::tolower(letter); });
  if (const std::string_view usual = is_secure ? ":443" : ":80"; host.ends_with(usual)) {
    host.erase(host.size() - usual.size());
  }
  if (host.empty() || !std::ranges::all_of(host, is_of_host)) return wrong("has no host, or more than host and port");
  if (!is_secure && !may_be_clear && !is_loopback_host(host))
    return wrong("is not encrypted: who sees it on the network has a session");
  const std::string path = slash == rest.size() ? "/" : std::string(rest.substr(slash));
  if (path.find_first_of("?#") != std::string::npos) return wrong("has a query or a fragment");
  const auto target = parse_target(path);
  if (!target.ok()) return wrong("has a path that is none");
  return Site{.origin = std::string(is_secure ? "https://" : "http://") + host,
              .host = host,
              .path = path.ends_with('/') ? path : path + "/",
              .prefix = target->path};
}

}  // namespace paceline::dashboard
