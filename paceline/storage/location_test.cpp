#include "paceline/storage/location.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "paceline/testing/in_fork.h"

namespace paceline::storage {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Location, ObjectStoresAreKeptAsUris) {
  EXPECT_EQ(resolve_location("s3://bucket/runs/?region=eu-west-1", "/here").ValueOrDie(),
            "s3://bucket/runs?region=eu-west-1");
  EXPECT_EQ(resolve_location("GS://bucket", "/here").ValueOrDie(), "gs://bucket");
  EXPECT_EQ(resolve_location("abfs://data@account.dfs.core.windows.net/a//", "/").ValueOrDie(),
            "abfs://data@account.dfs.core.windows.net/a");
  EXPECT_EQ(resolve_location("runs", "/here").ValueOrDie(), "/here/runs");
  EXPECT_EQ(resolve_location("file:///a%20b", "/here").ValueOrDie(), "/a b");
}

TEST(Location, RefusesWhatCannotHoldARun) {
  EXPECT_THAT(resolve_location("ftp://host/x", "/").status().message(), HasSubstr("s3://BUCKET"));
  EXPECT_THAT(resolve_location("s3:///", "/").status().message(), HasSubstr("names no bucket"));
}

// In a child, whose current directory is its own.
TEST(Location, RelativeOnesAreNoneWhereTheCurrentDirectoryIsGone) {
  EXPECT_EQ(resolve_here("runs").ValueOrDie(), std::filesystem::current_path().string() + "/runs");
  const auto check = [] {
    char folder[] = "/tmp/gone_XXXXXX";
    if (::mkdtemp(folder) == nullptr || ::chdir(folder) != 0 || ::rmdir(folder) != 0) return false;
    const std::string why = resolve_here("runs").status().message();
    return why.find("the current directory is gone") != std::string::npos &&
           resolve_here("/runs").ValueOrDie() == "/runs" && resolve_here("s3://bucket/a").ok();
  };
  EXPECT_TRUE(testing::holds_in_fork(check));
}

TEST(Location, JoinsBeforeTheOptions) {
  EXPECT_EQ(join("s3://bucket/runs?region=x", "my run/checkpoint_000001"),
            "s3://bucket/runs/my%20run/checkpoint_000001?region=x");
  EXPECT_EQ(join("/runs", "my run"), "/runs/my run");
  EXPECT_EQ(join("/", "run"), "/run");
  EXPECT_EQ(last_part("s3://bucket/runs/my%20run?region=x"), "my run");
  EXPECT_EQ(last_part("/runs/my run"), "my run");
}

TEST(Location, KeysAreInNoTextOfIt) {
  const auto shown = [](const std::string& uri) { return Location(uri).text(); };
  EXPECT_EQ(shown("s3://KEY:SECRET@bucket/a?region=x&secret_key=y&access_key=z"),
            "s3://KEY:…@bucket/a?region=x&secret_key=…&access_key=…");
  EXPECT_EQ(shown("abfs://data@account:80/a?sig=abc&enable_tls=false"),
            "abfs://data@account:80/a?sig=…&enable_tls=false");
  EXPECT_EQ(shown("s3://KEY:SEC/RET@bucket/a"), "s3://KEY:…");
  EXPECT_EQ(shown("s3://KEY:/SECRET@bucket/a"), "s3://KEY:…") << "a key that begins with /";
  EXPECT_EQ(shown("s3://KEY:12/SECRET@bucket/a"), "s3://KEY:…") << "a key that begins with digits";
  EXPECT_EQ(shown("abfs://account:12/SECRET@host/a"), "abfs://account:…");
  EXPECT_EQ(shown("s3://bucket/a?endpoint_override=http://me:SECRET@host"), "s3://bucket/a?endpoint_override=…");
  EXPECT_EQ(shown("s3://KEY:SEC?RET@bucket/a&region=x"), "s3://KEY:…?…&region=x");
  EXPECT_EQ(shown("s4://KEY:SECRET@bucket/a?b=c"), "s4://KEY:…@bucket/a?b=…");
  EXPECT_EQ(shown("/a?b"), "/a?b");

  const Location run("s3://KEY:SEC%2FRET@bucket/run?token=abcdef");
  const std::string text = "s3://KEY:…@bucket/run?token=…";
  EXPECT_EQ(nlohmann::json{run}.dump(), "[\"" + text + "\"]");
  EXPECT_EQ("in " + run + "!", "in " + text + "!");
  EXPECT_EQ((std::ostringstream() << run).str(), text);
  EXPECT_EQ(::testing::PrintToString(run), text);
  EXPECT_EQ(arrow::Status::Invalid(run).message(), text);
  EXPECT_EQ(run.redacted("cannot parse s3://KEY:SEC%2FRET@bucket/run?token=abcdef: SEC/RET abcdef"),
            "cannot parse " + text + ": … …");
}

TEST(Location, HasItsKeysForWhoOpensIt) {
  const Location run = resolve_location("s3://KEY:SECRET@bucket/run/?token=abcdef", "/").ValueOrDie();
  EXPECT_EQ(run.with_credentials(), "s3://KEY:SECRET@bucket/run?token=abcdef");
  EXPECT_EQ(join(run, "a").with_credentials(), "s3://KEY:SECRET@bucket/run/a?token=abcdef");
  EXPECT_FALSE(run.lacks_credentials());
  EXPECT_TRUE(Location(run.text()).lacks_credentials());
  EXPECT_TRUE(Location(join(run, "a").text()).lacks_credentials());
  EXPECT_EQ(Location(run.text()), run) << "the same place";
  EXPECT_FALSE(Location("/home/a…").lacks_credentials());
}

TEST(Location, AKeyThatIsNotEscapedIsRefused) {
  const auto refused = resolve_location("s3://KEY:SEC/RET@bucket/a", "/").status().message();
  EXPECT_THAT(refused, AllOf(HasSubstr("%2F"), Not(HasSubstr("SEC"))));
}

TEST(Location, WhatWasMeantAsAUriBecomesNoFolder) {
  for (const char* text : {" s3://KEY:SECRET@bucket/a", "s3:/KEY:SECRET@bucket/a", "\"gs://bucket\""}) {
    const auto refused = resolve_location(text, "/").status().message();
    EXPECT_THAT(refused, AllOf(HasSubstr("://BUCKET/FOLDER"), Not(HasSubstr("SECRET")))) << text;
  }
  EXPECT_EQ(resolve_location("s3:a", "/here").ValueOrDie(), "/here/s3:a");
  EXPECT_EQ(resolve_location("./s3:/a", "/here").ValueOrDie(), "/here/s3:/a");
}

}  // namespace
}  // namespace paceline::storage
