// Texts that attack whoever shows them, in everything that a run tells: names, errors, logs, metrics, hangs. The server
// gives them as data, whole, in types that no browser runs. web/tests/browser has the pages' part.
#include <gmock/gmock.h>

#include <fstream>

#include "paceline/dashboard/served_runs_fixture.h"
#include "paceline/dashboard/target.h"
#include "paceline/run/hang_evidence.h"

namespace paceline::dashboard {
namespace {

using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

class HostileTextsTest : public ServedRunsTest {
 protected:
  // A run that failed, with the text wherever one may stand; its id.
  std::string run_with(const std::string& text, int number) {
    const std::string path = folder("run" + std::to_string(number));
    run::RecordedRun run(path, text);
    run.open();
    run.add(policy::NodeJoined{.node = {.name = "local", .cores = 2}});
    run.add(policy::WorkerStarted{run.worker(), 77});
    run.add(policy::WorkerJoined{run.worker(), 77});
    run.add(policy::WorkerFailed{.worker = run.worker(), .exception = text, .text = text, .frames = {text}});
    run.report(1, {{text, 0.5}, {"text", text}});
    testing::write_file(path + "/logs/worker_1.log", text + "\n");
    EXPECT_TRUE(run::keep_hang(path, {.hang = {.name = "2026-11-28T10:00:00Z", .text = text},
                                      .workers = {{.worker = 1, .rank = 0, .node = text}}})
                    .ok());
    return index(path);
  }
  // Of an answer that a browser takes for data.
  Json data(const std::string& target, int status = 200) {
    const Response response = ask_in_session("GET", target);
    EXPECT_EQ(response.status, status) << target << ": " << response.body;
    EXPECT_THAT(response.content_type, AnyOf("application/json", "application/problem+json")) << target;
    EXPECT_THAT(response.headers, Contains(Pair("X-Content-Type-Options", "nosniff"))) << target;
    auto json = decode_json(response.body);
    EXPECT_TRUE(json.ok()) << target << ": " << response.body;
    return json.ValueOr(Json::object());
  }
};

TEST_F(HostileTextsTest, ComeBackAsData) {
  std::ifstream file(HOSTILE_TEXTS);
  const Json texts = Json::parse(file);
  ASSERT_GT(texts.size(), 10u);
  int number = 0;
  for (const auto& text : texts.get<std::vector<std::string>>()) {
    const std::string id = run_with(text, ++number), run = "/api/v1/runs/" + id;
    EXPECT_EQ(data(run)["name"], text);
    const Json runs = data("/api/v1/runs")["runs"];
    EXPECT_TRUE(std::ranges::any_of(runs, [&](const Json& one) { return one["name"] == text; })) << text;
    EXPECT_THAT(data(run + "/events").dump(), HasSubstr(Json(text).dump().substr(1, 8)));
    EXPECT_EQ(data(run + "/logs/worker_1")["text"], text + "\n");
    EXPECT_THAT(data(run + "/metrics")["names"].dump(), HasSubstr(Json(text).dump().substr(1, 8)));
    EXPECT_EQ(data(run + "/hangs")["hangs"][0]["text"], text);
    EXPECT_EQ(data(run + "/hangs/2026-11-28T10:00:00Z")["workers"][0]["node"], text);
    for (const char* part : {"/logs", "/checkpoints", "/profiles", "/configuration", "/nodes"}) data(run + part);
    // What is wrong is told with what was given, which is as hostile.
    if (text.find('\0') != std::string::npos || text.find('\\') != std::string::npos) continue;  // in no address
    const std::string given = escaped(text);
    data("/api/v1/runs?q=" + given);
    data(run + "/metrics?names=" + given);
    data("/api/v1/runs?sort=" + given, 400);
    data("/api/v1/runs?" + given + "=1", 400);
    data(run + "/logs/" + given, 404);
    data(run + "/profiles/" + given, 404);
    data(run + "/samples?node=" + given, 404);
    data("/api/v1/runs/" + given, 404);
    data("/api/v1/" + given, 404);
  }
  const Response metrics = ask_in_session("GET", "/metrics");
  EXPECT_THAT(metrics.content_type, HasSubstr("text/plain"));
  EXPECT_THAT(metrics.body, Not(HasSubstr("=\"\"><svg"))) << "a quotation mark does not end a label";
}

}  // namespace
}  // namespace paceline::dashboard
