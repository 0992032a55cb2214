// What the interface tells of runs.
#include "paceline/dashboard/api.h"

#include <fcntl.h>
#include <gmock/gmock.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <regex>
#include <thread>

#include "paceline/core/run_layout.h"
#include "paceline/dashboard/prometheus.h"
#include "paceline/dashboard/served_runs_fixture.h"
#include "paceline/track/sample_files.h"
#include "paceline/views/checkpoint_list.h"
#include "paceline/views/shown_run.h"

namespace paceline::dashboard {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class ApiTest : public ServedRunsTest {};

TEST_F(ApiTest, RunsAreThoseOfTheStore) {
  EXPECT_EQ(get("/api/v1/runs"), Json({{"runs", Json::array()}, {"next", ""}}));
  const std::string first = finished("mnist"), second = finished("cifar");
  const Json page = get("/api/v1/runs?limit=1&sort=name");
  EXPECT_EQ(page["runs"][0]["name"], "cifar");
  EXPECT_EQ(page["next"], second);
  EXPECT_EQ(get("/api/v1/runs?limit=1&sort=name&cursor=" + second)["runs"][0]["id"], first);
  EXPECT_EQ(get("/api/v1/runs?q=NIS")["runs"].size(), 1u);
  EXPECT_EQ(get("/api/v1/runs?state=errored")["runs"].size(), 0u);
}

TEST_F(ApiTest, ARunIsAsTheCommandLineShowsIt) {
  const std::string id = finished("mnist");
  const Json run = get("/api/v1/runs/" + id);
  EXPECT_EQ(run, Json(views::shown_run(run::read_run_folder(folder("mnist")).ValueOrDie())));
  EXPECT_EQ(run["id"], id);
  EXPECT_EQ(run["state"], "finished");
}

TEST_F(ApiTest, ARunThatGoesOnIsFollowed) {
  run::RecordedRun run(folder("mnist"), "mnist");
  run.open();
  const std::string id = index(folder("mnist"));
  EXPECT_EQ(get("/api/v1/runs/" + id)["attempts"].size(), 1u);
  run.train();  // the store has not heard of it
  EXPECT_EQ(get("/api/v1/runs/" + id)["attempts"].size(), 2u);
  EXPECT_THAT(get("/api/v1/runs/" + id)["remark"], HasSubstr("is gone")) << "its driver has the process id 0";
  const Json events = get("/api/v1/runs/" + id + "/events?limit=3");
  ASSERT_EQ(events["events"].size(), 3u);
  const int64_t next = events["next"];
  const Json more = get("/api/v1/runs/" + id + "/events?after=" + std::to_string(next));
  EXPECT_EQ(more["events"][0]["sequence"], next + 1);
  run.report(1, {{"loss", 0.25}});
  index(folder("mnist"));
  std::filesystem::remove_all(folder("mnist"));
  EXPECT_EQ(get("/api/v1/runs/" + id)["gone"], true);
  EXPECT_EQ(get("/api/v1/runs/" + id + "/metrics?names=loss")["series"]["loss"]["last"], Json({0.25}))
      << "as the run store has it";
  auto store = track::RunStore::open(track::user_run_store().ValueOrDie()).ValueOrDie();
  ASSERT_TRUE(store.remove(folder("mnist")).ok());
  EXPECT_EQ(ask_in_session("GET", "/api/v1/runs/" + id).status, 404);
}

TEST_F(ApiTest, MetricsHaveTheWholeHistory) {
  const std::string id = finished("mnist");
  auto history = track::HistoryWriter::open(folder("mnist")).ValueOrDie();
  for (int64_t report = 2; report <= 2000; ++report) {
    ASSERT_TRUE(history.append({.report = report, .metrics = {{"loss", report}, {"a,b", 1}}}).ok());
  }
  ASSERT_TRUE(history.flush().ok());
  const std::string metrics = "/api/v1/runs/" + id + "/metrics";
  EXPECT_EQ(get(metrics), Json({{"names", {"a,b", "loss"}}, {"series", Json::object()}}));
  EXPECT_EQ(get(metrics + "?names=loss,nothing&points=5000")["series"]["loss"]["last"].size(), 2000u);
  const Json zoomed = get(metrics + "?names=loss&points=2&from=11&to=20")["series"]["loss"];
  EXPECT_EQ(zoomed["report"], Json({15, 20}));
  EXPECT_EQ(zoomed["min"], Json({11.0, 16.0}));
  EXPECT_EQ(get(metrics + "?names=a%2Cb")["series"]["a,b"]["last"].size(), 800u);
  EXPECT_EQ(get(metrics + "?names=x,a,b,loss,,a&points=1")["series"].size(), 2u) << "a name may have commas";
}

TEST_F(ApiTest, LogsComeInParts) {
  const std::string logs = "/api/v1/runs/" + finished("mnist") + "/logs";
  EXPECT_EQ(get(logs)["streams"][0]["stream"], "controller");
  EXPECT_EQ(get(logs)["streams"][1]["rank"], 0);
  EXPECT_EQ(get(logs + "/controller?offset=6"),
            Json({{"text", "second\n"}, {"offset", 6}, {"next", 13}, {"size", 13}}));
  EXPECT_EQ(get(logs + "/controller?grep=SEC")["text"], "second\n");
  EXPECT_EQ(ask_in_session("GET", logs + "/worker_9").status, 404);
}

TEST_F(ApiTest, TheConfigurationIsThatOfTheLastDriver) {
  const std::string id = finished("mnist");
  const Json configuration = get("/api/v1/runs/" + id + "/configuration");
  EXPECT_EQ(configuration["options"]["max_failures"], 1);
  EXPECT_EQ(configuration["train_loop_config"], Json({{"learning_rate", 0.125}}));
  std::filesystem::remove_all(folder("mnist"));
  EXPECT_EQ(get("/api/v1/runs/" + id + "/configuration")["options"], Json::object()) << "nobody has it any more";
}

TEST_F(ApiTest, AnActionOnARunThatIsOverIsRefused) {
  const std::string actions = "/api/v1/runs/" + finished("mnist") + "/actions";
  const Response response = ask_in_session("POST", actions, R"({"action":"stop"})");
  EXPECT_EQ(response.status, 409);
  EXPECT_THAT(response.body, HasSubstr("is finished already"));
  run::RecordedRun dead(folder("dead"), "dead");
  dead.train();
  const std::string of_dead = "/api/v1/runs/" + index(folder("dead")) + "/actions";
  EXPECT_EQ(ask_in_session("POST", of_dead, R"({"action":"stop"})").status, 409);
  EXPECT_EQ(ask_in_session("POST", actions, R"({"action":"abort"})").status, 400);
  EXPECT_EQ(ask_in_session("POST", actions, R"({"action":"stacks","rank":0})").status, 409);
  EXPECT_THAT(recorded_.back(), AllOf(HasSubstr("failed at \"stacks\""), HasSubstr("session 1 from 127.0.0.1")));
}

TEST_F(ApiTest, ProfilesAreThoseOfTheFolder) {
  const std::string profiles = "/api/v1/runs/" + finished("mnist") + "/profiles";
  EXPECT_EQ(get(profiles), Json({{"profiles", Json::array()}}));
  const std::string name = keep_profile(folder("mnist"));
  const Json listed = get(profiles)["profiles"];
  ASSERT_EQ(listed.size(), 1u);
  EXPECT_EQ(listed[0]["name"], name);
  EXPECT_EQ(listed[0]["kind"], "cpu");
  EXPECT_EQ(listed[0]["ranks"], Json({0, 1}));
  EXPECT_EQ(listed[0]["samples"], Json({{"C++", 21}}));
  const std::string one = profiles + "/" + escaped(name);
  const Json graph = get(one);
  EXPECT_EQ(graph["profile"], listed[0]);
  EXPECT_EQ(graph["parent"], Json({-1, 0}));
  EXPECT_EQ(graph["threads"][1]["counts"], Json({11}));
  const Json speedscope = get(one + "?format=speedscope");
  EXPECT_EQ(speedscope["exporter"], "paceline");
  EXPECT_EQ(speedscope["profiles"].size(), 2u);
  EXPECT_EQ(ask_in_session("GET", one + "?format=pprof").status, 400);
  EXPECT_EQ(ask_in_session("GET", profiles + "/2026").status, 404);
  testing::write_file(folder("mnist") + "/profiles/" + name + "/profile.jsonl", "nothing");
  EXPECT_EQ(ask_in_session("GET", one).status, 500);
  EXPECT_EQ(get(profiles)["profiles"].size(), 1u) << "the note is still there";
}

TEST_F(ApiTest, ACheckpointIsComparedWithItsManifest) {
  const std::string run = "/api/v1/runs/" + finished("mnist") + "/checkpoints/";
  const checkpoint::Published published = published_checkpoint(folder("mnist"));
  const std::string verification = run + published.name + "/verification";
  const Json whole = get(verification);
  EXPECT_EQ(whole["is_whole"], true) << whole;
  EXPECT_EQ(whole["bytes"], 7);
  std::ofstream(published.path + "/model") << "weight$";
  const Json damaged = get(verification);
  EXPECT_EQ(damaged["is_whole"], false);
  EXPECT_THAT(damaged["problem"].get<std::string>(), HasSubstr("/model is damaged"));
  std::filesystem::permissions(published.path + "/model", std::filesystem::perms::none);
  if (::geteuid() != 0) {
    EXPECT_EQ(ask_in_session("GET", verification).status, 500) << "not read is not damaged";
  }
  std::filesystem::rename(published.path + "/model", folder("mnist") + "/elsewhere");
  std::filesystem::create_symlink("../elsewhere", published.path + "/model");
  EXPECT_THAT(get(verification)["problem"].get<std::string>(), HasSubstr("/model is a link")) << "and not its checksum";
  EXPECT_EQ(ask_in_session("GET", run + "checkpoint_000077/verification").status, 404);
  std::filesystem::remove(published.path + "/paceline_manifest.json");
  ASSERT_EQ(::mkfifo((published.path + "/paceline_manifest.json").c_str(), 0600), 0);
  EXPECT_EQ(ask_in_session("GET", verification).status, 500) << "a pipe that nobody writes to";
  for (const char* wrong : {"logs", "..", "%2e%2e", "%2e%2e%2fmnist", "journal.jsonl"}) {
    EXPECT_NE(ask_in_session("GET", run + wrong + "/verification").status, 200) << wrong;
  }
}

// As the folder that has the checkpoint of the last report, at each.
TEST_F(ApiTest, ACheckpointThatIsReplacedMeanwhileIsNotDamaged) {
  (void)finished("mnist");
  (void)finished("cifar");
  const std::string path = published_checkpoint(folder("mnist")).path.text();
  const std::string other = published_checkpoint(folder("cifar"), "weighed").path.text();
  std::atomic<bool> is_over{false};
  std::thread replaces([&] {
    for (; !is_over; std::this_thread::sleep_for(std::chrono::milliseconds(20))) {
      ::renameat2(AT_FDCWD, path.c_str(), AT_FDCWD, other.c_str(), RENAME_EXCHANGE);
    }
  });
  for (int turn = 0; turn < 300; ++turn) {
    const auto verified = views::verify_checkpoint(storage::Location(path));
    EXPECT_TRUE(verified.ok() && verified->is_whole) << verified.status() << (verified.ok() ? verified->problem : "");
  }
  is_over = true;
  replaces.join();
}

TEST_F(ApiTest, AProfileOfWhatDoesNotLiveIsRefused) {
  const std::string actions = "/api/v1/runs/" + finished("mnist") + "/actions";
  const Response over = ask_in_session("POST", actions, R"({"action":"profile","rank":0,"seconds":1})");
  EXPECT_EQ(over.status, 409);
  EXPECT_THAT(over.body, HasSubstr("no worker lives"));
  EXPECT_THAT(recorded_.back(), HasSubstr("failed at \"profile\""));
  for (const char* wrong :
       {R"({"action":"profile","seconds":-1})", R"({"action":"profile","seconds":61})",
        R"({"action":"profile","seconds":1e9})", R"({"action":"profile","kind":"smell"})",
        R"({"action":"profile","pid":1})", R"({"action":"profile","rank":"0"})", R"({"action":"profile","rank":1.7})",
        R"({"action":"profile","rank":-2})", R"({"action":"profile","rank":18446744073709551615})",
        R"({"action":"stacks","rank":-7})", R"({"action":"profile","seconds":5.9})",
        R"({"action":"profile","steps":3})", R"({"action":"profile","kind":"timeline","steps":-1})",
        R"({"action":"profile","kind":"timeline","steps":1000001})"}) {
    EXPECT_EQ(ask_in_session("POST", actions, wrong).status, 400) << wrong;
  }
  run::RecordedRun dead(folder("dead"), "dead");
  dead.train();
  const std::string of_dead = "/api/v1/runs/" + index(folder("dead")) + "/actions";
  EXPECT_EQ(ask_in_session("POST", of_dead, R"({"action":"profile"})").status, 409);
}

TEST_F(ApiTest, OnlyRunsOfTheStoragePathAreThere) {
  const std::string id = finished("mnist");
  RunBook elsewhere({home_ / "other"});
  EXPECT_TRUE(elsewhere.folder_of(id).status().IsKeyError());
  EXPECT_TRUE(elsewhere.list({}).ValueOrDie().runs.empty());
  RunBook here({home_ / "runs"});
  EXPECT_EQ(here.folder_of(id).ValueOrDie(), folder("mnist"));
  EXPECT_EQ(here.list({}).ValueOrDie().runs.size(), 1u);
}

TEST_F(ApiTest, TopicsHaveRunsById) {
  const std::string id = finished("mnist");
  EXPECT_EQ(api_->look("runs").ValueOrDie()[id]["name"], "mnist");
  EXPECT_EQ(api_->look("run:" + id).ValueOrDie()["name"], "mnist");
  EXPECT_TRUE(api_->look("run:nothing").status().IsKeyError());
  EXPECT_EQ(ask_in_session("GET", "/api/v1/stream?topics=all").status, 400);
  EXPECT_EQ(ask_in_session("GET", "/api/v1/stream").status, 400);
}

NodeSample busy_node(double time) {
  NodeSample sample{.time = time, .cpu_ratio = 0.5, .cores = 8, .network_sent_bytes_total = 300};
  sample.gpus.push_back({.uuid = "GPU-a", .index = 1, .name = "H100", .utilization_ratio = 0.75});
  sample.processes.push_back({.worker = 2, .role = "worker", .pid = 41, .cpu_cores = 1.5, .rss_bytes = 2e6});
  sample.processes.push_back({.worker = 0, .role = "driver", .pid = 40, .cpu_seconds_total = 3});
  return sample;
}

TEST_F(ApiTest, NodesAndWhatTheyDid) {
  const std::string id = finished("mnist"), run = "/api/v1/runs/" + id;
  EXPECT_EQ(get(run + "/nodes"), Json({{"nodes", Json::array()}, {"data_processes", Json::array()}}));
  EXPECT_EQ(ask_in_session("GET", run + "/samples?node=local").status, 404);
  {
    track::SampleFiles files(folder("mnist") + "/" + run_layout::node_samples("local"), "node", "local");
    for (int second = 0; second < 3; ++second) files.add(track::columns_of(busy_node(1000.0 + second)));
    track::SampleFiles(folder("mnist") + "/" + run_layout::data_samples({3}), "data", "3")
        .add({.time = 1000, .values = {{"train/rows_per_s", 5}}});
  }
  const Json nodes = get(run + "/nodes");
  EXPECT_EQ(nodes["data_processes"], Json({"3"}));
  ASSERT_EQ(nodes["nodes"].size(), 1u);
  EXPECT_EQ(nodes["nodes"][0]["state"], "ended");
  EXPECT_EQ(nodes["nodes"][0]["ranks"], Json({{"2", 0}}));
  EXPECT_EQ(nodes["nodes"][0]["sample"]["gpus"][0]["utilization_ratio"], 0.75);
  EXPECT_EQ(nodes["nodes"][0]["sample"]["load_1m"], nullptr);
  const Json samples = get(run + "/samples?node=local&names=cpu_ratio,process/2/&from=1001");
  EXPECT_EQ(samples["time"], Json({1001, 1002}));
  EXPECT_EQ(samples["first"], 1000);
  EXPECT_EQ(samples["series"]["cpu_ratio"]["mean"], Json({0.5, 0.5}));
  EXPECT_TRUE(samples["series"].contains("process/2/cpu_cores"));
  EXPECT_FALSE(samples["series"].contains("cores"));
  EXPECT_EQ(samples["about"]["processes"]["2"]["role"], "worker");
  EXPECT_EQ(get(run + "/samples?data=3")["series"]["train/rows_per_s"]["max"], Json({5}));
  EXPECT_EQ(ask_in_session("GET", run + "/samples").status, 400);
  EXPECT_EQ(ask_in_session("GET", run + "/samples?node=a&data=3").status, 400);
}

TEST(Prometheus, HasNodesGpusAndProcesses) {
  PrometheusText text;
  text.add_node("1f", "mnist", {.name = "a", .ranks = {{"2", 0}}, .sample = busy_node(1)});
  const std::string labels = R"(run_id="1f",run_name="mnist",node="a")";
  EXPECT_THAT(text.text(), HasSubstr("paceline_node_cpu_ratio{" + labels + "} 0.5\n"));
  EXPECT_THAT(text.text(), HasSubstr("paceline_node_net_bytes_total{" + labels + ",dir=\"sent\"} 300\n"));
  EXPECT_THAT(text.text(), HasSubstr("paceline_gpu_utilization_ratio{" + labels +
                                     ",gpu=\"1\",uuid=\"GPU-a\",name=\"H100\"} 0.75\n"));
  EXPECT_THAT(text.text(), HasSubstr("paceline_process_cpu_cores{" + labels + ",role=\"worker\",rank=\"0\"} 1.5\n"));
  EXPECT_THAT(text.text(), HasSubstr("role=\"driver\",process=\"0\"} 3\n"));
  EXPECT_THAT(text.text(), HasSubstr("ray_node_cpu_utilization{"));
  EXPECT_THAT(text.text(), HasSubstr("ray_component_rss_mb{"));
  EXPECT_THAT(text.text(), Not(HasSubstr("memory_bytes"))) << "what is not known is not exported";
}

TEST(Prometheus, HasRunsWithTheirWorkers) {
  views::RunSummary run{.id = "1f", .name = "m\"n\\\n", .state = "running", .live = true};
  run.metrics = {{"loss", 0.5}, {"lr", 0.1}};
  run.checkpoints = {{.report = 3, .time = 99}};
  run.workers = Json::array({{{"rank", 1},
                              {"node", "a"},
                              {"step", 7},
                              {"cpu_s", 1.5},
                              {"resident_bytes", 2048},
                              {"spent", {{"compute_s", 8.0}, {"data_s", 2.5}}}},
                             {{"rank", nullptr}, {"node", "a"}}});
  run.datasets = {{.name = "train",
                   .steps = {{.name = "Read", .rows_task_outputs_generated = 5}},
                   .ranks = {{.rank = 1, .waited_s = 2}}}};
  PrometheusText text;
  text.add({.driver = views::DriverState::alive}, run, {});
  const std::string labels = R"(run_id="1f",run_name="m\"n\\\n")";
  EXPECT_THAT(text.text(), HasSubstr("# TYPE paceline_run_state gauge\n"));
  EXPECT_THAT(text.text(), HasSubstr("paceline_run_state{" + labels + ",state=\"running\"} 1\n"));
  EXPECT_THAT(text.text(), HasSubstr("paceline_run_state{" + labels + ",state=\"finished\"} 0\n"));
  EXPECT_THAT(text.text(), HasSubstr(",ray_train_controller_state=\"RUNNING\"} 1\n"));
  EXPECT_THAT(text.text(), HasSubstr("paceline_loss{" + labels + "} 0.5\n"));
  EXPECT_THAT(text.text(), HasSubstr("paceline_learning_rate{" + labels + "}"));
  EXPECT_THAT(text.text(), HasSubstr("paceline_steps_total{" + labels + ",rank=\"1\",node=\"a\"} 7\n"));
  EXPECT_THAT(text.text(),
              HasSubstr("paceline_data_rows_total{" + labels + ",dataset=\"train\",operator=\"0 Read\"} 5\n"));
  EXPECT_THAT(text.text(),
              HasSubstr("paceline_data_wait_seconds_total{" + labels + ",dataset=\"train\",rank=\"1\"} 2\n"));
  const std::string of_rank = labels + ",rank=\"1\",node=\"a\"";
  EXPECT_THAT(text.text(), HasSubstr("paceline_time_seconds_total{" + of_rank + ",kind=\"compute\"} 8\n"));
  EXPECT_THAT(text.text(), HasSubstr("paceline_time_seconds_total{" + of_rank + ",kind=\"data_wait\"} 2.5\n"));
  EXPECT_THAT(text.text(), Not(HasSubstr("null")));
}

// With a wrong name a panel stays empty, and nobody knows why.
TEST(Prometheus, HasAllThatTheGrafanaDashboardShows) {
  std::ifstream file(GRAFANA_DASHBOARD);
  const Json grafana = Json::parse(file);
  const std::vector<std::string> names = PrometheusText::names();
  int expressions = 0;
  for (const Json& panel : grafana["panels"]) {
    for (const Json& target : panel.value("targets", Json::array())) {
      const auto expression = target["expr"].get<std::string>();
      const std::regex metric("paceline_[a-z0-9_]+");
      for (std::sregex_iterator found(expression.begin(), expression.end(), metric), end; found != end; ++found) {
        EXPECT_THAT(names, ::testing::Contains(found->str())) << expression;
        ++expressions;
      }
    }
  }
  EXPECT_GT(expressions, 20);
}

TEST_F(ApiTest, HangsAreListedAndGivenWithTheirStacks) {
  const std::string id = finished("mnist");
  EXPECT_TRUE(get("/api/v1/runs/" + id + "/hangs")["hangs"].empty());
  const run::FoundHang hang{.name = "2026-11-28T10:00:00Z", .text = "rank 1 makes no progress", .suspects = {1}};
  ASSERT_TRUE(run::keep_hang(folder("mnist"), {.hang = hang, .workers = {{.worker = 2, .rank = 1}}}).ok());
  const Json all = get("/api/v1/runs/" + id + "/hangs")["hangs"];
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0]["text"], "rank 1 makes no progress");
  const Json one = get("/api/v1/runs/" + id + "/hangs/2026-11-28T10:00:00Z");
  EXPECT_EQ(one["hang"]["suspects"], Json({1}));
  EXPECT_EQ(one["workers"][0]["rank"], 1);
  EXPECT_EQ(ask_in_session("GET", "/api/v1/runs/" + id + "/hangs/now").status, 404);
}

TEST_F(ApiTest, ARunThatIsOverSavesNoCheckpoint) {
  const Response refused =
      ask_in_session("POST", "/api/v1/runs/" + finished("mnist") + "/actions", R"({"action":"checkpoint_now"})");
  EXPECT_EQ(refused.status, 409);
  EXPECT_THAT(refused.body, ::testing::HasSubstr("no worker lives"));
}

}  // namespace
}  // namespace paceline::dashboard
