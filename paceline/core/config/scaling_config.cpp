#include "paceline/core/config/scaling_config.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>

#include "paceline/core/error.h"

namespace paceline {
namespace {

int64_t count_of(const Json& json) {
  if (!json.is_number_integer()) throw Json::type_error::create(302, "wanted: an integer", &json);
  return json.get<int64_t>();
}

// "cpus" is meant for "CPU".
bool is_misspelt(const std::string& resource) {
  std::string name = resource;
  std::ranges::transform(name, name.begin(), [](unsigned char letter) { return std::tolower(letter); });
  if (name.ends_with('s')) name.pop_back();
  return resource.empty() || ((name == "cpu" || name == "gpu") && resource != "CPU" && resource != "GPU");
}

// Workers on one GPU, each of which asks for a part of it; three with 0.333333 and three with 0.33334.
int64_t sharers(double part) {
  return std::max<int64_t>(1, static_cast<int64_t>(std::floor(1 / part + 1e-3)));
}

}  // namespace

void to_json(Json& json, const NumWorkers& workers) {
  if (workers.min == workers.max) {
    json = workers.max;
  } else {
    json = {workers.min, workers.max};
  }
}

void from_json(const Json& json, NumWorkers& workers) {
  workers = json.is_array() ? NumWorkers(count_of(json.at(0)), count_of(json.at(1))) : NumWorkers(count_of(json));
  if (json.is_array() && json.size() != 2) throw Json::type_error::create(302, "wanted: two numbers", &json);
}

Constraint worker_count() {
  return {[](const Json& value) {
            if (value.is_number_integer()) return value.get<int64_t>() >= 0;
            if (!value.is_array() || value.size() != 2) return false;
            const auto low = value[0].get<int64_t>();
            const auto high = value[1].get<int64_t>();
            return low >= 0 && low <= high && high >= 1;
          },
          "an integer, at least 0, or a pair (minimum, maximum) whose maximum is at least 1"};
}

Constraint resource_amounts() {
  return {[](const Json& value) {
            const auto& items = value.items();
            return std::all_of(items.begin(), items.end(), [](const auto& item) {
              return !is_misspelt(item.key()) && item.value().is_number() && item.value().template get<double>() >= 0;
            });
          },
          "\"CPU\", \"GPU\", \"memory\" in bytes and others by name, each at least 0"};
}

void refuse_impossible(const ScalingConfig& scaling) {
  if (scaling.use_gpu && scaling.use_tpu) {
    throw ConfigError("ScalingConfig: Cannot specify both use_gpu and use_tpu; Paceline has no TPU support");
  }
  if (scaling.use_tpu || scaling.topology) {
    throw ConfigError(std::string("ScalingConfig.") + (scaling.use_tpu ? "use_tpu" : "topology") +
                      " is set, but Paceline has no TPU support; use CPUs or use_gpu");
  }
  if (!scaling.hosts.empty() && scaling.engine != "hosts" && scaling.engine != "auto") {
    throw ConfigError("ScalingConfig.hosts is for engine \"hosts\", but ScalingConfig.engine is \"" + scaling.engine +
                      "\"; leave out one of the two");
  }
  const auto gpus = scaling.resources_per_worker.find("GPU");
  if (!scaling.use_gpu && gpus != scaling.resources_per_worker.end() && gpus->second > 0) {
    throw ConfigError("ScalingConfig: `use_gpu` is False but `GPU` was found in `resources_per_worker`; set use_gpu");
  }
}

double gpus_per_worker(const ScalingConfig& scaling) {
  if (!scaling.use_gpu) return 0;
  const auto asked = scaling.resources_per_worker.find("GPU");
  if (asked == scaling.resources_per_worker.end() || asked->second == 0) return 1;
  return asked->second < 1 ? asked->second : std::ceil(asked->second);
}

double cpus_per_worker(const ScalingConfig& scaling) {
  const auto asked = scaling.resources_per_worker.find("CPU");
  if (asked != scaling.resources_per_worker.end()) return asked->second;
  return scaling.use_gpu || !scaling.resources_per_worker.empty() ? 0 : 1;
}

int64_t workers_that_fit(int64_t gpus, double each) {
  return each < 1 ? gpus * sharers(each) : gpus / static_cast<int64_t>(each);
}

int64_t gpus_for(int64_t workers, double each) {
  return each < 1 ? (workers + sharers(each) - 1) / sharers(each) : workers * static_cast<int64_t>(each);
}

int64_t first_gpu(int64_t local_rank, double each) {
  return each < 1 ? local_rank / sharers(each) : local_rank * static_cast<int64_t>(each);
}

std::string gpus_text(double gpus) {
  char text[40];
  std::snprintf(text, sizeof text, "%g GPU%s", gpus, gpus > 1 ? "s" : "");
  return text;
}

}  // namespace paceline
