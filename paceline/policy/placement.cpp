#include "paceline/policy/placement.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <sstream>

#include "paceline/core/config/scaling_config.h"

namespace paceline::policy {
namespace {

// Of amounts that users write with a few digits: three times 0.1 fit into 0.3.
constexpr double kRounding = 1e-9;

int64_t times_in(double available, double each, int64_t most) {
  if (each <= 0) return most;
  return static_cast<int64_t>(std::min(static_cast<double>(most), std::floor(available / each + kRounding)));
}

// "a, b" of "in(a, b)"; nullopt for another text.
std::optional<std::string> list_of(const std::string& wanted) {
  if (!wanted.starts_with("in(") || !wanted.ends_with(')')) return std::nullopt;
  return wanted.substr(3, wanted.size() - 4);
}

bool is_in(const std::string& list, const std::string& value) {
  std::istringstream entries(list);
  for (std::string entry; std::getline(entries, entry, ',');) {
    const size_t first = entry.find_first_not_of(' ');
    const size_t last = entry.find_last_not_of(' ');
    if (first != std::string::npos && entry.substr(first, last - first + 1) == value) return true;
  }
  return false;
}

// As Ray has it: a node without the label is none of those that are not wanted.
bool is_wanted(const std::string* label, const std::string& wanted) {
  if (wanted.starts_with('!')) return !is_wanted(label, wanted.substr(1));
  if (label == nullptr) return false;
  const std::optional<std::string> list = list_of(wanted);
  return list ? is_in(*list, *label) : *label == wanted;
}

bool has_labels(const Node& node, const RunOptions& options) {
  return std::ranges::all_of(options.label_selector, [&node](const auto& wanted) {
    const auto label = node.labels.find(wanted.first);
    return is_wanted(label == node.labels.end() ? nullptr : &label->second, wanted.second);
  });
}

std::string number_text(double number) {
  char text[40];
  std::snprintf(text, sizeof text, "%g", number);
  return text;
}

void add(std::string& list, const std::string& part) {
  list += (list.empty() ? "" : ", ") + part;
}

std::string amounts_text(double cpus, double gpus, double memory_bytes, const Resources& others) {
  std::string text;
  if (cpus > 0) add(text, number_text(cpus) + (cpus == 1 ? " CPU" : " CPUs"));
  if (gpus > 0) add(text, gpus_text(gpus));
  if (memory_bytes > 0) add(text, number_text(memory_bytes / 1e9) + " GB of memory");
  for (const auto& [name, amount] : others) {
    if (amount > 0) add(text, number_text(amount) + " of \"" + name + "\"");
  }
  return text.empty() ? "nothing" : text;
}

std::string labels_text(const Labels& labels) {
  std::string text;
  for (const auto& [name, value] : labels) add(text, name + "=" + value);
  return text;
}

// "node0 has 2 CPUs, 1 GPU; node1 is lost".
std::string table_of(const std::vector<Node>& nodes) {
  std::string table;
  for (const Node& node : nodes) {
    table += (table.empty() ? "" : "; ") + node.name;
    if (node.lost) {
      table += " is lost";
      continue;
    }
    table += " has " + amounts_text(static_cast<double>(node.cores), static_cast<double>(node.gpus),
                                    static_cast<double>(node.memory_bytes), node.resources);
    if (!node.labels.empty()) table += " (" + labels_text(node.labels) + ")";
  }
  return table.empty() ? "there is no node" : table;
}

std::string problem_of(const std::vector<Node>& nodes, const RunOptions& options, int64_t workers, int64_t room) {
  std::string text = std::to_string(workers) + (workers == 1 ? " worker" : " workers") + " with " +
                     amounts_text(options.cpus_per_worker, options.gpus_per_worker, options.memory_per_worker,
                                  options.resources_per_worker);
  text += workers == 1 ? "" : " each";
  if (!options.label_selector.empty()) text += " on nodes with " + labels_text(options.label_selector);
  text += " were asked for, but there is room for " + std::to_string(room);
  if (options.placement_strategy == "STRICT_PACK") text += " on one node (placement_strategy STRICT_PACK)";
  if (options.placement_strategy == "STRICT_SPREAD")
    text += " on nodes of their own (placement_strategy STRICT_SPREAD)";
  return text + ": " + table_of(nodes);
}

using Counts = std::vector<int64_t>;

// As few nodes as there can be: those with most room first, in the order of the nodes where they have the same.
Counts pack(const Counts& room, int64_t workers) {
  std::vector<size_t> order(room.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater{}, [&room](size_t node) { return room[node]; });
  Counts counts(room.size(), 0);
  for (const size_t node : order) {
    counts[node] = std::min(room[node], workers);
    workers -= counts[node];
  }
  return counts;
}

Counts spread(const Counts& room, int64_t workers) {
  Counts counts(room.size(), 0);
  while (workers > 0) {
    for (size_t node = 0; node < room.size() && workers > 0; ++node) {
      if (counts[node] == room[node]) continue;
      ++counts[node];
      --workers;
    }
  }
  return counts;
}

Counts place_by(const std::string& strategy, Counts room, int64_t workers) {
  if (strategy == "STRICT_PACK") {
    const auto node = std::ranges::find_if(room, [workers](int64_t here) { return here >= workers; });
    if (node == room.end()) return {};
    Counts counts(room.size(), 0);
    counts[static_cast<size_t>(node - room.begin())] = workers;
    return counts;
  }
  if (strategy == "STRICT_SPREAD")
    std::ranges::for_each(room, [](int64_t& here) { here = std::min<int64_t>(here, 1); });
  if (std::accumulate(room.begin(), room.end(), int64_t{0}) < workers) return {};
  return strategy == "PACK" ? pack(room, workers) : spread(room, workers);
}

// What a placement could use at most.
int64_t usable(const std::string& strategy, const Counts& room) {
  if (room.empty()) return 0;
  if (strategy == "STRICT_PACK") return std::ranges::max(room);
  if (strategy == "STRICT_SPREAD") return std::ranges::count_if(room, [](int64_t here) { return here > 0; });
  return std::accumulate(room.begin(), room.end(), int64_t{0});
}

}  // namespace

int64_t room_on(const Node& node, const RunOptions& options, int64_t most) {
  if (node.lost || !has_labels(node, options)) return 0;
  int64_t room = times_in(static_cast<double>(node.cores), options.cpus_per_worker, most);
  if (options.gpus_per_worker > 0) room = std::min(room, workers_that_fit(node.gpus, options.gpus_per_worker));
  room = std::min(room, times_in(static_cast<double>(node.memory_bytes), options.memory_per_worker, most));
  for (const auto& [name, each] : options.resources_per_worker) {
    const auto has = node.resources.find(name);
    room = std::min(room, times_in(has == node.resources.end() ? 0.0 : has->second, each, most));
  }
  return room;
}

Placement place(const std::vector<Node>& nodes, const RunOptions& options, int64_t workers, const Lines& leaving) {
  Counts room;
  for (const Node& node : nodes) room.push_back(room_on(node, options, workers));
  Counts trusted = room;
  for (size_t node = 0; node < nodes.size(); ++node) {
    int64_t failures = 0;
    for (const Node& other : nodes)
      failures += other.host == nodes[node].host ? other.failures + (other.lost ? 1 : 0) : 0;
    if (failures >= kFailuresToAvoid || std::ranges::find(leaving, nodes[node].name) != leaving.end())
      trusted[node] = 0;
  }
  Placement placement{.counts = place_by(options.placement_strategy, trusted, workers)};
  if (placement.counts.empty()) placement.counts = place_by(options.placement_strategy, room, workers);
  if (placement.counts.empty()) {
    placement.problem = problem_of(nodes, options, workers, usable(options.placement_strategy, room));
  }
  return placement;
}

std::vector<size_t> in_rank_order(const std::vector<Node>& nodes) {
  std::vector<size_t> order(nodes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&nodes](size_t node) {
    return nodes[node].rank < 0 ? std::numeric_limits<int64_t>::max() : nodes[node].rank;
  });
  return order;
}

Placement fill(const std::vector<Node>& nodes, const RunOptions& options) {
  Placement placement{.counts = Counts(nodes.size(), 0)};
  int64_t used = 0;
  for (const size_t node : in_rank_order(nodes)) {
    if (nodes[node].lost || used == options.most_nodes) continue;
    placement.counts[node] = nodes[node].workers;
    ++used;
  }
  if (used >= options.nodes) return placement;
  std::string names;
  for (const Node& node : nodes) add(names, node.name + (node.lost ? " is lost" : " is there"));
  return {.counts = {},
          .problem = std::to_string(options.nodes) + " nodes are needed (--nnodes), and there " +
                     (used == 1 ? "is 1" : "are " + std::to_string(used)) + (names.empty() ? "" : ": " + names)};
}

}  // namespace paceline::policy
