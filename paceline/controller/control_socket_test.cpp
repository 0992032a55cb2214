#include "paceline/controller/control_socket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <mutex>

#include "paceline/core/run_layout.h"
#include "paceline/rpc/messages.h"
#include "paceline/rpc/watch_messages.h"
#include "paceline/run/control_client.h"
#include "paceline/run/status_watch.h"
#include "paceline/testing/temporary_folder.h"

namespace paceline::controller {
namespace {

using paceline::testing::TemporaryFolder;
using ::testing::HasSubstr;

class ControlSocketTest : public ::testing::Test {
 protected:
  ControlSocketTest() {
    ::chmod(runtime_.path().c_str(), 0700);
    ::setenv("XDG_RUNTIME_DIR", runtime_.path().c_str(), 1);
  }
  ~ControlSocketTest() override { ::unsetenv("XDG_RUNTIME_DIR"); }

  // The next request, answered with `reply`.
  void answer_one(Inbox& inbox, const Json& reply) {
    const SystemClock clock;
    std::vector<Incoming> incoming;
    while (incoming.empty()) {
      inbox.wait(-1, std::nullopt, clock);
      incoming = inbox.take();
    }
    const auto& request = std::get<FromCommandLine>(incoming.at(0));
    rpc::Envelope envelope = rpc::pack(rpc::StatusReply{reply});
    envelope.reply_to = request.request.request;
    EXPECT_TRUE(request.client->send(std::move(envelope)).ok());
  }

  TemporaryFolder runtime_;
  TemporaryFolder run_;
  Occupation occupation_;
};

TEST_F(ControlSocketTest, WhileACallbackRunsTheStatusNamesIt) {
  Inbox inbox;
  const auto socket = open_control_socket(run_.path(), inbox, occupation_).ValueOrDie();
  const Occupation::Scope scope(occupation_, [] { return "callback Early::after_report"; });
  const Json status = run::request_status(run_.path()).ValueOrDie();
  EXPECT_THAT(status["waits_for"][0].get<std::string>(),
              HasSubstr("ranks wait for callback Early::after_report, for "));
}

TEST_F(ControlSocketTest, ARunThatDoesNotAnswerIsNotWaitedForForEver) {
  Inbox inbox;
  const auto socket = open_control_socket(run_.path(), inbox, occupation_).ValueOrDie();
  const auto status = run::request_status(run_.path(), std::chrono::milliseconds(50)).status();
  EXPECT_TRUE(status.IsCancelled());
  EXPECT_THAT(status.message(), HasSubstr("did not answer within 0.05 s: its driver is stopped, or busy"));
}

// It may be of an earlier version.
TEST_F(ControlSocketTest, ADriverThatTellsNothingIsAsked) {
  Inbox inbox;
  const auto socket = open_control_socket(run_.path(), inbox, occupation_).ValueOrDie();
  const auto watch = run::StatusWatch::start({});
  auto status = std::async(std::launch::async, [&] { return watch->status(run_.path(), std::chrono::seconds(1)); });
  bool has_answered = false;
  while (!has_answered) {
    inbox.wait(-1, std::nullopt, SystemClock());
    for (const Incoming& incoming : inbox.take()) {
      const auto* const from = std::get_if<FromCommandLine>(&incoming);
      if (from == nullptr || from->request.type != rpc::StatusRequest::kType) continue;
      rpc::Envelope reply = rpc::pack(rpc::StatusReply{{{"state", "running"}}});
      reply.reply_to = from->request.request;
      EXPECT_TRUE(from->client->send(std::move(reply)).ok());
      has_answered = true;
    }
  }
  EXPECT_EQ(status.get().ValueOrDie()["state"], "running");
}

// Its page is looked at each second, by a thread that has other runs to look at.
TEST_F(ControlSocketTest, ADriverThatIsStoppedIsWaitedForOnce) {
  Inbox inbox;
  const auto socket = open_control_socket(run_.path(), inbox, occupation_).ValueOrDie();
  std::promise<void> has_told;
  const auto watch = run::StatusWatch::start({.on_change = [&](const std::string&) { has_told.set_value(); }});
  const auto patience = std::chrono::milliseconds(100);
  EXPECT_TRUE(watch->status(run_.path(), patience).status().IsCancelled());
  // A quarter of an hour, if each waited.
  for (int look = 0; look < 10'000; ++look) EXPECT_TRUE(watch->status(run_.path(), patience).status().IsCancelled());

  int questions = 0;
  for (bool has_wish = false; !has_wish || questions == 0;) {
    inbox.wait(-1, std::nullopt, SystemClock());
    for (const Incoming& incoming : inbox.take()) {
      const auto* const from = std::get_if<FromCommandLine>(&incoming);
      if (from == nullptr) continue;
      has_wish = has_wish || from->request.type == rpc::WatchRun::kType;
      if (from->request.type != rpc::StatusRequest::kType) continue;
      ++questions;
      rpc::Envelope reply = rpc::pack(rpc::StatusReply{{{"state", "running"}}});
      reply.reply_to = from->request.request;
      EXPECT_TRUE(from->client->send(std::move(reply)).ok());
    }
  }
  EXPECT_EQ(questions, 1);
  has_told.get_future().wait();
  EXPECT_EQ(watch->status(run_.path(), patience).ValueOrDie()["state"], "running");
}

TEST_F(ControlSocketTest, WhatADriverHasToldHoldsWhileItMayStillAnswer) {
  Inbox inbox;
  const auto socket = open_control_socket(run_.path(), inbox, occupation_).ValueOrDie();
  const auto watch = run::StatusWatch::start({.own_answer = std::chrono::seconds(50)});
  auto first = std::async(std::launch::async, [&] { return watch->status(run_.path(), std::chrono::seconds(50)); });
  // Whether it has been asked.
  const auto was_asked = [&](const char* answer) {
    bool asked = false;
    for (const Incoming& incoming : inbox.take()) {
      const auto& from = std::get<FromCommandLine>(incoming);
      if (from.request.type != rpc::StatusRequest::kType) continue;
      asked = true;
      if (answer == nullptr) continue;
      rpc::Envelope reply = rpc::pack(rpc::StatusReply{{{"state", answer}}});
      reply.reply_to = from.request.request;
      EXPECT_TRUE(from.client->send(std::move(reply)).ok());
    }
    return asked;
  };
  do {
    inbox.wait(-1, std::nullopt, SystemClock());
  } while (!was_asked("running"));
  ASSERT_TRUE(first.get().ok());
  // It is in a callback from now on: after a moment it is asked, and its socket has not answered for it yet.
  do {
    const auto held = watch->status(run_.path(), std::chrono::milliseconds(1));
    ASSERT_TRUE(held.ok()) << held.status();
    EXPECT_EQ((*held)["state"], "running");
  } while (!was_asked(nullptr));
}

// What a driver answers, what its socket says while it is in a callback, and what it tells by itself come crosswise.
TEST_F(ControlSocketTest, ADriversNewsAreNotDifferencesToItsAnswers) {
  Inbox inbox;
  const auto socket = open_control_socket(run_.path(), inbox, occupation_).ValueOrDie();
  std::mutex mutex;
  std::condition_variable changed;
  int changes = 0;
  const auto watch = run::StatusWatch::start({.on_change = [&](const std::string&) {
    const std::lock_guard lock(mutex);
    ++changes;
    changed.notify_all();
  }});
  const auto status = [&] { return watch->status(run_.path(), std::chrono::seconds(50)).ValueOrDie(); };
  auto first = std::async(std::launch::async, status);
  FromCommandLine wish, question;
  while (wish.client == nullptr || question.client == nullptr) {
    inbox.wait(-1, std::nullopt, SystemClock());
    std::vector<Incoming> taken = inbox.take();
    for (Incoming& incoming : taken) {
      auto& from = std::get<FromCommandLine>(incoming);
      (from.request.type == rpc::WatchRun::kType ? wish : question) = std::move(from);
    }
  }
  const auto wait_for_changes = [&](int count) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return changes == count; });
  };
  const auto answer = [&](const Json& told, bool is_partial = false) {
    rpc::Envelope reply = rpc::pack(rpc::StatusReply{.status = told, .is_partial = is_partial});
    reply.reply_to = question.request.request;
    ASSERT_TRUE(question.client->send(std::move(reply)).ok());
  };
  const auto tell = [&](const Json& set, const std::vector<std::string>& removed = {}) {
    rpc::Envelope news = rpc::pack(rpc::RunChanged{.set = set, .removed = removed});
    news.reply_to = wish.request.request;
    ASSERT_TRUE(wish.client->send(std::move(news)).ok());
  };
  const Json busy{{"waits_for", {"ranks wait for callback Early::after_report, for 1 s"}}};
  answer(busy, /*is_partial=*/true);
  EXPECT_EQ(first.get(), busy);
  answer({{"state", "running"}, {"phase", "data"}, {"left", true}});
  wait_for_changes(2);
  answer(busy, /*is_partial=*/true);  // it has answered meanwhile: no change
  tell({{"state", "running"}, {"phase", "data"}, {"loss", 3}});
  wait_for_changes(3);
  EXPECT_EQ(status(), Json({{"state", "running"}, {"phase", "data"}, {"loss", 3}}));
  tell({{"loss", 2}});
  wait_for_changes(4);
  EXPECT_EQ(status(), Json({{"state", "running"}, {"phase", "data"}, {"loss", 2}}));
  tell({{"phase", "training"}}, {"loss"});
  wait_for_changes(5);
  EXPECT_EQ(status(), Json({{"state", "running"}, {"phase", "training"}}));
}

TEST_F(ControlSocketTest, TheSocketOfADriverInACallbackSaysSoAgainAndAgain) {
  Inbox inbox;
  const auto socket = open_control_socket(run_.path(), inbox, occupation_).ValueOrDie();
  const Occupation::Scope scope(occupation_, [] { return "callback Early::after_report"; });
  std::promise<void> has_told_twice;
  std::atomic<int> changes = 0;
  const auto watch = run::StatusWatch::start({.on_change = [&](const std::string&) {
    if (++changes == 2) has_told_twice.set_value();
  }});
  EXPECT_TRUE(watch->status(run_.path(), std::chrono::seconds(50)).ok());
  has_told_twice.get_future().wait();  // the seconds that it is in the callback
  int questions = 0;
  for (const Incoming& incoming : inbox.take()) {
    questions += std::get<FromCommandLine>(incoming).request.type == rpc::StatusRequest::kType ? 1 : 0;
  }
  EXPECT_EQ(questions, 1);
}

TEST_F(ControlSocketTest, AnswersInAFolderOfTheUsersOwn) {
  Inbox inbox;
  {
    auto socket = open_control_socket(run_.path(), inbox, occupation_).ValueOrDie();
    struct stat status{};
    ASSERT_EQ(::stat((runtime_ / "paceline").c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0700u);
    auto reply = std::async(std::launch::async, [this] { return run::request_status(run_.path()); });
    answer_one(inbox, {{"state", "running"}});
    EXPECT_EQ(reply.get().ValueOrDie()["state"], "running");
  }
  EXPECT_TRUE(std::filesystem::is_empty(run_.path())) << "the link is left";
  EXPECT_TRUE(std::filesystem::is_empty(runtime_.path())) << "the socket is left";
  EXPECT_THAT(run::request_status(run_.path()).status().message(), HasSubstr("no live run"));
}

TEST_F(ControlSocketTest, ReplacesWhatAKilledDriverLeft) {
  Inbox inbox;
  auto first = open_control_socket(run_.path(), inbox, occupation_).ValueOrDie();
  const std::string path = std::filesystem::read_symlink(run_ / run_layout::kControlSocket);
  first.reset();
  std::filesystem::create_directory(runtime_ / "paceline");
  std::filesystem::permissions(runtime_ / "paceline", std::filesystem::perms::owner_all);
  paceline::testing::write_file(path, "left");
  std::filesystem::create_symlink(path, run_ / run_layout::kControlSocket);
  auto second = open_control_socket(run_.path(), inbox, occupation_).ValueOrDie();
  auto reply = std::async(std::launch::async, [this] { return run::request_stop(run_.path(), "enough"); });
  answer_one(inbox, {{"state", "shutting_down"}});
  EXPECT_TRUE(reply.get().ok());
}

// One path, one machine, but a moved folder, whose run goes on.
TEST_F(ControlSocketTest, TheNextRunUnderAMovedRunsPathHasASocketOfItsOwn) {
  const std::string folder = run_ / "run";
  std::filesystem::create_directory(folder);
  Inbox moved_inbox;
  auto moved = open_control_socket(folder, moved_inbox, occupation_).ValueOrDie();
  std::filesystem::rename(folder, run_ / "moved");
  std::filesystem::create_directory(folder);
  Inbox inbox;
  const auto next = open_control_socket(folder, inbox, occupation_).ValueOrDie();
  auto of_moved = std::async(std::launch::async, [this] { return run::request_status(run_ / "moved").ValueOrDie(); });
  answer_one(moved_inbox, {{"state", "moved"}});
  EXPECT_EQ(of_moved.get()["state"], "moved");
  moved.reset();
  auto of_next = std::async(std::launch::async, [&] { return run::request_status(folder).ValueOrDie(); });
  answer_one(inbox, {{"state", "next"}});
  EXPECT_EQ(of_next.get()["state"], "next");
}

TEST_F(ControlSocketTest, RefusesAFolderThatOthersCanOpen) {
  std::filesystem::create_directory(runtime_ / "paceline");
  std::filesystem::permissions(runtime_ / "paceline", std::filesystem::perms(0755));
  Inbox inbox;
  EXPECT_THAT(open_control_socket(run_.path(), inbox, occupation_).status().message(), HasSubstr("mode 0700"));
}

// A client that sends nonsense, or nothing, disturbs nobody.
TEST_F(ControlSocketTest, SurvivesClientsThatMakeNoSense) {
  Inbox inbox;
  auto socket = open_control_socket(run_.path(), inbox, occupation_).ValueOrDie();
  const std::string path = std::filesystem::read_symlink(run_ / run_layout::kControlSocket);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, path.size());
  const Descriptor silent(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::connect(silent.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  const Descriptor babbling(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::connect(babbling.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  const std::string nonsense = "GET / HTTP/1.1\r\n\r\n and more";
  ASSERT_GT(::send(babbling.get(), nonsense.data(), nonsense.size(), MSG_NOSIGNAL), 0);
  auto reply = std::async(std::launch::async, [this] { return run::request_status(run_.path()); });
  answer_one(inbox, {{"state", "running"}});
  EXPECT_TRUE(reply.get().ok());
}

}  // namespace
}  // namespace paceline::controller
