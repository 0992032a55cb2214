// Runs that version 0.1 has left (run/fixtures/v0_1), as pages ask for them: nothing that was kept is missing, what was
// not kept then is empty, and no question is an error.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "paceline/dashboard/served_runs_fixture.h"

namespace paceline::dashboard {
namespace {

std::vector<std::string> old_runs() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(OLD_RUNS)) names.push_back(entry.path().filename());
  std::ranges::sort(names);
  return names;
}

class OldRunsTest : public ServedRunsTest, public ::testing::WithParamInterface<std::string> {};

TEST_P(OldRunsTest, AreShownAsTheyWere) {
  const std::string path = folder(GetParam());
  std::filesystem::create_directories(home_ / "runs");
  std::filesystem::copy(std::string(OLD_RUNS) + "/" + GetParam(), path);
  std::ifstream file(path + "/expected.json");
  const Json expected = Json::parse(file);
  const std::string run = "/api/v1/runs/" + index(path);

  const Json shown = get(run);
  for (const char* member : {"name", "report", "created", "error", "host"}) {
    EXPECT_EQ(shown.at(member), expected["run"].at(member)) << member;
  }
  EXPECT_EQ(shown["state"], expected["run"]["state"]);
  EXPECT_EQ(shown["attempts"].size(), expected["attempts"].size());
  EXPECT_EQ(shown["checkpoints"], expected["checkpoints"]);
  EXPECT_EQ(get("/api/v1/runs")["runs"][0]["state"], expected["run"]["state"]);
  EXPECT_EQ(get(run + "/events")["events"].size(), expected["events"]);

  const Json metrics = get(run + "/metrics");
  for (const auto& [name, last] : expected["metrics"].items()) {
    if (!last.is_number()) continue;
    const Json curve = get(run + "/metrics?names=" + name)["series"][name];
    EXPECT_EQ(curve["last"].back(), last) << name;
  }
  // What 0.1 did not keep, or lies elsewhere in the fixtures.
  for (const auto& [part, member] : std::vector<std::pair<const char*, const char*>>{
           {"/profiles", "profiles"}, {"/hangs", "hangs"}, {"/nodes", "nodes"}, {"/logs", "streams"}}) {
    EXPECT_EQ(get(run + part)[member], Json::array()) << part;
  }
  for (const char* part : {"/configuration", "/checkpoints", "/collectives"}) {
    EXPECT_EQ(ask_in_session("GET", run + part).status, 200) << part;
  }
  EXPECT_EQ(ask_in_session("GET", "/metrics").status, 200);
}

INSTANTIATE_TEST_SUITE_P(Version01, OldRunsTest, ::testing::ValuesIn(old_runs()),
                         [](const auto& run) { return run.param; });

}  // namespace
}  // namespace paceline::dashboard
