#include "paceline/dashboard/access/site.h"

#include <gmock/gmock.h>

namespace paceline::dashboard {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Site, IsWhatBrowsersSend) {
  const Site site = parse_site("https://Train.Example:8443/tools/paceline").ValueOrDie();
  EXPECT_EQ(site.origin, "https://train.example:8443");
  EXPECT_EQ(site.host, "train.example:8443");
  EXPECT_EQ(site.path, "/tools/paceline/");
  EXPECT_THAT(site.prefix, ElementsAre("tools", "paceline"));
  EXPECT_EQ(parse_site("https://train.example:443/").ValueOrDie().origin, "https://train.example");
  EXPECT_EQ(parse_site("http://localhost:80").ValueOrDie(), (Site{"http://localhost", "localhost", "/", {}}));
  EXPECT_FALSE(Site().is_given());
}

TEST(Site, SaysWhatIsWrong) {
  for (const auto& [url, why] :
       std::vector<std::pair<const char*, const char*>>{{"", "neither https:// nor http://"},
                                                        {"train.example", "neither https:// nor http://"},
                                                        {"ftp://train.example", "neither https:// nor http://"},
                                                        {"https://", "no host"},
                                                        {"https:///paceline", "no host"},
                                                        {"https://ada@train.example", "more than host and port"},
                                                        {"https://train.example\r\nX: y", "more than host and port"},
                                                        {"http://train.example/", "not encrypted"},
                                                        {"http://127.0.0.1.evil.example", "not encrypted"},
                                                        {"https://train.example/?a=b", "a query or a fragment"},
                                                        {"https://train.example/a/../b", "a path that is none"},
                                                        {"https://train.example/a//b", "a path that is none"}}) {
    const arrow::Status status = parse_site(url).status();
    EXPECT_TRUE(status.IsInvalid()) << url;
    EXPECT_THAT(status.message(), HasSubstr(why)) << url;
  }
}

}  // namespace
}  // namespace paceline::dashboard
