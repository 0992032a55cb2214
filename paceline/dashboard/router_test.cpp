// Who may ask what: the threats of a page in the user's browser, of another site, and of a program without a session.
#include "paceline/dashboard/router.h"

#include <gmock/gmock.h>

#include "paceline/dashboard/access/guard.h"
#include "paceline/dashboard/served_runs_fixture.h"

namespace paceline::dashboard {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

class RouterTest : public ServedRunsTest {};

Json problem_in(const Response& response) {
  EXPECT_EQ(response.content_type, "application/problem+json");
  const Json problem = Json::parse(response.body);
  for (const char* member : {"title", "detail", "hint"}) EXPECT_NE(problem.at(member), "") << response.body;
  EXPECT_EQ(problem.at("status"), response.status);
  return problem;
}

TEST_F(RouterTest, OnlyThePublicIsOpenWithoutASession) {
  const std::string id = finished("mnist");
  EXPECT_EQ(ask("GET", "/healthz").body, "ok\n");
  EXPECT_EQ(ask("GET", "/").status, 200);
  EXPECT_EQ(ask("GET", "/runs/" + id).status, 404) << "what the page shows stands behind '#', which nobody sends";
  for (const char* target : {"/api/v1/runs", "/api/v1/session", "/api/v1/openapi.json", "/metrics", "/api",
                             "/api/v1/stream?topics=runs", "/api/v1/nothing"}) {
    const Response response = ask("GET", target);
    EXPECT_EQ(response.status, 401) << target;
    problem_in(response);
  }
  EXPECT_EQ(ask("GET", "/api/v1/runs/" + id).status, 401);
  EXPECT_EQ(ask("POST", "/api/v1/runs/" + id + "/actions", {{"x-paceline", "1"}}, R"({"action":"stop"})").status, 401);
  EXPECT_EQ(ask("GET", "/api/v1/runs", {{"cookie", sessions_->cookie_name() + "=" + std::string(64, '0')}}).status,
            401);
  EXPECT_EQ(ask_in_session("GET", "/api/v1/runs").status, 200);
}

TEST_F(RouterTest, ACodeOpensOneSession) {
  const std::string body = Json{{"code", sessions_->code()}}.dump();
  const Response response = ask("POST", "/api/v1/session", {{"origin", "http://127.0.0.1:8265"}}, body);
  ASSERT_EQ(response.status, 200) << response.body;
  std::string cookie;
  for (const auto& [name, value] : response.headers) {
    if (name == "Set-Cookie") cookie = value;
  }
  EXPECT_THAT(cookie, AllOf(HasSubstr("HttpOnly"), HasSubstr("SameSite=Strict"), HasSubstr("Path=/")));
  EXPECT_EQ(cookie.find(Json::parse(body)["code"].get<std::string>()), std::string::npos);
  EXPECT_EQ(ask("GET", "/api/v1/runs", {{"cookie", "other=1; " + cookie.substr(0, cookie.find(';'))}}).status, 200);
  EXPECT_EQ(ask("POST", "/api/v1/session", {}, body).status, 401) << "it was used";
  for (const char* wrong : {"", "{}", "[]", "null", R"({"code":1})", R"({"code":"x","more":1})", "{\"code\":\"\"}"}) {
    EXPECT_GE(ask("POST", "/api/v1/session", {}, wrong).status, 400) << wrong;
  }
  EXPECT_THAT(recorded_, Contains(HasSubstr("refused a wrong or used code")));
}

TEST_F(RouterTest, AnotherHostIsRefused) {
  for (const char* host : {"evil.example", "evil.example:8265", "127.0.0.1.evil.example", "localhost.evil.example:80",
                           "127.0.0.1:8265@evil.example", "", "[::1", "127.0.0.2", "0.0.0.0:8265",
                           "localhost:", "localhost:x", "localhost:123456", "[::1]evil", "LOCALHOST"}) {
    const Response response = ask("GET", "/healthz", {{"host", host}});
    EXPECT_EQ(response.status, 403) << host;
    problem_in(response);
  }
  for (const char* host : {"127.0.0.1", "localhost:1", "[::1]:8265"}) {
    EXPECT_EQ(ask("GET", "/healthz", {{"host", host}}).status, 200) << host;
  }
  EXPECT_EQ(ask("GET", "/healthz", {{"host", "localhost"}, {"host", "evil.example"}}).status, 400);
}

TEST_F(RouterTest, AnotherSiteIsRefused) {
  const std::string id = finished("mnist");
  (void)ask_in_session("GET", "/api/v1/runs");
  const auto with = [&](const char* name, const char* value) {
    return ask("GET", "/api/v1/runs/" + id, {{"cookie", cookie_}, {name, value}}).status;
  };
  for (const char* origin : {"http://evil.example", "null", "https://127.0.0.1:8265", "http://127.0.0.1:9000", "",
                             "http://127.0.0.1:8265.evil.example"}) {
    EXPECT_EQ(with("origin", origin), 403) << origin;
  }
  EXPECT_EQ(with("origin", "http://127.0.0.1:8265"), 200);
  EXPECT_EQ(with("sec-fetch-site", "cross-site"), 403);
  EXPECT_EQ(with("sec-fetch-site", "same-site"), 403) << "another port of this machine";
  EXPECT_EQ(with("sec-fetch-site", "same-origin"), 200);
  EXPECT_EQ(ask("POST", "/api/v1/session", {{"origin", "http://evil.example"}}, "{}").status, 403);
}

class ProxiedRouterTest : public RouterTest {
 protected:
  ProxiedRouterTest() {
    const Site site = parse_site("https://train.example/tools/paceline").ValueOrDie();
    serve({.site = site});
    router_ = std::make_unique<Router>(*api_, *sessions_, *assets_, kToken, site);
  }
};

TEST_F(ProxiedRouterTest, ItsHostAndOriginAreTakenToo) {
  EXPECT_EQ(ask("GET", "/healthz", {{"host", "train.example"}}).status, 200);
  EXPECT_EQ(ask("GET", "/healthz").status, 200) << "the loopback stays";
  EXPECT_EQ(ask("GET", "/healthz", {{"host", "evil.example"}}).status, 403);
  const auto from = [this](const char* host, const char* origin) {
    return ask_in_session("GET", "/api/v1/runs").status == 200
               ? ask("GET", "/api/v1/runs", {{"cookie", cookie_}, {"host", host}, {"origin", origin}}).status
               : 0;
  };
  EXPECT_EQ(from("train.example", "https://train.example"), 200);
  EXPECT_EQ(from("127.0.0.1:8265", "https://train.example"), 200) << "many proxies set the host";
  EXPECT_EQ(from("train.example", "http://evil.example"), 403);
  EXPECT_EQ(from("train.example", "http://train.example"), 403) << "who is on the network can make that one";
  EXPECT_EQ(from("127.0.0.1:8265", "https://train.example.evil.example"), 403);
}

TEST_F(ProxiedRouterTest, ThePrefixMayBeThereOrNot) {
  EXPECT_EQ(ask("GET", "/tools/paceline/").body, ask("GET", "/").body);
  EXPECT_EQ(ask("GET", "/tools/paceline/healthz").body, "ok\n");
  EXPECT_EQ(ask("GET", "/tools/paceline/api/v1/runs").status, 401);
  EXPECT_EQ(ask("GET", "/tools/healthz").status, 404);
  const Response moved = ask("GET", "/tools/paceline");
  EXPECT_EQ(moved.status, 308);
  EXPECT_THAT(moved.headers, Contains(Pair("Location", "/tools/paceline/")));
}

TEST_F(ProxiedRouterTest, TheCookieGoesToItAlone) {
  const auto cookie_for = [this](const char* origin) {
    const std::string body = Json{{"code", sessions_->code()}}.dump();
    const Response response = ask("POST", "/api/v1/session", {{"origin", origin}}, body);
    EXPECT_EQ(response.status, 200) << response.body;
    const auto cookie = std::ranges::find(response.headers, "Set-Cookie", [](const auto& one) { return one.first; });
    return cookie == response.headers.end() ? std::string() : cookie->second;
  };
  EXPECT_THAT(cookie_for("https://train.example"), AllOf(HasSubstr("; Path=/tools/paceline/;"), HasSubstr("; Secure")));
  EXPECT_THAT(cookie_for("http://127.0.0.1:8265"), AllOf(HasSubstr("; Path=/;"), Not(HasSubstr("Secure"))));
}

class NetworkRouterTest : public RouterTest {
 protected:
  NetworkRouterTest() {
    const Site site{.is_on_network = true, .names = {"node1"}};
    serve({.site = site});
    router_ = std::make_unique<Router>(*api_, *sessions_, *assets_, kToken, site);
  }
};

TEST_F(NetworkRouterTest, ItsNamesAreTakenAndNoOthers) {
  for (const char* host : {"node1:8265", "NODE1", "192.168.1.5:8265", "192.168.1.5", "localhost:8265"}) {
    EXPECT_EQ(ask("GET", "/healthz", {{"host", host}}).status, 200) << host;
  }
  for (const char* host :
       {"evil.example", "192.168.1.6:8265", "node1.evil.example", "node1:x", "node12", "", ":8265"}) {
    EXPECT_EQ(ask("GET", "/healthz", {{"host", host}}).status, 403) << host;
  }
  (void)ask_in_session("GET", "/api/v1/runs");
  const auto from = [this](const char* origin) {
    return ask("GET", "/api/v1/runs", {{"cookie", cookie_}, {"host", "node1:8265"}, {"origin", origin}}).status;
  };
  EXPECT_EQ(from("http://node1:8265"), 200);
  EXPECT_EQ(from("http://evil.example"), 403);
  EXPECT_EQ(from("http://node1"), 403) << "another port is another site";
}

TEST_F(RouterTest, WhoIsWrongTooOftenWaitsAndWhoIsRightNever) {
  const auto open = [this](const std::string& code) {
    return ask("POST", "/api/v1/session", {}, Json{{"code", code}}.dump());
  };
  peer_ = "10.0.0.1";
  for (int i = 0; i < TryLimit::kTries; ++i) EXPECT_EQ(open(std::string(32, '0')).status, 401);
  const Response refused = open(std::string(32, '0'));
  EXPECT_EQ(refused.status, 429);
  EXPECT_THAT(refused.headers, Contains(Pair("Retry-After", "6")));
  EXPECT_THAT(problem_in(refused)["hint"], HasSubstr("wait for 6 s"));
  EXPECT_EQ(open(sessions_->code()).status, 200) << "another user of the machine keeps nobody out";
  peer_ = "10.0.0.2";
  for (int i = 0; i < TryLimit::kTries; ++i) {
    const Response wrong = ask("GET", "/metrics", {{"authorization", "Bearer 1"}});
    EXPECT_EQ(wrong.status, 401);
    EXPECT_THAT(problem_in(wrong)["hint"], HasSubstr("the file metrics_token"));
  }
  EXPECT_EQ(ask("GET", "/metrics", {{"authorization", "Bearer 1"}}).status, 429);
  EXPECT_EQ(ask("GET", "/metrics", {{"authorization", std::string("Bearer ") + kToken}}).status, 200);
  EXPECT_EQ(open(std::string(32, '0')).status, 401) << "of /metrics others are counted";
  EXPECT_EQ(ask_in_session("GET", "/api/v1/runs").status, 200) << "a session is no try";
}

TEST_F(RouterTest, AFormCanChangeNothing) {
  const std::string id = finished("mnist");
  (void)ask_in_session("GET", "/api/v1/runs");
  const Response response =
      ask("POST", "/api/v1/runs/" + id + "/actions",
          {{"cookie", cookie_}, {"content-type", "text/plain"}, {"origin", "http://127.0.0.1:8265"}},
          R"({"action":"stop"})");
  EXPECT_EQ(response.status, 403);
  EXPECT_THAT(problem_in(response)["detail"], HasSubstr("X-Paceline"));
}

TEST_F(RouterTest, OtherMethodsAreRefused) {
  for (const char* method : {"PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "get", "", "FOO"}) {
    const Response response = ask_in_session(method, "/api/v1/runs");
    EXPECT_EQ(response.status, 405) << method;
    EXPECT_THAT(response.headers, Contains(Pair("Allow", "GET, HEAD, POST")));
  }
  EXPECT_THAT(ask_in_session("POST", "/api/v1/runs").headers, Contains(Pair("Allow", "GET, HEAD")));
  EXPECT_EQ(ask_in_session("HEAD", "/api/v1/runs").status, 200);
  EXPECT_EQ(ask("POST", "/index.html").status, 405);
}

TEST_F(RouterTest, EveryAnswerForbidsWhatPagesNeedNot) {
  for (const char* target : {"/", "/healthz", "/api/v1/runs", "/nothing.js", "%"}) {
    const Headers headers = ask("GET", target).headers;
    EXPECT_THAT(headers, Contains(Pair("X-Content-Type-Options", "nosniff"))) << target;
    EXPECT_THAT(headers, Contains(Pair("X-Frame-Options", "DENY")));
    EXPECT_THAT(headers, Contains(Pair("Content-Security-Policy", HasSubstr("default-src 'self'"))));
    EXPECT_THAT(headers, Contains(Pair("Cache-Control", HasSubstr("no-store"))));
    for (const auto& [name, value] : headers) EXPECT_EQ(name.find("Access-Control"), std::string::npos);
  }
}

TEST_F(RouterTest, TheViewerOfProfilesHasAFolderAndAPolicyOfItsOwn) {
  const Response viewer = ask("GET", "/speedscope/");
  ASSERT_EQ(viewer.status, 200) << viewer.body;
  EXPECT_EQ(viewer.body, ask("GET", "/speedscope/index.html").body);
  EXPECT_NE(viewer.body, ask("GET", "/").body);
  const auto policies = std::ranges::count(viewer.headers, kPolicyHeader, [](const auto& one) { return one.first; });
  EXPECT_EQ(policies, 1);
  EXPECT_THAT(viewer.headers, Contains(Pair(kPolicyHeader, AllOf(HasSubstr("default-src 'self'"),
                                                                 HasSubstr("script-src 'self' 'wasm-unsafe-eval';")))));
  EXPECT_THAT(ask("GET", "/").headers, Contains(Pair(kPolicyHeader, Not(HasSubstr("unsafe")))));
  EXPECT_EQ(ask("GET", "/speedscope/LICENSE.txt").status, 200);
  EXPECT_EQ(ask("GET", "/speedscope").status, 404);
  EXPECT_EQ(ask("GET", "/nothing/").status, 404);
}

TEST_F(RouterTest, NoAddressLeadsOutOfWhatIsServed) {
  const std::string id = finished("mnist");
  testing::write_file(home_ / "secret.txt", "secret");
  testing::write_file(home_ / "web/index.html", "page");
  std::filesystem::create_symlink(home_ / "secret.txt", home_ / "web/link.txt");
  assets_ = folder_assets(home_ / "web").ValueOrDie();
  serve({});
  EXPECT_EQ(ask("GET", "/index.html").body, "page");
  for (const std::string name :
       {"../secret.txt", "%2e%2e/secret.txt", "..%2fsecret.txt", "%2e%2e%2fsecret.txt", "..%5csecret.txt",
        "..\\secret.txt", "./../secret.txt", "x/../../secret.txt", "link.txt", "/etc/passwd.txt", "%2fetc%2fpasswd.txt",
        "..%252fsecret.txt", "secret.txt%00.html", "..;/secret.txt", "%c0%ae%c0%ae/secret.txt", "....//secret.txt"}) {
    const Response page = ask("GET", "/" + name);
    EXPECT_GE(page.status, 400) << name;
    EXPECT_EQ(page.body.find("\"secret\""), std::string::npos);
    EXPECT_GE(ask_in_session("GET", "/api/v1/runs/" + id + "/logs/" + name).status, 400) << name;
    EXPECT_GE(ask_in_session("GET", "/api/v1/runs/" + id + "/profiles/" + name).status, 400) << name;
    EXPECT_GE(ask_in_session("GET", "/api/v1/runs/" + name).status, 400) << name;
    EXPECT_GE(ask_in_session("GET", "/api/v1/stream?topics=run:" + name).status, 400) << name;
  }
}

TEST_F(RouterTest, WhatIsInANameStaysText) {
  int odd = 0;
  for (const std::string name :
       {"<script>alert(1)</script>", "\"><img src=x onerror=alert(1)>", "</title>\n", "javascript:alert(1)",
        "a/b?c#d&e=%2e", "{{7*7}}", "\xe2\x80\xae evil", "bad \xff bytes"}) {
    const std::string id = finished(name, "odd" + std::to_string(++odd));
    const Response response = ask_in_session("GET", "/api/v1/runs/" + id);
    EXPECT_EQ(response.status, 200) << response.body;
    EXPECT_EQ(response.content_type, "application/json");
    EXPECT_EQ(decode_json(response.body).ValueOrDie().at("name"), name);
    const Json runs = decode_json(ask_in_session("GET", "/api/v1/runs").body).ValueOrDie()["runs"];
    EXPECT_TRUE(std::ranges::any_of(runs, [&name](const Json& run) { return run["name"] == name; })) << name;
    EXPECT_EQ(ask_in_session("GET", "/metrics").status, 200);
  }
  const Response refused = ask_in_session("GET", "/api/v1/runs?sort=<script>");
  EXPECT_EQ(refused.content_type, "application/problem+json");
}

TEST_F(RouterTest, SaysWhatItDoesNotTake) {
  EXPECT_THAT(problem_in(ask_in_session("GET", "/api/v1/runs?limt=3"))["detail"], HasSubstr("did you mean \"limit\"?"));
  EXPECT_THAT(problem_in(ask_in_session("GET", "/api/v1/runs?limit=0"))["detail"], HasSubstr("from 1 to 10000"));
  EXPECT_THAT(problem_in(ask_in_session("GET", "/api/v1/runs?state=runing"))["detail"], HasSubstr("\"running\""));
  EXPECT_EQ(problem_in(ask_in_session("GET", "/api/v1/runs/" + std::string(32, '0')))["status"], 404);
  EXPECT_EQ(problem_in(ask_in_session("GET", "/api/v2/runs"))["status"], 404);
}

TEST_F(RouterTest, AReadOnlyTokenReadsMetricsAlone) {
  finished("mnist");
  const std::string right = std::string("Bearer ") + kToken;
  EXPECT_EQ(ask("GET", "/metrics", {{"authorization", right}}).status, 200);
  EXPECT_EQ(problem_in(ask("GET", "/metrics", {{"authorization", right + "0"}}))["detail"],
            "this is not the token for /metrics");
  const Json without = problem_in(ask("GET", "/metrics"));
  EXPECT_EQ(without["detail"], "the request has neither the token for /metrics nor a session");
  EXPECT_THAT(without["hint"], HasSubstr("Authorization: Bearer"));
  EXPECT_EQ(ask("GET", "/metrics", {{"authorization", "Bearer "}}).status, 401);
  EXPECT_EQ(ask("GET", "/metrics", {{"authorization", kToken}}).status, 401);
  EXPECT_EQ(ask("GET", "/api/v1/runs", {{"authorization", right}}).status, 401);
}

TEST_F(RouterTest, WithReadOnlyNothingIsChanged) {
  const std::string id = finished("mnist");
  serve({.read_only = true});
  const Response response = ask_in_session("POST", "/api/v1/runs/" + id + "/actions", R"({"action":"stop"})");
  EXPECT_EQ(response.status, 403);
  EXPECT_THAT(problem_in(response)["hint"], HasSubstr("--read-only"));
  EXPECT_THAT(recorded_, Contains(AllOf(HasSubstr("refused \"stop\""), HasSubstr("session 1 from 127.0.0.1"))));
  for (const char* action : {"stacks", "profile"}) {
    const std::string body = Json{{"action", action}}.dump();
    EXPECT_EQ(ask_in_session("POST", "/api/v1/runs/" + id + "/actions", body).status, 403) << action;
  }
  EXPECT_EQ(get("/api/v1/session")["read_only"], true);
}

}  // namespace
}  // namespace paceline::dashboard
