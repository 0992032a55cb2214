// The dashboard on a real port: what sockets add to the router (limits, time-outs, streams), and how it starts and
// ends.
#include "paceline/dashboard/dashboard.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>
#include <stop_token>
#include <thread>

#include "paceline/core/posix/descriptor.h"
#include "paceline/core/posix/host_name.h"
#include "paceline/core/posix/network_interface.h"
#include "paceline/dashboard/http_server.h"
#include "paceline/dashboard/served_runs_fixture.h"

namespace paceline::dashboard {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// A connection of a browser, or of somebody who is none.
class Browser {
 public:
  explicit Browser(uint16_t port, const std::string& host = "127.0.0.1")
      : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    EXPECT_EQ(::inet_pton(AF_INET, host.c_str(), &address.sin_addr), 1);
    EXPECT_EQ(::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  void send(std::string_view text) const {
    while (!text.empty()) {
      const ssize_t sent = ::send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;  // it was refused meanwhile
      text.remove_prefix(static_cast<size_t>(sent));
    }
  }
  // What comes until that text has, or the end; the end too with "".
  std::string receive(const std::string& wanted = "") {
    std::string text = std::exchange(rest_, "");
    while (wanted.empty() || text.find(wanted) == std::string::npos) {
      pollfd ready{socket_.get(), POLLIN, 0};
      if (::poll(&ready, 1, 20'000) != 1) {
        ADD_FAILURE() << "waiting for " << wanted << " after " << text;
        break;
      }
      char buffer[4096];
      const ssize_t count = ::recv(socket_.get(), buffer, sizeof buffer, 0);
      if (count <= 0) break;
      text.append(buffer, static_cast<size_t>(count));
    }
    return text;
  }
  // As one whose machine has gone.
  void reset_at_the_end() const {
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    EXPECT_EQ(::setsockopt(socket_.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
  }

 private:
  Descriptor socket_;
  std::string rest_;
};

std::string request_for(const std::string& target, const std::string& headers = "", const std::string& method = "GET") {
  return method + " " + target + " HTTP/1.1\r\nHost: localhost\r\n" + headers + "\r\n";
}

class DashboardTest : public ServedRunsTest {
 protected:
  Dashboard& started(HttpLimits limits = {}, bool read_only = false) {
    dashboard_ = Dashboard::start({.port = 0,
                                   .read_only = read_only,
                                   .tell = [this](const std::string& line) { told_.push_back(line); },
                                   .limits = limits})
                     .ValueOrDie();
    return *dashboard_;
  }
  std::string ask_once(const std::string& request) const {
    Browser browser(dashboard_->port());
    browser.send(request);
    return browser.receive();
  }
  // "Cookie: …" of a session opened with the code of the address.
  std::string open_session() const {
    const std::string url = dashboard_->url();
    return open_session(url.substr(url.find("#code=") + 6));
  }
  std::string open_session(const std::string& secret) const {
    const std::string body = Json{{"code", secret}}.dump();
    const std::string answer =
        ask_once("POST /api/v1/session HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: " +
                 std::to_string(body.size()) + "\r\n\r\n" + body);
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
    const size_t begin = answer.find("Set-Cookie: ") + 12;
    return "Cookie: " + answer.substr(begin, answer.find(';', begin) - begin) + "\r\n";
  }

  std::vector<std::string> told_;
  std::unique_ptr<Dashboard> dashboard_;
};

TEST_F(DashboardTest, OpensWithItsAddress) {
  const std::string id = finished("mnist");
  const Dashboard& dashboard = started();
  EXPECT_THAT(dashboard.url(), StartsWith("http://127.0.0.1:" + std::to_string(dashboard.port()) + "/#code="));
  const std::string cookie = open_session();
  EXPECT_THAT(told_.front(), HasSubstr("to open it once more: " + dashboard.url()));
  const std::string runs = ask_once(request_for("/api/v1/runs", cookie + "Connection: close\r\n"));
  EXPECT_THAT(runs, AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), HasSubstr(id), HasSubstr("nosniff")));
  EXPECT_THAT(ask_once(request_for("/api/v1/runs", "Connection: close\r\n")), StartsWith("HTTP/1.1 401 "));
  EXPECT_THAT(ask_once("GET / HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n"),
              StartsWith("HTTP/1.1 403 "));
}

// As on a full disk: no byte can be written.
TEST_F(DashboardTest, ServesThoughItCanWriteNothing) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  const rlimit none{0, limit.rlim_max};
  auto* const before = ::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &none), 0);
  started();
  ::setrlimit(RLIMIT_FSIZE, &limit);
  ::signal(SIGXFSZ, before);
  EXPECT_THAT(told_, ElementsAre(HasSubstr("nobody can read /metrics: writing "),
                                 HasSubstr("runs that begin will not name this dashboard: cannot write ")));
  EXPECT_EQ(dashboard_->metrics_token_file(), "");
  EXPECT_THAT(ask_once(request_for("/healthz", "Connection: close\r\n")), StartsWith("HTTP/1.1 200 "));
}

TEST_F(DashboardTest, AConnectionIsUsedAgain) {
  started();
  Browser browser(dashboard_->port());
  for (int i = 0; i < 3; ++i) {
    browser.send(request_for("/healthz"));
    EXPECT_THAT(browser.receive("ok\n"), StartsWith("HTTP/1.1 200 OK\r\n"));
  }
  browser.send(request_for("/healthz", "", "HEAD") + request_for("/healthz", "Connection: close\r\n"));
  const std::string both = browser.receive();
  EXPECT_THAT(both, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_EQ(both.find("\r\n\r\nok\n"), both.rfind("\r\n\r\n")) << "HEAD has no body: " << both;
}

TEST_F(DashboardTest, WhatIsTooLargeIsRefused) {
  started({.header_bytes = 2048, .body_bytes = 1000});
  EXPECT_THAT(ask_once(request_for("/healthz", "X: " + std::string(5000, 'x') + "\r\n")), StartsWith("HTTP/1.1 431 "));
  EXPECT_THAT(ask_once(request_for("/" + std::string(5000, 'x'))), StartsWith("HTTP/1.1 431 "));
  const std::string post = "POST /api/v1/session HTTP/1.1\r\nHost: localhost\r\n";
  EXPECT_THAT(ask_once(post + "Content-Length: 1001\r\n\r\n" + std::string(1001, 'x')), StartsWith("HTTP/1.1 413 "));
  EXPECT_THAT(ask_once(post + "Content-Length: 99999999999999999999\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(ask_once(post + "Transfer-Encoding: chunked\r\n\r\n7d0\r\n" + std::string(2000, 'x') + "\r\n0\r\n\r\n"),
              StartsWith("HTTP/1.1 413 "));
}

TEST_F(DashboardTest, WhatIsNoRequestIsRefused) {
  started();
  for (const char* wrong : {"\x16\x03\x01\x02\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "hello\r\n\r\n",
                            "GET / HTTP/1.1\r\nno colon\r\n\r\n"}) {
    EXPECT_THAT(ask_once(wrong), StartsWith("HTTP/1.1 400 ")) << wrong;
  }
  EXPECT_THAT(ask_once(request_for("/", "Connection: close\r\n", "DELETE")), StartsWith("HTTP/1.1 405 "));
  EXPECT_THAT(ask_once(request_for("/", "Connection: close\r\n", "BREW")), StartsWith("HTTP/1.1 405 "));
}

TEST_F(DashboardTest, WhoIsSlowIsLeft) {
  started({.head = std::chrono::milliseconds(100), .idle = std::chrono::milliseconds(150)});
  EXPECT_EQ(ask_once(""), "") << "nothing is said";
  EXPECT_EQ(ask_once("GET / HTTP/1.1\r\nHost: loc"), "");
  EXPECT_EQ(ask_once("POST /api/v1/session HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nab"), "");
  Browser dripping(dashboard_->port());
  std::thread drip([&dripping] {
    for (const char letter : request_for("/" + std::string(200, 'x'))) {
      dripping.send({&letter, 1});
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  });
  EXPECT_EQ(dripping.receive(), "") << "the time is for the whole head";
  drip.join();
  EXPECT_THAT(ask_once(request_for("/healthz")), HasSubstr("ok\n")) << "and after that the connection is idle";
}

TEST_F(DashboardTest, OnlySoManyMayConnect) {
  started({.connections = 2});
  Browser first(dashboard_->port()), second(dashboard_->port());
  for (Browser* browser : {&first, &second}) {
    browser->send(request_for("/healthz"));
    EXPECT_THAT(browser->receive("ok\n"), StartsWith("HTTP/1.1 200 "));
  }
  Browser third(dashboard_->port());
  third.send(request_for("/healthz"));
  EXPECT_EQ(third.receive(), "");
}

TEST_F(DashboardTest, AnotherMachineMayHaveAPartOfTheConnections) {
  const std::string own = own_addresses().front();
  if (own.starts_with("127.") || own.find(':') != std::string::npos) GTEST_SKIP() << "this machine has no network";
  dashboard_ = Dashboard::start({.address = "0.0.0.0",
                                 .insecure_no_tls = true,
                                 .port = 0,
                                 .limits = {.connections = 3, .connections_of_one = 1}})
                   .ValueOrDie();
  Browser first(dashboard_->port(), own);
  first.send(request_for("/healthz"));
  EXPECT_THAT(first.receive("ok\n"), StartsWith("HTTP/1.1 200 "));
  Browser second(dashboard_->port(), own);
  second.send(request_for("/healthz"));
  EXPECT_EQ(second.receive(), "");
  Browser here(dashboard_->port()), also_here(dashboard_->port());
  for (Browser* browser : {&here, &also_here}) {
    browser->send(request_for("/healthz"));
    EXPECT_THAT(browser->receive("ok\n"), StartsWith("HTTP/1.1 200 ")) << "a proxy has many";
  }
}

TEST_F(DashboardTest, OnlySoManyMayWatch) {
  started({.streams = 1});
  const std::string cookie = open_session();
  Browser first(dashboard_->port());
  first.send(request_for("/api/v1/stream?topics=runs", cookie));
  EXPECT_THAT(first.receive("event: snapshot\n"), HasSubstr("Content-Type: text/event-stream\r\n"));
  Browser second(dashboard_->port());
  second.send(request_for("/api/v1/stream?topics=runs", cookie));
  EXPECT_THAT(second.receive("allows"), StartsWith("HTTP/1.1 503 "));
}

TEST_F(DashboardTest, AStreamTellsWhatChanges) {
  run::RecordedRun run(folder("mnist"), "mnist");
  run.open();
  const std::string id = index(folder("mnist"));
  started();
  const std::string cookie = open_session();
  Browser browser(dashboard_->port());
  browser.send(request_for("/api/v1/stream?topics=runs,run:" + id, cookie));
  const std::string head = browser.receive("\"topic\":\"runs\"");
  EXPECT_THAT(head, AllOf(HasSubstr("retry: 2000\n"), HasSubstr("X-Content-Type-Options: nosniff\r\n")));
  if (head.find("\"topic\":\"run:") == std::string::npos) (void)browser.receive("\"topic\":\"run:" + id);
  run.train();
  EXPECT_THAT(browser.receive("\"attempts\":[{"), HasSubstr("event: delta\n"));
  dashboard_->stop();
  EXPECT_THAT(browser.receive(), HasSubstr("event: bye\n"));
}

TEST_F(DashboardTest, AStreamThatIsClosedIsForgotten) {
  started({.streams = 1});
  const std::string cookie = open_session();
  for (int i = 0; i < 5; ++i) {
    std::string answer;
    do {  // the end of the one before is noticed when it comes
      Browser browser(dashboard_->port());
      browser.send(request_for("/api/v1/stream?topics=runs", cookie));
      answer = browser.receive("\r\n\r\n");
    } while (answer.starts_with("HTTP/1.1 503 "));
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  }
}

class WhoAnswers : public ::testing::TestWithParam<bool> {};

TEST_P(WhoAnswers, HearsThatTheBrowserHasGone) {
  const bool resets = GetParam();
  Feed feed([](const std::string&) -> arrow::Result<Json> { return Json(); });
  auto server = HttpServer::listen("127.0.0.1", 0, feed).ValueOrDie();
  std::promise<void> asked, gone;
  server->start([&](const Request& request) {
    const std::stop_callback when_gone(request.given_up, [&] { gone.set_value(); });
    asked.set_value();
    EXPECT_EQ(gone.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
    return Response{};
  });
  {
    const Browser browser(server->port());
    browser.send(request_for("/"));
    asked.get_future().wait();
    if (resets) browser.reset_at_the_end();
  }
  server->stop();
}

INSTANTIATE_TEST_SUITE_P(HttpServerTest, WhoAnswers, ::testing::Bool(),
                         [](const auto& info) { return std::string(info.param ? "ByAReset" : "InOrder"); });

TEST_F(DashboardTest, SaysWhereItCannotListen) {
  const Dashboard& first = started();
  const auto second = Dashboard::start({.port = first.port()});
  EXPECT_TRUE(second.status().IsIOError());
  EXPECT_THAT(second.status().message(),
              AllOf(HasSubstr("port " + std::to_string(first.port()) + ": Address already in use"),
                    HasSubstr("give another port, or none")));
  for (const char* open : {"0.0.0.0", "::", "192.168.1.1", "8.8.8.8"}) {
    const auto refused = Dashboard::start({.address = open, .port = 0});
    EXPECT_TRUE(refused.status().IsInvalid()) << open;
    EXPECT_THAT(refused.status().message(), HasSubstr("can be reached from other machines"));
  }
  EXPECT_THAT(Dashboard::start({.address = "here"}).status().message(), HasSubstr("\"here\" is no address"));
  EXPECT_THAT(Dashboard::start({.port = 0, .web_root = "/no/such"}).status().message(), HasSubstr("/no/such"));
}

TEST_F(DashboardTest, OnTheNetworkItHasAToken) {
  const std::string file = home_ / "token";
  dashboard_ =
      Dashboard::start({.address = "0.0.0.0", .insecure_no_tls = true, .token_file = file, .port = 0}).ValueOrDie();
  EXPECT_EQ(dashboard_->token_file(), file);
  EXPECT_EQ(std::filesystem::status(file).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  EXPECT_THAT(dashboard_->url(), StartsWith("http://" + host_name() + ":"));
  std::string token;
  std::ifstream(file) >> token;
  const auto get = [this](const std::string& host, const std::string& cookie = "") {
    return ask_once("GET /api/v1/runs HTTP/1.1\r\nHost: " + host + "\r\n" + cookie + "Connection: close\r\n\r\n");
  };
  for (int i = 0; i < 2; ++i) {
    const std::string cookie = open_session(token);
    EXPECT_THAT(get(host_name(), cookie), StartsWith("HTTP/1.1 200 ")) << "it lasts";
    EXPECT_THAT(get("evil.example", cookie), StartsWith("HTTP/1.1 403 "));
  }
  EXPECT_THAT(get(host_name()), StartsWith("HTTP/1.1 401 "));
}

TEST_F(DashboardTest, ATokenThatOthersMayReadIsRefused) {
  testing::write_file(home_ / "token", std::string(32, 'x'));
  std::filesystem::permissions(home_ / "token", std::filesystem::perms::group_read, std::filesystem::perm_options::add);
  const auto refused =
      Dashboard::start({.address = "0.0.0.0", .insecure_no_tls = true, .token_file = home_ / "token", .port = 0});
  EXPECT_THAT(refused.status().message(), HasSubstr("the token that opens the dashboard, and others may read it"));
  EXPECT_FALSE(Dashboard::start({.token_file = home_ / "token", .port = 0}).ok());
  EXPECT_TRUE(Dashboard::start({.port = 0}).ok()) << "at the loopback there is none unless one is wanted";
}

TEST_F(DashboardTest, ATokenThatIsWantedOpensTheLoopbackToo) {
  dashboard_ = Dashboard::start({.token_file = home_ / "token", .port = 0}).ValueOrDie();
  std::string token;
  std::ifstream(home_ / "token") >> token;
  for (int time = 0; time < 2; ++time) EXPECT_THAT(open_session(token), StartsWith("Cookie: "));
}

TEST_F(DashboardTest, TakesAnotherPortWhereTheUsualOneIsTaken) {
  const auto first = Dashboard::start({}), second = Dashboard::start({});
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_NE((*first)->port(), (*second)->port());
  EXPECT_NE((*second)->port(), kUsualPort);
}

}  // namespace
}  // namespace paceline::dashboard
