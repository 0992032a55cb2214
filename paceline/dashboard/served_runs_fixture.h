// Runs of a test's own, and a router that answers for them without a socket.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "paceline/checkpoint/stage.h"
#include "paceline/checkpoint/store.h"
#include "paceline/dashboard/router.h"
#include "paceline/run/kept_profiles.h"
#include "paceline/run/reader.h"
#include "paceline/run/recorded_run_fixture.h"
#include "paceline/testing/temporary_folder.h"
#include "paceline/track/run_id.h"
#include "paceline/track/run_store.h"

namespace paceline::dashboard {

class ServedRunsTest : public ::testing::Test {
 protected:
  static constexpr const char* kToken = "0123456789abcdef0123456789abcdef";

  ServedRunsTest() {
    ::setenv("PACELINE_STATE_DIR", (home_ / "state").c_str(), 1);
    serve({});
  }

  void serve(Api::Options options) {
    options.record = [this](const std::string& what) { recorded_.push_back(what); };
    api_ = std::make_unique<Api>(runs_, *sessions_, options);
    router_ = std::make_unique<Router>(*api_, *sessions_, *assets_, kToken);
  }

  std::string folder(const std::string& name) const { return home_ / ("runs/" + name); }
  // A run that is over; its id.
  std::string finished(const std::string& name, const std::string& in = "") {
    const std::string path = folder(in.empty() ? name : in);
    run::RecordedRun run(path, name);
    run.train();
    run.report(1, {{"loss", 0.25}});
    run.finish();
    testing::write_file(path + "/logs/controller.log", "first\nsecond\n");
    testing::write_file(path + "/logs/worker_1.log", "hello\n");
    return index(path);
  }
  // Keeps a profile of ranks 0 and 1 in a run's folder; its name.
  static std::string keep_profile(const std::string& path) {
    stacks::Profiles taken;
    for (const int64_t rank : {0, 1}) {
      taken.push_back({.worker = rank + 1,
                       .rank = rank,
                       .rate = 99,
                       .seconds = 5,
                       .ways = {"signal"},
                       .frames = {{.function = "train"}, {.function = "step"}},
                       .threads = {{.tid = 7, .name = "main", .stacks = {{.frames = {0, 1}, .count = 10 + rank}}}}});
    }
    const run::KeptProfile profile{.name = run::profile_name(from_seconds(1'790'000'000)), .time = 1'790'000'000};
    EXPECT_TRUE(run::keep_profile(path, run::described(profile, taken), taken, {{1, "compressed"}}, "mnist").ok());
    return profile.name;
  }
  // Of the run in that folder, with one file "model" of 7 bytes.
  checkpoint::Published published_checkpoint(const std::string& path, const char* model = "weights") const {
    testing::write_file(home_ / "user/model", model);
    auto stage = checkpoint::Stage::create(path, {.attempt = {1}, .worker = {1}}, 1).ValueOrDie();
    EXPECT_TRUE(stage.copy_folder(home_ / "user").ok());
    return checkpoint::Store(path).publish({{0, stage.finish().ValueOrDie()}}, {.report = 9}).ValueOrDie();
  }
  // As the driver's indexer does it.
  static std::string index(const std::string& path) {
    auto store = track::RunStore::open(track::user_run_store().ValueOrDie()).ValueOrDie();
    EXPECT_TRUE(store.put(run::read_run_folder(path).ValueOrDie()).ok());
    return track::run_id(path);
  }

  Response ask(const std::string& method, const std::string& target, Headers headers = {},
               const std::string& body = "") const {
    Request request{.method = method, .target = target, .body = body, .peer = peer_, .own_address = "192.168.1.5"};
    const bool has_host = std::ranges::any_of(headers, [](const auto& header) { return header.first == "host"; });
    if (!has_host) request.headers.emplace_back("host", "127.0.0.1:8265");
    for (auto& header : headers) request.headers.push_back(std::move(header));
    return router_->answer(request);
  }
  // With the cookie of a session, and the header that a page sends.
  Response ask_in_session(const std::string& method, const std::string& target, const std::string& body = "") {
    if (cookie_.empty()) cookie_ = sessions_->cookie_name() + "=" + sessions_->open(sessions_->code()).value();
    return ask(method, target, {{"cookie", cookie_}, {"x-paceline", "1"}}, body);
  }
  Json get(const std::string& target) {
    const Response response = ask_in_session("GET", target);
    EXPECT_EQ(response.status, 200) << target << ": " << response.body;
    return Json::parse(response.body);
  }

  testing::TemporaryFolder home_;
  RunBook runs_;
  std::unique_ptr<Sessions> sessions_ = Sessions::create().ValueOrDie();
  std::unique_ptr<Assets> assets_ = embedded_assets();
  std::unique_ptr<Api> api_;
  std::unique_ptr<Router> router_;
  std::vector<std::string> recorded_;
  std::string cookie_;
  std::string peer_ = "127.0.0.1";
};

}  // namespace paceline::dashboard
