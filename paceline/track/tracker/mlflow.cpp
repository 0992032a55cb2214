// MLflow through its REST API (mlflow/protos/service.proto): one MLflow run for a run of ours, over all its attempts
// and drivers. What is sent twice after a crash MLflow keeps once: same name, step, time and value.
#include <sys/types.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>
#include <sstream>

#include "paceline/track/tracker/built_in_internal.h"
#include "paceline/track/tracker/json_client_internal.h"

namespace paceline::track {
namespace {

// MLflow's limits of a request, and of names and values.
constexpr size_t kMostMetrics = 1000;
constexpr size_t kMostParams = 100;
constexpr size_t kLongestName = 250;
constexpr size_t kLongestParam = 6000;
constexpr size_t kLongestTag = 5000;
// An answer that says whose fault a 4xx is.
constexpr const char* kExists = "already exists";

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string or_else(const std::string& value, const std::string& otherwise) {
  return value.empty() ? otherwise : value;
}

// "NAME:PASSWORD", or "".
std::string password() {
  const std::string name = environment("MLFLOW_TRACKING_USERNAME");
  return name.empty() ? "" : name + ":" + environment("MLFLOW_TRACKING_PASSWORD");
}

std::string uri_of(const TrackerConfig& config) {
  return or_else(config.uri, environment("MLFLOW_TRACKING_URI"));
}

std::string address_of(const TrackerConfig& config) {
  return uri_of(config) + "/api/2.0/mlflow";
}

// What MLflow allows as the name of a metric or param: letters, digits and "_-. /:", and no part of a path that is
// empty, "." or "..".
std::string allowed_name(const std::string& name) {
  std::string allowed;
  std::istringstream parts(name.substr(0, kLongestName));
  for (std::string part; std::getline(parts, part, '/');) {
    if (part == "." || part == "..") part.assign(part.size(), '_');
    if (!part.empty()) allowed.append(allowed.empty() ? "" : "/").append(part);
  }
  for (char& byte : allowed) {
    const auto code = static_cast<unsigned char>(byte);
    const bool is_letter = (code | 0x20) >= 'a' && (code | 0x20) <= 'z';
    const bool is_allowed =
        is_letter || (code >= '0' && code <= '9') || std::string_view("_-. /:").find(byte) != std::string_view::npos;
    if (!is_allowed) byte = '_';
  }
  return or_else(allowed, "_");
}

// As protocol buffers write a double in JSON.
Json number_text(double number) {
  if (std::isnan(number)) return "NaN";
  if (std::isinf(number)) return number > 0 ? "Infinity" : "-Infinity";
  return number;
}

int64_t milliseconds(double seconds) {
  return static_cast<int64_t>(std::llround(seconds * 1000));
}

Json tag(const std::string& key, const std::string& value) {
  return {{"key", key}, {"value", value.substr(0, kLongestTag)}};
}

Json params_of(const Json& train_loop_config) {
  Json params = Json::array();
  std::set<std::string> keys;
  for (const auto& [name, value] : flat_metrics(train_loop_config)) {
    const std::string key = allowed_name(name);
    if (!keys.insert(key).second) continue;  // MLflow would refuse all of them
    const std::string text = value.is_string() ? value.get<std::string>() : encode_json(value);
    params.push_back({{"key", key}, {"value", text.substr(0, kLongestParam)}});
  }
  return params;
}

Json part_of(const Json& list, size_t first, size_t count) {
  Json part = Json::array();
  for (size_t i = first; i < std::min(list.size(), first + count); ++i) part.push_back(list[i]);
  return part;
}

class Mlflow final : public Tracker {
 public:
  explicit Mlflow(TrackerOptions options)
      : options_(std::move(options)),
        http_(address_of(options_.config), environment("MLFLOW_TRACKING_TOKEN"), password(), options_.abandoned) {
    if (options_.memory.is_object() && options_.memory.value("uri", "") == uri_of(options_.config)) {
      run_id_ = options_.memory.value("run_id", "");
      has_params_ = true;
    }
  }

  arrow::Status begin_attempt(const TrackedAttempt& attempt) override {
    const bool is_new = run_id_.empty();
    ARROW_RETURN_NOT_OK(ensure_run(attempt.time));
    if (!is_new) {
      const Json update = {{"run_id", run_id_}, {"status", "RUNNING"}};
      ARROW_RETURN_NOT_OK(http_.post("runs/update", update).status());
    }
    return log_batch({}, Json::array({tag("paceline.attempt", std::to_string(attempt.attempt)),
                                      tag("paceline.world_size", std::to_string(attempt.world_size))}));
  }

  arrow::Status write(std::span<const TrackedRow> rows) override {
    if (rows.empty()) return arrow::Status::OK();
    ARROW_RETURN_NOT_OK(ensure_run(rows.front().time));
    Json metrics = Json::array();
    std::string checkpoint;
    for (const TrackedRow& row : rows) {
      if (!row.checkpoint.empty()) checkpoint = options_.run.folder + "/" + row.checkpoint;
      for (const auto& [name, value] : row.metrics) {
        const auto number = number_of(value);
        if (!number) continue;
        metrics.push_back({{"key", allowed_name(name)},
                           {"value", number_text(*number)},
                           {"timestamp", milliseconds(row.time)},
                           {"step", row.step}});
      }
    }
    for (size_t first = 0; first < metrics.size(); first += kMostMetrics) {
      ARROW_RETURN_NOT_OK(log_batch(part_of(metrics, first, kMostMetrics), {}));
    }
    return checkpoint.empty() ? arrow::Status::OK()
                              : log_batch({}, Json::array({tag("paceline.checkpoint", checkpoint)}));
  }

  arrow::Status finish(const TrackedEnd& end) override {
    ARROW_RETURN_NOT_OK(ensure_run(end.time));
    if (!end.message.empty()) {
      ARROW_RETURN_NOT_OK(log_batch({}, Json::array({tag("paceline.message", end.message)})));
    }
    const std::string status = end.state == FinalState::finished  ? "FINISHED"
                               : end.state == FinalState::errored ? "FAILED"
                                                                  : "KILLED";
    const Json update = {{"run_id", run_id_}, {"status", status}, {"end_time", milliseconds(end.time)}};
    return http_.post("runs/update", update).status();
  }

  Json memory() const override {
    if (run_id_.empty()) return nullptr;
    return {{"uri", uri_of(options_.config)}, {"run_id", run_id_}};
  }

 private:
  arrow::Status ensure_run(double time) {
    if (run_id_.empty()) {
      ARROW_ASSIGN_OR_RAISE(const std::string experiment, ensure_experiment());
      Json tags = Json::array({tag("paceline.run_folder", options_.run.folder)});
      if (const std::string user = environment("USER"); !user.empty()) tags.push_back(tag("mlflow.user", user));
      for (const auto& [key, value] : options_.config.tags) tags.push_back(tag(key, value));
      const Json request = {{"experiment_id", experiment},
                            {"run_name", options_.run.name},
                            {"start_time", milliseconds(time)},
                            {"tags", std::move(tags)}};
      ARROW_ASSIGN_OR_RAISE(const Json created, http_.post("runs/create", request));
      run_id_ = created.value(Json::json_pointer("/run/info/run_id"), "");
      if (run_id_.empty()) return arrow::Status::Invalid("the server gave a run without id: is this MLflow?");
    }
    if (has_params_) return arrow::Status::OK();
    const Json params = params_of(options_.run.train_loop_config);
    for (size_t first = 0; first < params.size(); first += kMostParams) {
      const Json request = {{"run_id", run_id_}, {"params", part_of(params, first, kMostParams)}};
      ARROW_RETURN_NOT_OK(http_.post("runs/log-batch", request).status());
    }
    has_params_ = true;
    return arrow::Status::OK();
  }

  // Another driver may make it at the same moment.
  arrow::Result<std::string> ensure_experiment() {
    const std::string name =
        or_else(options_.config.project, or_else(environment("MLFLOW_EXPERIMENT_NAME"), "paceline"));
    const std::string query = "experiments/get-by-name?experiment_name=" + http_.escaped(name);
    arrow::Result<Json> found = http_.get(query);
    if (found.status().IsKeyError()) {
      const auto created = http_.post("experiments/create", {{"name", name}});
      if (created.ok()) return created->value("experiment_id", "");
      if (created.status().message().find(kExists) == std::string::npos) return created.status();
      found = http_.get(query);
    }
    ARROW_RETURN_NOT_OK(found.status());
    if (found->value(Json::json_pointer("/experiment/lifecycle_stage"), "active") != "active") {
      return arrow::Status::Invalid("the MLflow experiment \"", name,
                                    "\" is deleted; restore it, or set "
                                    "TrackerConfig.project to another name");
    }
    return found->value(Json::json_pointer("/experiment/experiment_id"), "");
  }

  arrow::Status log_batch(Json metrics, Json tags) {
    Json request = {{"run_id", run_id_}};
    if (!metrics.empty()) request["metrics"] = std::move(metrics);
    if (!tags.empty()) request["tags"] = std::move(tags);
    return http_.post("runs/log-batch", request).status();
  }

  const TrackerOptions options_;
  JsonClient http_;
  std::string run_id_;
  bool has_params_ = false;
};

}  // namespace

std::unique_ptr<Tracker> make_mlflow(TrackerOptions options) {
  return std::make_unique<Mlflow>(std::move(options));
}

arrow::Status check_mlflow(const TrackerConfig& config) {
  const std::string uri = uri_of(config);
  if (uri.starts_with("http://") || uri.starts_with("https://")) return arrow::Status::OK();
  return arrow::Status::Invalid(
      "TrackerConfig.uri of the tracker \"mlflow\" is \"", uri,
      "\"; allowed: the address of an MLflow server, http://… or https://…; set it, or MLFLOW_TRACKING_URI");
}

}  // namespace paceline::track
