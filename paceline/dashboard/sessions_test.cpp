// Codes, cookies, and the file with the token.
#include "paceline/dashboard/sessions.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>

#include "paceline/testing/temporary_folder.h"

namespace paceline::dashboard {
namespace {

using ::testing::HasSubstr;

Request with_cookie(const std::string& cookie) {
  return {.headers = {{"cookie", cookie}}};
}

TEST(Sessions, ACodeIsReplacedWhenItIsUsed) {
  std::vector<std::string> codes;
  const auto sessions = Sessions::create([&codes](const std::string& code) { codes.push_back(code); }).ValueOrDie();
  const std::string first = sessions->code();
  EXPECT_EQ(sessions->open(first + "0"), std::nullopt);
  EXPECT_EQ(sessions->open(""), std::nullopt);
  const auto cookie = sessions->open(first);
  ASSERT_TRUE(cookie);
  EXPECT_EQ(cookie->size(), 64u);
  EXPECT_EQ(sessions->open(first), std::nullopt);
  ASSERT_EQ(codes.size(), 1u);
  EXPECT_EQ(codes[0], sessions->code());
  EXPECT_NE(sessions->open(codes[0]), cookie);
}

TEST(Sessions, ACookieIsFoundAmongOthers) {
  const auto sessions = Sessions::create().ValueOrDie();
  sessions->name_cookie(8265);
  const std::string cookie = "paceline_session_8265=" + sessions->open(sessions->code()).value();
  EXPECT_EQ(sessions->session_of(with_cookie(cookie)), 1);
  EXPECT_EQ(sessions->session_of(with_cookie("a=b;  " + cookie + "; c")), 1);
  const std::vector<std::string> wrong_ones = {"", ";;", "=", cookie + "0", "x" + cookie, cookie.substr(1)};
  for (const std::string& wrong : wrong_ones) {
    EXPECT_EQ(sessions->session_of(with_cookie(wrong)), std::nullopt) << wrong;
  }
}

TEST(Sessions, TheOldestEndsWhenThereAreTooMany) {
  const auto sessions = Sessions::create().ValueOrDie();
  const std::string first = sessions->cookie_name() + "=" + sessions->open(sessions->code()).value();
  for (size_t i = 1; i < Sessions::kMostSessions; ++i) ASSERT_TRUE(sessions->open(sessions->code()));
  EXPECT_EQ(sessions->session_of(with_cookie(first)), 1);
  ASSERT_TRUE(sessions->open(sessions->code()));
  EXPECT_EQ(sessions->session_of(with_cookie(first)), std::nullopt);
}

TEST(MetricsToken, IsMadeOnceForItsUserAlone) {
  const testing::TemporaryFolder folder;
  const std::string path = folder / "metrics_token";
  const std::string token = metrics_token(path).ValueOrDie();
  EXPECT_EQ(token.size(), 32u);
  EXPECT_EQ(metrics_token(path).ValueOrDie(), token);
  struct stat what{};
  ASSERT_EQ(::stat(path.c_str(), &what), 0);
  EXPECT_EQ(what.st_mode & 0777, 0600u);
  ::chmod(path.c_str(), 0640);
  EXPECT_THAT(metrics_token(path).status().message(), HasSubstr("wanted mode 0600, got 0640"));
  testing::write_file(path, "short\n");
  ::chmod(path.c_str(), 0600);
  EXPECT_THAT(metrics_token(path).status().message(), HasSubstr("holds no token"));
  std::filesystem::remove(path);
  std::filesystem::create_symlink(folder / "elsewhere", path);
  EXPECT_FALSE(metrics_token(path).ok());
}

}  // namespace
}  // namespace paceline::dashboard
