#include "paceline/controller/version_check.h"

namespace paceline::controller {

std::string VersionCheck::add(const std::string& node, const rpc::StringMap& versions) {
  std::string differences;
  for (const auto& [name, version] : versions) {
    const auto& [first_node, first] = known_.try_emplace(name, node, version).first->second;
    if (first == version) continue;
    differences += (differences.empty() ? "" : "; ") + name + " is " + first + " on node " + first_node + ", but " +
                   version + " on node " + node;
  }
  return differences.empty() ? "" : differences + "; all nodes need the same: install it there";
}

}  // namespace paceline::controller
