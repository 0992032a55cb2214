#include <algorithm>
#include <array>
#include <cmath>

#include "paceline/track/tracker/built_in_internal.h"

namespace paceline::track {
namespace {

arrow::Status check_nothing(const TrackerConfig&) {
  return arrow::Status::OK();
}

struct BuiltIn {
  const char* kind;
  /// Names of the settings that mean something to it, beside `kind` and `step_metric`.
  std::string_view settings;
  std::unique_ptr<Tracker> (*make)(TrackerOptions options);
  arrow::Status (*check)(const TrackerConfig& config) = check_nothing;
};

constexpr std::array kBuiltIns = {
    BuiltIn{"tensorboard", "path", make_tensorboard},
    BuiltIn{"csv", "path", make_csv},
    BuiltIn{"json_lines", "path", make_json_lines},
    BuiltIn{"mlflow", "uri project tags", make_mlflow, check_mlflow},
    BuiltIn{"wandb", "path project entity tags", make_wandb},
};

const BuiltIn* find(const std::string& kind) {
  const auto* found = std::ranges::find_if(kBuiltIns, [&](const BuiltIn& one) { return one.kind == kind; });
  return found == kBuiltIns.end() ? nullptr : found;
}

void add_flat(const std::string& prefix, const Json& object, std::vector<std::pair<std::string, Json>>& flat) {
  for (const auto& [name, value] : object.items()) {
    if (value.is_object()) {
      add_flat(prefix + name + "/", value, flat);
    } else {
      flat.emplace_back(prefix + name, value);
    }
  }
}

}  // namespace

arrow::Status check_tracker(const TrackerConfig& config) {
  const BuiltIn* built_in = find(config.kind);
  if (built_in == nullptr) return arrow::Status::Invalid("there is no tracker \"", config.kind, "\"");
  const Json settings = config;
  const Json defaults = TrackerConfig{};
  for (const auto& [name, value] : settings.items()) {
    const bool means_something = name == "kind" || name == "step_metric" || value == defaults[name] ||
                                 built_in->settings.find(name) != std::string_view::npos;
    if (means_something) continue;
    return arrow::Status::Invalid("TrackerConfig.", name, " is ", encode_json(value),
                                  ", but means nothing to the tracker \"", config.kind, "\", which has ",
                                  built_in->settings, "; leave it out");
  }
  return built_in->check(config);
}

arrow::Result<std::unique_ptr<Tracker>> make_tracker(TrackerOptions options) {
  ARROW_RETURN_NOT_OK(check_tracker(options.config));
  return find(options.config.kind)->make(std::move(options));
}

std::string folder_of(const TrackerOptions& options) {
  return options.config.path.empty() ? options.run.folder : options.config.path + "/" + options.run.name;
}

std::vector<std::pair<std::string, Json>> flat_metrics(const Json& metrics) {
  std::vector<std::pair<std::string, Json>> flat;
  if (metrics.is_object()) add_flat("", metrics, flat);
  return flat;
}

int64_t step_of(const std::string& step_metric, const Json& metrics, int64_t report) {
  if (step_metric.empty()) return report;
  for (const auto& [name, value] : flat_metrics(metrics)) {
    if (name != step_metric) continue;
    if (value.is_number_integer()) return value.get<int64_t>();
    const double number = number_of(value).value_or(NAN);
    if (std::abs(number) < 9e18) return static_cast<int64_t>(number);  // not for NaN either
  }
  return report;
}

std::optional<double> number_of(const Json& value) {
  if (value.is_boolean()) return value.get<bool>() ? 1.0 : 0.0;
  if (!value.is_number()) return std::nullopt;
  return value.get<double>();
}

}  // namespace paceline::track
