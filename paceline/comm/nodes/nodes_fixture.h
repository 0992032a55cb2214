// Groups of several nodes for tests: nodes are told apart by names here, and the ranks are threads of this process.
#pragma once

#include <chrono>
#include <future>
#include <iterator>
#include <memory>
#include <vector>

#include "paceline/comm/group.h"
#include "paceline/rpc/memory_key_value.h"

namespace paceline::comm {

inline const Identity kOneGeneration{.epoch = {1}, .attempt = {1}, .generation = {0}, .worker = {1}};

using Groups = std::vector<std::shared_ptr<Group>>;

inline Groups on_nodes(const std::vector<const char*>& nodes, GroupOptions options = {}) {
  rpc::MemoryKeyValueStore store;
  std::vector<std::future<std::shared_ptr<Group>>> futures;
  options.world_size = std::ssize(nodes);
  if (options.timeout > std::chrono::minutes(1)) options.timeout = std::chrono::minutes(1);
  for (size_t rank = 0; rank < nodes.size(); ++rank) {
    options.rank = static_cast<int64_t>(rank);
    options.node = nodes[rank];
    futures.push_back(std::async(std::launch::async, [options, client = store.client(kOneGeneration)] {
      return Group::create(options, client);
    }));
  }
  Groups groups;
  for (auto& future : futures) groups.push_back(future.get());
  return groups;
}

// 3 as 2 + 1, 4 as 2 + 2, 5 as 2 + 3.
inline Groups on_two_nodes(int64_t world_size) {
  std::vector<const char*> nodes{"a", "a", "b", "b", "b"};
  nodes.resize(static_cast<size_t>(world_size));
  return on_nodes(nodes);
}

}  // namespace paceline::comm
