#include "paceline/dashboard/api.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <limits>

#include "paceline/core/clock.h"
#include "paceline/core/json.h"
#include "paceline/core/posix/host_name.h"
#include "paceline/core/run_layout.h"
#include "paceline/dashboard/api_internal.h"
#include "paceline/dashboard/openapi.h"
#include "paceline/dashboard/problem.h"
#include "paceline/dashboard/prometheus.h"
#include "paceline/run/working_folder.h"
#include "paceline/track/run_id.h"
#include "paceline/views/flame_graph.h"
#include "paceline/views/run_configuration.h"
#include "paceline/views/shown_run.h"

namespace paceline::dashboard {
namespace {

// How long a page waits for a driver: one that is stopped shall not hold up the others.
constexpr std::chrono::milliseconds kPatience{1'500};
// Of the live pages' thread, which has other runs to look at: what a driver says later is a change.
constexpr std::chrono::milliseconds kFirstLook{300};
constexpr int64_t kMostReports = std::numeric_limits<int64_t>::max();

constexpr std::string_view kSpeedscope = "speedscope";
constexpr std::string_view kRunTopic = "run:";

std::string user_name() {
  passwd entry{}, *found = nullptr;
  std::array<char, 4096> buffer{};
  const bool is_known =
      ::getpwuid_r(::geteuid(), &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr;
  return is_known ? entry.pw_name : std::to_string(::geteuid());
}

// Those of the names, which are sorted, that stand in the list with commas between them. A name may have commas itself:
// of several that fit, the longest is meant.
std::vector<std::string> chosen_names(const std::string& list, const std::vector<std::string>& names) {
  size_t longest = 0;
  for (const std::string& name : names) longest = std::max(longest, name.size());
  std::vector<std::string> chosen;
  for (size_t begin = 0, next = 0; begin < list.size(); begin = next + 1) {
    next = std::min(list.find(',', begin), list.size());
    std::string found;
    for (size_t end = next; end - begin <= longest; end = std::min(list.find(',', end + 1), list.size())) {
      const std::string name = list.substr(begin, end - begin);
      if (std::ranges::binary_search(names, name)) {
        found = name;
        next = end;
      }
      if (end == list.size()) break;
    }
    if (!found.empty()) chosen.push_back(found);
  }
  return chosen;
}

}  // namespace

arrow::Result<Response> Api::health(const Call& call) {
  return Response{.body = "ok\n"};
}

arrow::Result<Response> Api::open_session(const Call& call) {
  ARROW_ASSIGN_OR_RAISE(const CodeRequest request, body_of<CodeRequest>(call.request));
  // A right one always opens: who else is at this address must not keep its user out, and 128 bits are not guessed.
  const auto cookie = sessions_.open(request.code);
  if (!cookie) {
    if (const auto wait = sessions_.wait_of(Secret::code_or_token, call.request.peer)) return wait_before_next(*wait);
    sessions_.note_wrong(Secret::code_or_token, call.request.peer);
    record("refused a wrong or used code, " + call.who);
    return problem(401, "the code is wrong, or was used",
                   "use the last one that `paceline dashboard` has printed, or the token of its file where it has one; "
                   "where fit() has started it, run `paceline dashboard`");
  }
  ARROW_ASSIGN_OR_RAISE(Response response, session(call));
  // Through a proxy, others may live at its host: the cookie goes to the dashboard alone.
  const bool is_outside = options_.site.is_given() && call.request.header("origin") == options_.site.origin;
  const bool is_secure = is_outside && options_.site.origin.starts_with("https:");
  response.headers.emplace_back("Set-Cookie", sessions_.cookie_name() + "=" + *cookie +
                                                  "; Path=" + (is_outside ? options_.site.path : "/") +
                                                  "; HttpOnly; SameSite=Strict" + (is_secure ? "; Secure" : ""));
  record("opened a session for " + call.request.peer);
  return response;
}

arrow::Result<Response> Api::session(const Call& call) {
  return json_response(SessionAnswer{.version = PACELINE_VERSION,
                                     .host = host_name(),
                                     .user = user_name(),
                                     .read_only = options_.read_only,
                                     .storage_paths = runs_.storage_paths()});
}

arrow::Result<Response> Api::description(const Call& call) {
  return Response{.body = openapi().dump(2) + "\n"};
}

arrow::Result<Response> Api::list_runs(const Call& call) {
  ARROW_ASSIGN_OR_RAISE(const int64_t limit, call.query.number("limit", 100, 1, 10'000));
  ARROW_ASSIGN_OR_RAISE(views::RunPage page, runs_.list({.state = call.query.text("state"),
                                                         .text = call.query.text("q"),
                                                         .sort = call.query.text("sort"),
                                                         .limit = static_cast<size_t>(limit),
                                                         .after = call.query.text("cursor")}));
  return json_response(RunsAnswer{.runs = std::move(page.runs), .next = page.next});
}

arrow::Result<Response> Api::show_run(const Call& call) {
  ARROW_ASSIGN_OR_RAISE(const Json run, shown_run(call.part("id"), [this](const std::string& folder) {
                          return live_status(folder, kPatience);
                        }));
  return json_response(run);
}

arrow::Result<Json> Api::shown_run(const std::string& id, const views::AskStatus& ask) {
  Json value;
  ARROW_RETURN_NOT_OK(runs_.with_record(id, [&](const track::RunRecord& record) {
    value = views::shown_run(record, ask);
    return arrow::Status::OK();
  }));
  return value;
}

void Api::watch_runs(std::function<void(const std::string& topic)> on_change) {
  watch_ = run::StatusWatch::start({.on_change = [tell = std::move(on_change)](const std::string& folder) {
    tell(std::string(kRunTopic) + track::run_id(folder));
  }});
}

arrow::Result<track::RunRow> Api::row_of(const std::string& id) {
  track::RunRow run;
  ARROW_RETURN_NOT_OK(runs_.with_record(id, [&run](const track::RunRecord& record) {
    run = record.run;
    return arrow::Status::OK();
  }));
  return run;
}

arrow::Result<Response> Api::metrics(const Call& call) {
  ARROW_ASSIGN_OR_RAISE(const int64_t points, call.query.number("points", 800, 1, 10'000));
  views::CurveRange range{.points = static_cast<size_t>(points)};
  ARROW_ASSIGN_OR_RAISE(range.from, call.query.number("from", 0, 0, kMostReports));
  ARROW_ASSIGN_OR_RAISE(range.to, call.query.number("to", kMostReports, 0, kMostReports));
  const std::string wanted = call.query.text("names");
  std::vector<std::string> names;
  Json series = Json::object();
  ARROW_RETURN_NOT_OK(runs_.with_curves(call.part("id"), [&](const views::MetricCurves& curves) {
    names = curves.names();
    for (const std::string& name : chosen_names(wanted, names))
      series[name] = views::curve_json(curves.curve(name, range));
    return arrow::Status::OK();
  }));
  if (names.empty()) {  // there is no history, or not any more
    ARROW_RETURN_NOT_OK(runs_.with_record(call.part("id"), [&](const track::RunRecord& record) {
      for (const auto& [name, metric] : record.metrics) {
        if (metric.series.count() > 0) names.push_back(name);
      }
      for (const std::string& name : chosen_names(wanted, names)) {
        series[name] = views::curve_json(views::stored_curve(record.metrics.at(name).series));
      }
      return arrow::Status::OK();
    }));
  }
  return json_response(Json{{"names", names}, {"series", series}});
}

arrow::Result<Response> Api::logs(const Call& call) {
  LogsAnswer answer;
  ARROW_RETURN_NOT_OK(runs_.with_record(call.part("id"), [&answer](const track::RunRecord& record) {
    ARROW_ASSIGN_OR_RAISE(answer.streams, views::log_streams(record));
    return arrow::Status::OK();
  }));
  return json_response(answer);
}

arrow::Result<Response> Api::log(const Call& call) {
  views::LogRange range{.grep = call.query.text("grep")};
  ARROW_ASSIGN_OR_RAISE(range.offset, call.query.number("offset", 0, -kMostReports, kMostReports));
  ARROW_ASSIGN_OR_RAISE(range.before, call.query.number("before", kMostReports, 0, kMostReports));
  ARROW_ASSIGN_OR_RAISE(range.limit, call.query.number("limit", range.limit, 1, views::kMostLogBytes));
  ARROW_ASSIGN_OR_RAISE(const std::string folder, runs_.folder_of(call.part("id")));
  ARROW_ASSIGN_OR_RAISE(const views::LogPart part, views::read_log(folder, call.part("stream"), range));
  return json_response(part);
}

arrow::Result<Response> Api::events(const Call& call) {
  ARROW_ASSIGN_OR_RAISE(const int64_t after, call.query.number("after", 0, 0, kMostReports));
  ARROW_ASSIGN_OR_RAISE(const int64_t limit, call.query.number("limit", 1000, 1, 1000));
  EventsAnswer answer{.next = after};
  ARROW_RETURN_NOT_OK(runs_.with_record(call.part("id"), [&](const track::RunRecord& record) {
    const auto end = std::ranges::upper_bound(record.events, after, {}, &track::EventRecord::sequence);
    const auto count = std::min<int64_t>(limit, record.events.end() - end);
    answer.events.assign(end, end + count);
    if (count > 0) answer.next = answer.events.back().sequence;
    return arrow::Status::OK();
  }));
  return json_response(answer);
}

arrow::Result<Response> Api::checkpoints(const Call& call) {
  ARROW_ASSIGN_OR_RAISE(const std::string folder, runs_.folder_of(call.part("id")));
  ARROW_ASSIGN_OR_RAISE(auto checkpoints, views::list_checkpoints(run::run_location(folder)));
  return json_response(CheckpointsAnswer{.checkpoints = std::move(checkpoints)});
}

arrow::Result<Response> Api::verification(const Call& call) {
  ARROW_ASSIGN_OR_RAISE(const std::string folder, runs_.folder_of(call.part("id")));
  const Turn turn(verifications_);
  if (turn.others() >= kMostVerifications) {
    return problem(429, "another checkpoint is being verified", "ask again in a moment");
  }
  const NobodyWaits nobody_waits(given_up_, call.request);
  ARROW_ASSIGN_OR_RAISE(const auto verified,
                        views::verify_checkpoint(run::run_location(folder), call.part("name"), nobody_waits.token()));
  return json_response(verified);
}

arrow::Result<Response> Api::collectives(const Call& call) {
  ARROW_ASSIGN_OR_RAISE(const track::RunRow run, row_of(call.part("id")));
  ARROW_ASSIGN_OR_RAISE(const views::CollectivesSummary summary, views::shown_collectives(run));
  return json_response(summary);
}

arrow::Result<Response> Api::timeline(const Call& call) {
  ARROW_ASSIGN_OR_RAISE(const std::string folder, runs_.folder_of(call.part("id")));
  const std::string name = call.part("name");
  ARROW_ASSIGN_OR_RAISE(const int64_t rank, call.query.number("rank", 0, 0, kMostReports));
  ARROW_ASSIGN_OR_RAISE(std::string bytes, run::read_timeline(folder, name, rank));
  // The browser keeps it as a file: there is nothing in the pages that shows it.
  return Response{
      .body = std::move(bytes),
      .headers = {{"Content-Disposition", "attachment; filename=\"" + run_layout::timeline_of(rank) + "\""}}};
}

arrow::Result<Response> Api::hangs(const Call& call) {
  ARROW_ASSIGN_OR_RAISE(const std::string folder, runs_.folder_of(call.part("id")));
  return json_response(HangsAnswer{.hangs = run::list_hangs(folder)});
}

arrow::Result<Response> Api::hang(const Call& call) {
  ARROW_ASSIGN_OR_RAISE(const std::string folder, runs_.folder_of(call.part("id")));
  ARROW_ASSIGN_OR_RAISE(const run::HangEvidence evidence, run::read_hang(folder, call.part("hang")));
  return json_response(evidence);
}

arrow::Result<Response> Api::configuration(const Call& call) {
  ARROW_ASSIGN_OR_RAISE(const std::string folder, runs_.folder_of(call.part("id")));
  ARROW_ASSIGN_OR_RAISE(const views::RunConfiguration configuration, views::run_configuration(folder));
  return json_response(configuration);
}

arrow::Result<Response> Api::profiles(const Call& call) {
  ARROW_ASSIGN_OR_RAISE(const track::RunRow run, row_of(call.part("id")));
  ProfilesAnswer answer;
  ARROW_ASSIGN_OR_RAISE(answer.profiles, run::list_kept_profiles(run.path));
  return json_response(answer);
}

arrow::Result<Response> Api::profile(const Call& call) {
  const std::string format = call.query.text("format");
  if (!format.empty() && format != kSpeedscope) {
    return arrow::Status::Invalid("format is \"", format, "\"; wanted ", kSpeedscope, ", or none");
  }
  ARROW_ASSIGN_OR_RAISE(const track::RunRow run, row_of(call.part("id")));
  ARROW_ASSIGN_OR_RAISE(const run::ReadProfile read, run::read_kept_profile(run.path, call.part("name")));
  if (format == kSpeedscope) return json_response(stacks::to_speedscope(read.taken, "run " + run.name));
  return json_response(views::flame_graph_of(read));
}

arrow::Result<Json> Api::look(const std::string& topic) {
  if (topic == "runs") {
    ARROW_ASSIGN_OR_RAISE(const views::RunPage page, runs_.list({}));
    Json value = Json::object();
    for (const views::ListedRun& run : page.runs) value[run.id] = run;
    return value;
  }
  if (!topic.starts_with(kRunTopic)) {
    return arrow::Status::Invalid("there is no topic \"", topic, "\"; there are: runs, run:ID");
  }
  return shown_run(topic.substr(kRunTopic.size()),
                   [this](const std::string& folder) { return live_status(folder, kFirstLook); });
}

arrow::Result<Json> Api::live_status(const std::string& folder, std::chrono::milliseconds patience) const {
  return watch_ ? watch_->status(folder, patience) : run::request_status(folder, patience);
}

arrow::Result<Response> Api::stream(const Call& call) {
  constexpr size_t kMostTopics = 16;
  const std::vector<std::string> topics = parts_of(call.query.text("topics"));
  if (topics.empty() || topics.size() > kMostTopics) {
    return arrow::Status::Invalid("wanted 1 to ", kMostTopics, " topics, got ", topics.size());
  }
  for (const std::string& topic : topics) {
    if (topic == "runs") continue;
    if (!topic.starts_with(kRunTopic)) return look(topic).status();
    ARROW_RETURN_NOT_OK(runs_.folder_of(topic.substr(kRunTopic.size())).status());
  }
  const auto last = call.request.header("last-event-id");
  return Response{.events = EventStream{topics, std::string(last.value_or(""))}};
}

arrow::Result<Response> Api::prometheus(const Call& call) {
  PrometheusText text;
  constexpr size_t kMostRuns = 200;
  ARROW_ASSIGN_OR_RAISE(views::RunPage page, runs_.list({.limit = kMostRuns}));
  std::erase_if(page.runs, [](const views::ListedRun& listed) { return !is_exported(listed); });
  // All drivers are asked before one is waited for: those that are stopped cost kPatience together.
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  for (const views::ListedRun& listed : page.runs) {
    (void)runs_.with_record(listed.id, [this](const track::RunRecord& record) {
      if (watch_ && !track::is_over(record.run)) (void)watch_->status(record.run.path, std::chrono::milliseconds(0));
      return arrow::Status::OK();
    });
  }
  const auto ask = [&](const std::string& folder) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    return live_status(folder, std::max(left, std::chrono::milliseconds(1)));
  };
  for (const views::ListedRun& listed : page.runs) {
    // A run that cannot be read shall not cost the others.
    (void)runs_.with_record(listed.id, [&](const track::RunRecord& record) {
      text.add(listed, views::shown_run(record, ask), record);
      for (const views::NodeSummary& node : views::node_summaries(record, to_seconds(SystemClock().now()))) {
        if (node.state == "live") text.add_node(track::run_id(record.run.path), record.run.name, node);
      }
      return arrow::Status::OK();
    });
  }
  return Response{.body = text.text()};
}

}  // namespace paceline::dashboard
