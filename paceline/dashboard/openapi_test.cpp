// docs/openapi.json is written from the table of routes (PACELINE_UPDATE_DOCS=1 writes it anew), and what the server
// answers is what stands there: every member of an answer is described, and every member that is described is there.
#include "paceline/dashboard/openapi.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "paceline/core/run_layout.h"
#include "paceline/dashboard/routes.h"
#include "paceline/dashboard/served_runs_fixture.h"
#include "paceline/run/collectives.h"
#include "paceline/storage/local/durable.h"
#include "paceline/track/sample_files.h"

namespace paceline::dashboard {
namespace {

bool is_of_type(const Json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  return type == "null" && value.is_null();
}

// What of the value is not as the schema says; "" for nothing.
std::string difference(const Json& value, const Json& schema, const std::string& where) {
  if (schema.contains("type")) {
    const Json& type = schema["type"];
    bool fits = false;
    for (const Json& one : type.is_array() ? type : Json::array({type})) fits = fits || is_of_type(value, one);
    if (!fits) return where + " is " + value.dump() + ", wanted " + type.dump();
  }
  if (value.is_array() && schema.contains("items")) {
    for (size_t i = 0; i < value.size(); ++i) {
      const std::string wrong = difference(value[i], schema["items"], where + "/" + std::to_string(i));
      if (!wrong.empty()) return wrong;
    }
  }
  if (!value.is_object() || !schema.contains("type")) return "";
  const Json properties = schema.value("properties", Json::object());
  const Json others = schema.value("additionalProperties", Json(!schema.contains("properties")));
  for (const auto& [name, member] : value.items()) {
    const bool is_known = properties.contains(name);
    if (!is_known && others == false) return where + "/" + name + " is not described";
    const Json& inner = is_known ? properties[name] : others;
    const std::string wrong = inner.is_object() ? difference(member, inner, where + "/" + name) : "";
    if (!wrong.empty()) return wrong;
  }
  for (const Json& name : schema.value("required", Json::array())) {
    if (!value.contains(name.get<std::string>())) return where + " lacks " + name.dump();
  }
  return "";
}

TEST(OpenApi, TheFileIsOfThisServer) {
  const std::string text = openapi().dump(2) + "\n";
  if (std::getenv("PACELINE_UPDATE_DOCS") != nullptr) {
    ASSERT_TRUE(storage::write_atomically(OPENAPI_DOC, text).ok());
  }
  std::ifstream file(OPENAPI_DOC);
  std::stringstream written;
  written << file.rdbuf();
  EXPECT_EQ(written.str(), text) << "PACELINE_UPDATE_DOCS=1 ctest -R OpenApi writes docs/openapi.json anew";
}

using OpenApiTest = ServedRunsTest;

TEST_F(OpenApiTest, EveryRouteAnswersAsDescribed) {
  const std::string id = finished("mnist");
  constexpr int64_t kStart = 1'790'000'000'000'000'000;
  const auto all_reduce = [](int64_t number) {
    return CollectiveRecord{.group = 1,
                            .number = number,
                            .call = {Collective::all_reduce, ElementType::float32, 4},
                            .called_ns = kStart + number * 1000,
                            .waited_ns = kStart + number * 1000};
  };
  CollectiveRecord ended = all_reduce(1), failed = all_reduce(2), only_called = all_reduce(4);
  ended.end_ns = failed.end_ns = ended.called_ns + 1000;
  failed.has_failed = true;
  only_called.waited_ns = 0;
  const run::KeptCollectives kept{
      .rank = 0,
      .world_size = 1,
      .reading = {.taken_ns = kStart + 9000, .records = {ended, failed, all_reduce(3), only_called}}};
  ASSERT_TRUE(run::keep_collectives(folder("mnist"), Attempt{2}, kept).ok());
  const run::FoundHang hang{.name = "2026-11-28T10:00:00Z", .attempt = 1, .ranks = {{.rank = 0}, {.rank = 1}}};
  ASSERT_TRUE(run::keep_hang(folder("mnist"), {.hang = hang, .workers = {{.worker = 1}, {.worker = 2}}}).ok());
  const std::string profile = keep_profile(folder("mnist"));
  const std::string checkpoint = published_checkpoint(folder("mnist")).name;
  NodeSample sample{.time = 1000, .cpu_ratio = 0.5};
  sample.gpus.push_back({.uuid = "GPU-a", .name = "H100"});
  sample.processes.push_back({.worker = 1, .role = "worker", .cpu_cores = 1});
  track::SampleFiles(folder("mnist") + "/" + run_layout::node_samples("here"), "node", "here")
      .add(track::columns_of(sample));
  size_t answered = 0;
  for (const Route& route : routes()) {
    if (route.gives == nullptr || std::string(route.method) != "GET") continue;
    std::string target = route.path;
    if (const size_t at = target.find("{id}"); at != std::string::npos) target.replace(at, 4, id);
    if (const size_t at = target.find("{stream}"); at != std::string::npos) target.replace(at, 8, "controller");
    if (const size_t at = target.find("{hang}"); at != std::string::npos) target.replace(at, 6, hang.name);
    const std::string& name = route.name == std::string("verification") ? checkpoint : profile;
    if (const size_t at = target.find("{name}"); at != std::string::npos) target.replace(at, 6, name);
    if (route.name == std::string("metrics")) target += "?names=loss";
    if (route.name == std::string("samples")) target += "?node=here";
    EXPECT_EQ(difference(get(target), route.gives(), ""), "") << target;
    ++answered;
  }
  EXPECT_GE(answered, 10u);
  const Response refused = ask("GET", "/api/v1/runs");
  const Json problem = openapi()["components"]["schemas"]["Problem"];
  EXPECT_EQ(difference(Json::parse(refused.body), problem, ""), "");
}

TEST(OpenApi, RoutesAreThereOnceAndHaveNames) {
  std::set<std::string> names, addresses;
  for (const Route& route : routes()) {
    EXPECT_TRUE(names.insert(route.name).second) << route.name;
    EXPECT_TRUE(addresses.insert(std::string(route.method) + " " + route.path).second) << route.path;
    const bool is_public = route.needs == Needs::nothing;
    EXPECT_EQ(is_public, route.path == std::string("/healthz") || route.name == std::string("openSession"));
  }
  std::map<std::string, std::string> parts;
  EXPECT_TRUE(matches(routes()[0], {"healthz"}, parts));
  EXPECT_FALSE(matches(routes()[0], {"healthz", "x"}, parts));
  EXPECT_FALSE(matches(routes()[0], {}, parts));
}

}  // namespace
}  // namespace paceline::dashboard
