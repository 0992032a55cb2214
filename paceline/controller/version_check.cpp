#include "paceline/controller/version_check.h"

namespace paceline::controller {

std::string VersionCheck::add(const std::string& where, const rpc::StringMap& versions) {
  std::string differences;
  for (const auto& [name, version] : versions) {
    const auto& [first_place, first] = known_.try_emplace(name, where, version).first->second;
    if (first == version) continue;
    differences += (differences.empty() ? "" : "; ") + name + " is " + first + " on " + first_place + ", but " +
                   version + " on " + where;
  }
  return differences.empty() ? "" : differences + "; all need the same: install it there";
}

}  // namespace paceline::controller
