// The files of the page: how long they may be kept, and where they come from.
#include "paceline/dashboard/assets.h"

#include <gmock/gmock.h>

#include "paceline/dashboard/served_runs_fixture.h"

namespace paceline::dashboard {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Pair;

TEST(Assets, NamesWithAHashAreKnown) {
  for (const char* hashed : {"app-8F3A91C2.js", "app-XK2LQ7ZA.css", "a/b-0123456789abcdef.js.map", "app-deadbeef.js"}) {
    EXPECT_TRUE(is_hashed(hashed)) << hashed;
  }
  for (const char* plain :
       {"index.html", "app-main.js", "app-12345.js", "12345678.js", "app-8F3A91C2", "app-settings.js"}) {
    EXPECT_FALSE(is_hashed(plain)) << plain;
  }
}

TEST(Assets, TypesFollowFromNames) {
  EXPECT_EQ(content_type_of("index.html"), "text/html; charset=utf-8");
  EXPECT_EQ(content_type_of("app-8F3A91C2.js"), "text/javascript; charset=utf-8");
  EXPECT_EQ(content_type_of("unknown.xyz"), "application/octet-stream");
}

TEST(Assets, ThePageIsInTheProgram) {
  const auto page = embedded_assets()->find("index.html");
  ASSERT_TRUE(page);
  EXPECT_THAT(page->body, HasSubstr("<!doctype html>"));
  EXPECT_EQ(page->cache_control, "no-store");
  EXPECT_FALSE(embedded_assets()->find("nothing.js"));
  for (const EmbeddedFile& file : embedded_files()) EXPECT_EQ(file.hash.size(), 32u) << file.name;
}

TEST(Assets, AFolderMustBeThere) {
  EXPECT_THAT(folder_assets("/no/such/folder").status().message(), HasSubstr("/no/such/folder is no folder"));
}

using PageTest = ServedRunsTest;

TEST_F(PageTest, IsAskedForOnce) {
  const Response first = ask("GET", "/");
  EXPECT_EQ(first.content_type, "text/html; charset=utf-8");
  std::string etag;
  for (const auto& [name, value] : first.headers) {
    if (name == "ETag") etag = value;
  }
  const Response again = ask("GET", "/index.html", {{"if-none-match", etag}});
  EXPECT_EQ(again.status, 304);
  EXPECT_EQ(again.body, "");
  EXPECT_THAT(again.headers, Contains(Pair("ETag", etag)));
}

}  // namespace
}  // namespace paceline::dashboard
