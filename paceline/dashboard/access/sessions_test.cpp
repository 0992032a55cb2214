// Codes, the token, and cookies.
#include "paceline/dashboard/access/sessions.h"

#include <gmock/gmock.h>

namespace paceline::dashboard {
namespace {

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

TEST(Sessions, FurtherCodesOpenBesideTheOthers) {
  std::vector<std::string> codes;
  const auto sessions = Sessions::create([&codes](const std::string& code) { codes.push_back(code); }).ValueOrDie();
  const std::string first = sessions->code(), second = sessions->another_code();
  EXPECT_EQ(sessions->code(), second);
  EXPECT_TRUE(sessions->open(first));
  EXPECT_EQ(sessions->open(first), std::nullopt);
  EXPECT_TRUE(codes.empty()) << "there is one more";
  EXPECT_TRUE(sessions->open(second));
  ASSERT_EQ(codes.size(), 1u);
  for (size_t i = 0; i < Sessions::kMostCodes; ++i) sessions->another_code();
  EXPECT_EQ(sessions->open(codes[0]), std::nullopt) << "of very many the oldest open nothing";
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

TEST(Sessions, TheTokenOpensAnyNumber) {
  const std::string token = "a token of a file with 32 letters";
  std::vector<std::string> codes;
  const auto sessions =
      Sessions::create([&codes](const std::string& code) { codes.push_back(code); }, token).ValueOrDie();
  const std::string code = sessions->code();
  ASSERT_TRUE(sessions->open(token));
  ASSERT_TRUE(sessions->open(token));
  EXPECT_EQ(sessions->open(token + "x"), std::nullopt);
  EXPECT_EQ(sessions->code(), code) << "it is as good as before";
  EXPECT_TRUE(codes.empty());
  EXPECT_EQ(Sessions::create().ValueOrDie()->open(""), std::nullopt) << "none is no token";
}

}  // namespace
}  // namespace paceline::dashboard
