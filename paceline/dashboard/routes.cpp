#include "paceline/dashboard/routes.h"

#include "paceline/dashboard/api.h"
#include "paceline/dashboard/schema.h"
#include "paceline/rpc/profile_kind.h"
#include "paceline/views/flame_graph.h"
#include "paceline/views/shown_run.h"
#include "paceline/views/step_times.h"

namespace paceline::dashboard {
namespace {

template <arrow::Result<Response> (Api::*kAnswer)(const Call&)>
arrow::Result<Response> answer(Api& api, const Call& call) {
  return (api.*kAnswer)(call);
}

Json any_object() {
  return {{"type", "object"}};
}

Json action_request() {
  Json schema = schema_of<ActionRequest>();
  schema["properties"]["action"]["enum"] = kActions;
  for (const rpc::ProfileKind& kind : rpc::kProfileKinds) schema["properties"]["kind"]["enum"].push_back(kind.name);
  return schema;
}

constexpr const char* kJson = "application/json";
constexpr const char* kText = "text/plain; charset=utf-8";

const std::vector<Parameter>& no_query() {
  static const std::vector<Parameter> none;
  return none;
}

std::vector<Route> all_routes() {
  return {
      {"GET", "/healthz", "health", "\"ok\": the server answers", Needs::nothing, no_query(), kText, nullptr, nullptr,
       answer<&Api::health>},
      {"POST", "/api/v1/session", "openSession",
       "Exchanges the code that `paceline dashboard` printed for the cookie of a session; a code works once. Where it "
       "listens on the network, the token of its token file instead of a code",
       Needs::nothing, no_query(), kJson, schema_of<CodeRequest>, schema_of<SessionAnswer>, answer<&Api::open_session>},
      {"GET", "/api/v1/session", "session", "Whose runs these are, and whether runs can be changed from here",
       Needs::session, no_query(), kJson, nullptr, schema_of<SessionAnswer>, answer<&Api::session>},
      {"GET", "/api/v1/openapi.json", "description", "This description", Needs::session, no_query(), kJson, nullptr,
       any_object, answer<&Api::description>},
      {"GET",
       "/api/v1/runs",
       "listRuns",
       "Runs, the last opened first, as `paceline list --json` has them",
       Needs::session,
       {{"state", "string", "Only runs in this state, as `paceline list --state` takes it"},
        {"q", "string", "Only runs with this text in name or location, in letters of any case"},
        {"sort", "string",
         "name, state, since, created, opened, host, world_size or report; with - before it the "
         "largest first"},
        {"limit", "integer", "At most so many, from 1 to 10000; default 100"},
        {"cursor", "string", "`next` of the page before"}},
       kJson,
       nullptr,
       schema_of<RunsAnswer>,
       answer<&Api::list_runs>},
      {"GET", "/api/v1/runs/{id}", "showRun", "One run, as `paceline show RUN --json` has it", Needs::session,
       no_query(), kJson, nullptr, schema_of<views::RunSummary>, answer<&Api::show_run>},
      {"GET",
       "/api/v1/runs/{id}/metrics",
       "metrics",
       "The names of all metrics, and the curves of some, over the whole history. Names that the run does not have are "
       "left out. Numbers that are not finite are the texts NaN, Infinity and -Infinity",
       Needs::session,
       {{"names", "string", "Names of metrics with commas between them; none: no curves"},
        {"points", "integer", "Points of a curve at most, from 1 to 10000; default 800"},
        {"from", "integer", "The first report"},
        {"to", "integer", "The last report"}},
       kJson,
       nullptr,
       schema_of<MetricsAnswer>,
       answer<&Api::metrics>},
      {"GET", "/api/v1/nodes", "allNodes", "The nodes of all runs that go on", Needs::session, no_query(), kJson,
       nullptr, schema_of<AllNodesAnswer>, answer<&Api::all_nodes>},
      {"GET", "/api/v1/runs/{id}/nodes", "nodes",
       "The run's nodes, each with the last sample of it, its GPUs and the run's processes there", Needs::session,
       no_query(), kJson, nullptr, schema_of<NodesAnswer>, answer<&Api::nodes>},
      {"GET",
       "/api/v1/runs/{id}/samples",
       "samples",
       "What a node or a data process did over time: as each second was where that is kept, else in larger parts. "
       "Totals have no curves",
       Needs::session,
       {{"node", "string", "Name of the node"},
        {"data", "string", "Instead: number of a data process"},
        {"names", "string",
         "Names of numbers with commas between them; one that ends with / means all that begin with it, * in one any "
         "text "
         "without /; none: all"},
        {"points", "integer", "Points of a curve at most, from 1 to 10000; default 400"},
        {"from", "integer", "The first second since the Unix epoch"},
        {"to", "integer", "The last"}},
       kJson,
       nullptr,
       schema_of<SamplesAnswer>,
       answer<&Api::samples>},
      {"GET",
       "/api/v1/runs/{id}/step_times",
       "stepTimes",
       "How long the steps of each rank took over time, without waiting in collectives: who is slow stands out",
       Needs::session,
       {{"points", "integer", "Points at most, from 1 to 10000; default 90"},
        {"from", "integer", "The first second since the Unix epoch"},
        {"to", "integer", "The last"}},
       kJson,
       nullptr,
       schema_of<views::StepTimes>,
       answer<&Api::step_times>},
      {"GET",
       "/api/v1/data",
       "allData",
       "The datasets of the last runs that read some",
       Needs::session,
       {{"limit", "integer", "Of so many runs at most, from 1 to 1000; default 30"}},
       kJson,
       nullptr,
       schema_of<AllDataAnswer>,
       answer<&Api::all_data>},
      {"GET", "/api/v1/runs/{id}/data", "data",
       "The run's datasets by operator: state, rates, queues, who waits, the bottleneck. Rates are of the last "
       "seconds, "
       "or, when the run is over, of all the time",
       Needs::session, no_query(), kJson, nullptr, schema_of<DataAnswer>, answer<&Api::data>},
      {"GET", "/api/v1/runs/{id}/logs", "logs", "Which logs there are", Needs::session, no_query(), kJson, nullptr,
       schema_of<LogsAnswer>, answer<&Api::logs>},
      {"GET",
       "/api/v1/runs/{id}/logs/{stream}",
       "log",
       "A part of a log, in whole lines where there are any",
       Needs::session,
       {{"offset", "integer", "The first byte; a negative one counts from the end; default 0"},
        {"before", "integer", "Instead: the last lines before this byte, which begins a line"},
        {"limit", "integer", "Bytes at most, from 1 to 1048576; default 65536"},
        {"grep", "string", "Only lines with this text, in letters of any case"}},
       kJson,
       nullptr,
       schema_of<views::LogPart>,
       answer<&Api::log>},
      {"GET",
       "/api/v1/runs/{id}/events",
       "events",
       "The last 1000 events of the run's journal",
       Needs::session,
       {{"after", "integer", "Only events behind this sequence"},
        {"limit", "integer", "At most so many, from 1 to 1000; default 1000"}},
       kJson,
       nullptr,
       schema_of<EventsAnswer>,
       answer<&Api::events>},
      {"GET", "/api/v1/runs/{id}/checkpoints", "checkpoints",
       "Published checkpoints, as `paceline checkpoint ls RUN --json` has them", Needs::session, no_query(), kJson,
       nullptr, schema_of<CheckpointsAnswer>, answer<&Api::checkpoints>},
      {"GET", "/api/v1/runs/{id}/checkpoints/{name}/verification", "verification",
       "Reads all files of a checkpoint and compares them with its manifest, as `paceline checkpoint verify` does",
       Needs::session, no_query(), kJson, nullptr, schema_of<views::VerifiedCheckpoint>, answer<&Api::verification>},
      {"GET", "/api/v1/runs/{id}/collectives", "collectives",
       "The ranks' last collectives, as `paceline show RUN --collectives --json` has them", Needs::session, no_query(),
       kJson, nullptr, schema_of<views::CollectivesSummary>, answer<&Api::collectives>},
      {"GET",
       "/api/v1/runs/{id}/profiles/{name}/timeline",
       "timeline",
       "The operator timeline of one rank in a profile of that kind, in Chrome's format, compressed: for "
       "ui.perfetto.dev "
       "and chrome://tracing",
       Needs::session,
       {{"rank", "integer", "Default: 0"}},
       "application/gzip",
       nullptr,
       nullptr,
       answer<&Api::timeline>},
      {"GET", "/api/v1/runs/{id}/hangs", "hangs",
       "Each time that the run hung: who waited for whom, and how all ranks stood", Needs::session, no_query(), kJson,
       nullptr, schema_of<HangsAnswer>, answer<&Api::hangs>},
      {"GET", "/api/v1/runs/{id}/hangs/{hang}", "hang", "One of them, with the stacks of all workers", Needs::session,
       no_query(), kJson, nullptr, schema_of<run::HangEvidence>, answer<&Api::hang>},
      {"GET", "/api/v1/runs/{id}/configuration", "configuration", "What the run was opened with, by its last driver",
       Needs::session, no_query(), kJson, nullptr, schema_of<views::RunConfiguration>, answer<&Api::configuration>},
      {"GET", "/api/v1/runs/{id}/profiles", "profiles", "Which profiles the run keeps, the last first", Needs::session,
       no_query(), kJson, nullptr, schema_of<ProfilesAnswer>, answer<&Api::profiles>},
      {"GET",
       "/api/v1/runs/{id}/profiles/{name}",
       "profile",
       "A profile as a tree of functions with the samples of each thread",
       Needs::session,
       {{"format", "string", "\"speedscope\": in the format of https://www.speedscope.app instead"}},
       kJson,
       nullptr,
       schema_of<views::FlameGraph>,
       answer<&Api::profile>},
      {"POST", "/api/v1/runs/{id}/actions", "act",
       "\"stop\" asks the run to stop (the third time its workers are killed); \"stacks\" gives what every thread of "
       "its workers is doing; \"profile\" samples them for `seconds` (5, or with `steps` up to 60, where nothing is "
       "said), answers when that is done, and the run keeps it; "
       "\"checkpoint_now\" asks its train loops to save a checkpoint. "
       "Refused with --read-only",
       Needs::session, no_query(), kJson, action_request, schema_of<ActionAnswer>, answer<&Api::act>},
      {"GET",
       "/api/v1/stream",
       "stream",
       "Server-sent events of topics, four times a second at most: snapshot {topic, value}, delta {topic, set, "
       "removed}, "
       "gap {topic}, bye",
       Needs::session,
       {{"topics", "string", "With commas between them: runs (the last hundred by id), run:ID (as showRun)"}},
       "text/event-stream",
       nullptr,
       nullptr,
       answer<&Api::stream>},
      {"GET", "/metrics", "prometheus", "For Prometheus; also with the token of the file metrics_token",
       Needs::session_or_token, no_query(), "text/plain; version=0.0.4; charset=utf-8", nullptr, nullptr,
       answer<&Api::prometheus>},
  };
}

}  // namespace

std::span<const Route> routes() {
  static const std::vector<Route> all = all_routes();
  return all;
}

bool matches(const Route& route, const std::vector<std::string>& path, std::map<std::string, std::string>& parts) {
  std::string_view rest = route.path;
  parts.clear();
  for (const std::string& segment : path) {
    if (!rest.starts_with('/')) return false;
    rest.remove_prefix(1);
    const std::string_view wanted = rest.substr(0, rest.find('/'));
    rest.remove_prefix(wanted.size());
    if (wanted.starts_with('{')) {
      parts[std::string(wanted.substr(1, wanted.size() - 2))] = segment;
    } else if (wanted != segment) {
      return false;
    }
  }
  return rest.empty();
}

}  // namespace paceline::dashboard
