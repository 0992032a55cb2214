// The program against a run that is live in this process.
#include <gmock/gmock.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <future>
#include <iterator>

#include "paceline/cli/command.h"
#include "paceline/cli/program_fixture.h"
#include "paceline/controller/run_fixture.h"
#include "paceline/dashboard/router.h"
#include "paceline/dashboard/target.h"
#include "paceline/testing/temporary_folder.h"
#include "paceline/track/run_id.h"
#include "paceline/track/run_store.h"

namespace paceline::controller {

agent::Guardian& guardian() {
  static agent::Guardian guardian = agent::Guardian::fork_now().ValueOrDie();
  return guardian;
}

}  // namespace paceline::controller

namespace paceline::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

class LiveRunTest : public controller::RunTest {
 protected:
  LiveRunTest() {
    request_.start.program = {PACELINE_TEST_WORKER};
    callback_ = std::make_shared<controller::TestCallback>();
  }
};

TEST_F(LiveRunTest, IsShownAndStopped) {
  std::future<void> user;
  callback_->report = [&](const RunContext&, const std::vector<Metrics>& metrics, const Checkpoint*) {
    if (metrics[0].get<int64_t>("step") != 2) return;
    user = std::async(std::launch::async, [folder = folder_.path()] {
      const Outcome shown = run_program("show " + folder);
      EXPECT_EQ(shown.exit_code, kDone);
      EXPECT_THAT(shown.output, AllOf(HasSubstr("test: running\n"), HasSubstr("rank 1       training, process "),
                                      HasSubstr("(training)"), HasSubstr("report ")));
      const Json run = Json::parse(run_program("show --json " + folder).output);
      EXPECT_EQ(run["live"], true);
      EXPECT_EQ(run["workers"].size(), 2u);
      const Outcome stacks = run_program("stacks " + folder);
      EXPECT_EQ(stacks.exit_code, kDone) << stacks.output;
      EXPECT_THAT(stacks.output, AllOf(HasSubstr("rank 0, process "), HasSubstr("rank 1, process "),
                                       HasSubstr("(test_worker.cpp:"), HasSubstr("held longer than")));
      const Json one = Json::parse(run_program("stacks --json --rank 1 " + folder).output);
      EXPECT_EQ(one.size(), 1u);
      EXPECT_EQ(one[0]["rank"], 1);
      EXPECT_THAT(run_program("stacks --rank 2 " + folder).output, HasSubstr("has rank 2 now"));
      const Outcome stopped = run_program("stop " + folder);
      EXPECT_EQ(stopped.exit_code, kDone) << stopped.output;
      EXPECT_THAT(stopped.output, HasSubstr("asked run test to stop"));
    });
  };
  const controller::RunOutcome outcome = run({{"reports", 1'000'000}, {"step_ms", 10}});
  ASSERT_TRUE(user.valid());
  user.get();
  EXPECT_EQ(outcome.state, FinalState::aborted);
  EXPECT_THAT(outcome.error, HasSubstr("paceline stop (user "));
  const Outcome again = run_program("stop " + folder_.path());
  EXPECT_EQ(again.exit_code, kFailed);
  EXPECT_THAT(again.output, HasSubstr("is aborted already"));
}

// Both ranks save at the same report, or it would be no checkpoint.
TEST_F(LiveRunTest, SavesACheckpointWhenItIsAsked) {
  std::future<void> user;
  callback_->report = [&](const RunContext& run, const std::vector<Metrics>& metrics, const Checkpoint* checkpoint) {
    if (metrics[0].get<int64_t>("step") == 5) {
      user = std::async(std::launch::async, [folder = folder_.path()] {
        const Outcome asked = run_program("checkpoint now " + folder);
        EXPECT_EQ(asked.exit_code, kDone) << asked.output;
        EXPECT_THAT(asked.output, HasSubstr("save a checkpoint at one of their next steps"));
      });
    }
    if (checkpoint != nullptr) run.stop("it is there");
  };
  const controller::RunOutcome outcome = run({{"reports", 1'000'000}, {"step_ms", 5}, {"on_request", true}});
  ASSERT_TRUE(user.valid());
  user.get();
  EXPECT_EQ(outcome.state, FinalState::finished);  // when there was one
  EXPECT_THAT(text_of(folder_.path() + "/logs/controller.log"),
              AllOf(HasSubstr("paceline checkpoint now (user "), HasSubstr("asks for a checkpoint now")));
}

TEST_F(LiveRunTest, ALoopThatDoesNotAskSavesNoCheckpoint) {
  std::future<void> user;
  callback_->report = [&](const RunContext& run, const std::vector<Metrics>& metrics, const Checkpoint*) {
    if (metrics[0].get<int64_t>("step") != 2) return;
    user = std::async(std::launch::async, [&run, folder = folder_.path()] {
      const Outcome asked = run_program("checkpoint now " + folder);
      EXPECT_EQ(asked.exit_code, kFailed);
      EXPECT_THAT(asked.output, HasSubstr("has not asked yet whether a checkpoint is wanted"));
      EXPECT_EQ(run_program("stop " + folder).exit_code, kDone);
    });
  };
  (void)run({{"reports", 1'000'000}, {"step_ms", 5}});
  ASSERT_TRUE(user.valid());
  user.get();
  const Outcome over = run_program("checkpoint now " + folder_.path());
  EXPECT_EQ(over.exit_code, kFailed);
  EXPECT_THAT(over.output, HasSubstr("is aborted: no worker lives"));
}

TEST_F(LiveRunTest, IsAskedAndStoppedFromTheDashboard) {
  const testing::TemporaryFolder state;
  ::setenv("PACELINE_STATE_DIR", state.path().c_str(), 1);
  std::future<void> user;
  callback_->report = [&](const RunContext&, const std::vector<Metrics>& metrics, const Checkpoint*) {
    if (metrics[0].get<int64_t>("step") != 2) return;
    user = std::async(std::launch::async, [folder = folder_.path()] {
      EXPECT_EQ(run_program("index " + folder).exit_code, kDone);
      dashboard::RunBook runs;
      const auto sessions = dashboard::Sessions::create().ValueOrDie();
      const std::string cookie = sessions->cookie_name() + "=" + sessions->open(sessions->code()).value();
      dashboard::Api api(runs, *sessions, {});
      const auto assets = dashboard::embedded_assets();
      const dashboard::Router router(api, *sessions, *assets, "");
      const auto answer = [&](const std::string& method, const std::string& path, const std::string& body) {
        return router.answer({.method = method,
                              .target = "/api/v1/runs/" + track::run_id(folder) + path,
                              .headers = {{"host", "localhost"}, {"cookie", cookie}, {"x-paceline", "1"}},
                              .body = body,
                              .peer = "127.0.0.1"});
      };
      const auto ask = [&](const std::string& method, const std::string& path, const std::string& body) {
        const dashboard::Response response = answer(method, path, body);
        EXPECT_EQ(response.status, 200) << response.body;
        return Json::parse(response.body);
      };
      const Json run = ask("GET", "", "");
      EXPECT_EQ(run["live"], true);
      EXPECT_EQ(run["workers"].size(), 2u);
      EXPECT_EQ(ask("POST", "/actions", R"({"action":"stacks"})")["workers"].size(), 2u);
      EXPECT_EQ(ask("POST", "/actions", R"({"action":"stacks","rank":1})")["workers"][0]["rank"], 1);
      const Json taken = ask("POST", "/actions", R"({"action":"profile","rank":1,"seconds":1})")["profile"];
      EXPECT_EQ(taken["ranks"], Json({1}));
      const Json kept = ask("GET", "/profiles", "")["profiles"];
      EXPECT_EQ(kept.size(), 1u);
      EXPECT_EQ(kept[0]["name"], taken["name"]);
      EXPECT_EQ(kept[0]["who"], "the dashboard, session 1 from 127.0.0.1");
      const std::string name = dashboard::escaped(taken["name"].get<std::string>());
      EXPECT_EQ(ask("GET", "/profiles/" + name, "")["profile"], kept[0]);
      EXPECT_EQ(answer("POST", "/actions", R"({"action":"profile","rank":2,"seconds":1})").status, 404);
      api.give_up();  // who ends the dashboard does not wait for profiles
      EXPECT_EQ(answer("POST", "/actions", R"({"action":"profile","seconds":60})").status, 504);
      EXPECT_EQ(ask("POST", "/actions", R"({"action":"stop"})")["status"]["name"], "test");
    });
  };
  const controller::RunOutcome outcome = run({{"reports", 1'000'000}, {"step_ms", 10}});
  ASSERT_TRUE(user.valid());
  user.get();
  EXPECT_EQ(outcome.state, FinalState::aborted);
  EXPECT_THAT(outcome.error, HasSubstr("the dashboard, session 1 from 127.0.0.1"));
}

TEST_F(LiveRunTest, ItsCollectivesAreShownWhileItLivesAndAfter) {
  std::future<void> user;
  callback_->report = [&](const RunContext&, const std::vector<Metrics>& metrics, const Checkpoint*) {
    if (metrics[0].get<int64_t>("step") != 3) return;
    user = std::async(std::launch::async, [this] {
      const Outcome shown = run_program("show --collectives " + folder_.path());
      EXPECT_EQ(shown.exit_code, kDone) << shown.output;
      EXPECT_THAT(shown.output, AllOf(HasSubstr("attempt 1, the last collectives of 2 of 2 ranks"),
                                      HasSubstr("all_reduce"), HasSubstr("4.0 MiB"), HasSubstr("MiB/s")));
      stop_.stop();
    });
  };
  run({{"reports", 1'000'000}, {"step_ms", 10}, {"collectives", true}});
  ASSERT_TRUE(user.valid());
  user.get();
  const Outcome after = run_program("show --collectives --json " + folder_.path());
  ASSERT_EQ(after.exit_code, kDone) << after.output;
  const Json summary = Json::parse(after.output);
  EXPECT_EQ(summary["ranks"], 2);
  EXPECT_EQ(summary["kinds"][0]["collective"], "all_reduce");
  EXPECT_GE(summary["kinds"][0]["count"], 4);
  EXPECT_GE(summary["kinds"][0]["median_s"], 0.009);
}

TEST_F(LiveRunTest, ItsTimeIsProfiledWhileItTrains) {
  std::future<void> user;
  const std::string speedscope = folder_ / "all.json";
  const std::string folded = folder_ / "one.folded";
  callback_->report = [&](const RunContext&, const std::vector<Metrics>& metrics, const Checkpoint*) {
    if (metrics[0].get<int64_t>("step") != 2) return;
    user = std::async(std::launch::async, [&] {
      const std::shared_ptr<void> end(nullptr, [this](void*) { stop_.stop(); });  // whatever is thrown
      const Outcome all = run_program("profile --seconds 2 -o " + speedscope + " " + folder_.path());
      EXPECT_EQ(all.exit_code, kDone) << all.output;
      EXPECT_THAT(all.output,
                  AllOf(HasSubstr("rank 0, process "), HasSubstr("rank 1, process "), HasSubstr(" samples of C++\n"),
                        HasSubstr("most own time in C++, of "), HasSubstr("compute_for(long) (test_worker.cpp:"),
                        HasSubstr("written to " + speedscope + "\nkept in " + folder_.path() + "/profiles/")));
      const Json shown = Json::parse(text_of(speedscope));
      EXPECT_EQ(shown.at("name"), "run test");
      EXPECT_GE(shown.at("profiles").size(), 2u);
      const Outcome one = run_program("profile --json --seconds 2 --rank 1 -o " + folded + " " + folder_.path());
      EXPECT_EQ(one.exit_code, kDone) << one.output;
      const Json said = Json::parse(one.output);
      EXPECT_EQ(said.at("profiles").size(), 1u);
      EXPECT_EQ(said.at("profiles").at(0).at("rank"), 1);
      EXPECT_THAT(said.at("profiles").at(0).at("problems").dump(), "[]");
      EXPECT_THAT(text_of(folded), AllOf(StartsWith("rank 1;"), HasSubstr("compute_for(long) (test_worker.cpp)")));
      const Json note = Json::parse(text_of(said.at("folder").get<std::string>() + "/profile.json"));
      EXPECT_EQ(note.at("kind"), "cpu");
      EXPECT_EQ(note.at("rank"), 1);
      EXPECT_EQ(note.at("ranks"), Json({1}));
      EXPECT_EQ(note.at("samples"), said.at("profiles").at(0).at("samples"));
      EXPECT_THAT(note.at("who").get<std::string>(), StartsWith("paceline profile (user "));
      for (const char* name : {"/profile.jsonl", "/profile.speedscope.json"}) {
        EXPECT_GT(text_of(said.at("folder").get<std::string>() + name).size(), 0u);
      }
      const Outcome nobody = run_program("profile --rank 2 --seconds 1 " + folder_.path());
      EXPECT_EQ(nobody.exit_code, kWrongUse);
      EXPECT_THAT(nobody.output, HasSubstr("has rank 2 now"));
      const Outcome given_up = run_command_line(
          "timeout --signal=INT --preserve-status 1 " PACELINE_PROGRAM " profile --seconds 60 " + folder_.path());
      EXPECT_EQ(given_up.exit_code, kFailed);
      EXPECT_THAT(given_up.output, HasSubstr("takes the profile to its end, and keeps it in " + folder_.path()));
    });
  };
  run({{"reports", 1'000'000}, {"compute_ms", 40}});
  ASSERT_TRUE(user.valid());
  user.get();
  EXPECT_THAT(run_program("logs --controller " + folder_.path()).output,
              AllOf(HasSubstr("paceline profile (user "), HasSubstr("asks for a profile (cpu) of rank 1, 2 s")));
  const Outcome after = run_program("profile " + folder_.path());
  EXPECT_EQ(after.exit_code, kFailed);
  EXPECT_THAT(after.output, HasSubstr("no worker lives"));
  // Before anything is sampled.
  std::filesystem::create_directory(folder_ / "folder.json");
  EXPECT_THAT(run_program("profile -o " + (folder_ / "folder.json") + " " + folder_.path()).output,
              HasSubstr("folder.json: it is a folder"));
  EXPECT_THAT(run_program("profile -o " + (folder_ / "none/a.json") + " " + folder_.path()).output,
              HasSubstr("a.json: there is no folder "));
}

// More than there is room for in one message to the guardian, which gets memory from each.
TEST_F(LiveRunTest, AllRanksOfANodeAreProfiledTogether) {
  constexpr int kRanks = 9;
  request_.scaling_config.num_workers = kRanks;
  std::future<void> user;
  callback_->report = [&](const RunContext&, const std::vector<Metrics>& metrics, const Checkpoint*) {
    if (metrics[0].get<int64_t>("step") != 2) return;
    user = std::async(std::launch::async, [&] {
      const std::shared_ptr<void> end(nullptr, [this](void*) { stop_.stop(); });  // whatever is thrown
      for (const std::string kind : {"cpu", "off-cpu"}) {
        const Outcome all = run_program("profile --json --seconds 1 --" + kind + " " + folder_.path());
        EXPECT_EQ(all.exit_code, kDone) << all.output;
        const Json said = Json::parse(all.output);
        EXPECT_EQ(said.at("profiles").size(), size_t{kRanks}) << all.output;
        for (int rank = 0; rank < kRanks; ++rank) {
          const Json& profile = said.at("profiles").at(static_cast<size_t>(rank));
          EXPECT_EQ(profile.at("rank"), rank);
          for (const std::string problem : profile.at("problems")) {  // of a rank's own threads, where all is slow
            EXPECT_THAT(problem, StartsWith("not sampled, because they block SIGPROF"));
          }
        }
      }
    });
  };
  run({{"reports", 1'000'000}, {"step_ms", 10}});
  ASSERT_TRUE(user.valid());
  user.get();
}

TEST_F(LiveRunTest, WhereItsThreadsWaitIsShownEvenWhenTheyAreStopped) {
  std::future<void> user;
  callback_->report = [&](const RunContext&, const std::vector<Metrics>& metrics, const Checkpoint*) {
    if (metrics[0].get<int64_t>("step") != 2) return;
    user = std::async(std::launch::async, [&] {
      const std::shared_ptr<void> end(nullptr, [this](void*) { stop_.stop(); });  // whatever is thrown
      const std::string folded = folder_ / "waits.folded";
      const Outcome waits = run_program("profile --off-cpu --seconds 1 --rank 0 -o " + folded + " " + folder_.path());
      EXPECT_EQ(waits.exit_code, kDone) << waits.output;
      EXPECT_THAT(waits.output,
                  AllOf(HasSubstr(" at 49 Hz: "), HasSubstr("WANTS PROCESSOR"), HasSubstr("most own waiting in C++")));
      EXPECT_THAT(text_of(folded), HasSubstr(" (test_worker.cpp);"));
      const Json run = Json::parse(run_program("show --json " + folder_.path()).output);
      const auto pid = run.at("workers").at(0).at("pid").get<pid_t>();
      ::kill(pid, SIGSTOP);
      const Outcome stopped = run_program("profile --off-cpu --seconds 1 --rank 0 " + folder_.path());
      ::kill(pid, SIGCONT);
      EXPECT_EQ(stopped.exit_code, kDone) << stopped.output;
      EXPECT_THAT(stopped.output, HasSubstr("[stopped by a signal]"));
    });
  };
  run({{"reports", 1'000'000}, {"step_ms", 10}});
  ASSERT_TRUE(user.valid());
  user.get();
  EXPECT_THAT(run_program("logs --controller " + folder_.path()).output, HasSubstr("asks for a profile (off_cpu)"));
}

// A worker that stands still samples nothing, and the answer does not wait for it.
TEST_F(LiveRunTest, AProfileOfAStoppedWorkerSaysSo) {
  std::future<void> user;
  callback_->report = [&](const RunContext&, const std::vector<Metrics>& metrics, const Checkpoint*) {
    if (metrics[0].get<int64_t>("step") != 2) return;
    user = std::async(std::launch::async, [&] {
      const std::shared_ptr<void> end(nullptr, [this](void*) { stop_.stop(); });  // whatever is thrown
      const Json run = Json::parse(run_program("show --json " + folder_.path()).output);
      const auto pid = run.at("workers").at(0).at("pid").get<pid_t>();
      ::kill(pid, SIGSTOP);
      const Outcome shown = run_program("profile --seconds 1 --rank 0 " + folder_.path());
      EXPECT_EQ(shown.exit_code, kFailed);
      EXPECT_THAT(shown.output, HasSubstr("rank 0: the worker did not answer: it is stopped"));
      ::kill(pid, SIGCONT);
    });
  };
  run({{"reports", 1'000'000}, {"step_ms", 10}});
  ASSERT_TRUE(user.valid());
  user.get();
}

TEST_F(LiveRunTest, ARunWithoutCollectivesSaysSo) {
  run({{"reports", 1}});
  const Outcome shown = run_program("show --collectives " + folder_.path());
  EXPECT_EQ(shown.exit_code, kDone);
  EXPECT_THAT(shown.output, HasSubstr("no collectives: "));
  EXPECT_EQ(Json::parse(run_program("show --collectives --json " + folder_.path()).output)["ranks"], 0);
}

// `logs -f` shows lines as they come and ends with the run, which is stopped when it has shown some.
TEST_F(LiveRunTest, ItsLogsAreFollowedToTheEnd) {
  std::future<Outcome> followed;
  callback_->report = [&](const RunContext&, const std::vector<Metrics>& metrics, const Checkpoint*) {
    const auto step = metrics[0].get<int64_t>("step");
    if (step == 1) {
      followed = std::async(std::launch::async,
                            [folder = folder_.path()] { return run_program("logs -f --rank 1 " + folder); });
    }
    if (step == 100) stop_.stop();
  };
  EXPECT_EQ(run({{"reports", 1'000'000}, {"step_ms", 10}}).state, FinalState::aborted);
  const Outcome outcome = followed.get();
  EXPECT_EQ(outcome.exit_code, kDone) << outcome.output;
  EXPECT_THAT(outcome.output, AllOf(::testing::StartsWith("step 1\n"), HasSubstr("\nstep 100\n")));
}

// The store is written by the driver itself, while it lives and at its end.
TEST_F(LiveRunTest, IsInTheRunStore) {
  const paceline::testing::TemporaryFolder state;
  ::setenv("PACELINE_STATE_DIR", state.path().c_str(), 1);
  request_.run_store = track::run_store_path(state.path());
  EXPECT_EQ(run({{"reports", 3}, {"checkpoint_every", 3}}).state, FinalState::finished);
  const Json listed = Json::parse(run_program("list --json").output);
  ASSERT_EQ(listed.size(), 1u);
  EXPECT_EQ(listed[0]["state"], "finished");
  EXPECT_EQ(listed[0]["report"], 3);
  EXPECT_THAT(run_program("show test").output, HasSubstr("checkpoint_000003"));
  ::unsetenv("PACELINE_STATE_DIR");
}

}  // namespace
}  // namespace paceline::cli

int main(int argc, char** argv) {
  paceline::controller::guardian();  // while there is one thread
  ::testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
