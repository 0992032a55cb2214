// What anybody can send to the dashboard before it knows who asks: addresses, hosts, cookies, and codes. HTTP itself is
// parsed by Boost.Beast.
#include <gtest/gtest.h>

#include <algorithm>

#include "paceline/dashboard/access/guard.h"
#include "paceline/dashboard/access/sessions.h"
#include "paceline/dashboard/access/token_file.h"
#include "paceline/dashboard/router.h"
#include "paceline/dashboard/routes.h"
#include "paceline/dashboard/target.h"
#include "tests/fuzz/fuzzer.h"

namespace paceline {
namespace {

using testing::Fuzzer;

TEST(Fuzz, DashboardTarget) {
  Fuzzer("target").run([](std::string_view text) {
    const auto target = dashboard::parse_target(text);
    if (!target.ok()) return;
    std::string again;
    for (const std::string& part : target->path) {
      EXPECT_NE(part, "..");
      EXPECT_EQ(part.find_first_of(std::string_view("\0\\", 2)), std::string::npos);
      again += "/" + dashboard::escaped(part);
    }
    const char* joint = "?";
    for (const auto& [name, value] : target->query.values()) {
      again += std::exchange(joint, "&") + dashboard::escaped(name) + "=" + dashboard::escaped(value);
      (void)target->query.number(name, 0, -5, 5);
    }
    if (again.empty() || again[0] == '?') again.insert(0, "/");
    EXPECT_EQ(dashboard::parse_target(again).ValueOr({}), *target) << text;
    std::map<std::string, std::string> parts;
    for (const dashboard::Route& route : dashboard::routes()) (void)dashboard::matches(route, target->path, parts);
  });
}

TEST(Fuzz, DashboardHeaders) {
  const auto sessions = dashboard::Sessions::create().ValueOrDie();
  sessions->name_cookie(8265);
  (void)sessions->open(sessions->code());
  Fuzzer("cookie").run([&sessions](std::string_view text) {
    const dashboard::Request request{.method = "POST",
                                     .headers = {{"host", std::string(text)},
                                                 {"cookie", std::string(text)},
                                                 {"origin", std::string(text)},
                                                 {"authorization", std::string(text)}}};
    EXPECT_EQ(sessions->session_of(request), std::nullopt);
    EXPECT_FALSE(dashboard::has_token(request, "0123456789abcdef0123456789abcdef"));
    EXPECT_TRUE(dashboard::refuse_other_site(request));
    const bool is_loopback = dashboard::is_loopback_host(text);
    EXPECT_EQ(dashboard::refuse_stranger(request).has_value(), !is_loopback);
    if (is_loopback) {
      EXPECT_LE(text.size(), std::string_view("localhost:65535").size()) << text;
    }
  });
}

TEST(Fuzz, DashboardOnTheNetwork) {
  const dashboard::Site site{.is_on_network = true, .names = {"node1"}};
  Fuzzer("cookie").run([&site](std::string_view text) {
    const dashboard::Request request{
        .method = "GET", .headers = {{"host", std::string(text)}}, .own_address = "2001:db8::1"};
    if (dashboard::refuse_stranger(request, site)) return;
    const bool is_own =
        dashboard::is_loopback_host(text) || text.starts_with("[2001:db8::1]") ||
        (text.size() >= 5 && std::ranges::equal(text.substr(0, 5), std::string_view("node1"),
                                                [](char a, char b) { return (a | 0x20) == (b | 0x20); }));
    EXPECT_TRUE(is_own) << text;
    (void)dashboard::parse_site(std::string("https://") + std::string(text));
  });
}

// The only body that is read before it is known who asks.
TEST(Fuzz, DashboardSession) {
  dashboard::RunBook runs({"/no/such"});
  const auto sessions = dashboard::Sessions::create(nullptr, "0123456789abcdef0123456789abcdef").ValueOrDie();
  dashboard::Api api(runs, *sessions, {});
  const auto assets = dashboard::embedded_assets();
  const dashboard::Router router(api, *sessions, *assets, "");
  int64_t peer = 0;
  Fuzzer("json").run([&](std::string_view text) {
    const dashboard::Response answer = router.answer({.method = "POST",
                                                      .target = "/api/v1/session",
                                                      .headers = {{"host", "localhost"}},
                                                      .body = std::string(text),
                                                      .peer = std::to_string(++peer)});
    EXPECT_TRUE(answer.status == 400 || answer.status == 401) << answer.status;
  });
}

}  // namespace
}  // namespace paceline
