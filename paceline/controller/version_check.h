// Versions of what must be the same on all nodes of a run. Pure.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "paceline/rpc/messages.h"

namespace paceline::controller {

class VersionCheck {
 public:
  /// What a process on `node` has, by name. "" if all of it is what others have, who came before; otherwise what
  /// differs, on which nodes, and what to do. A name that only some have is no difference.
  std::string add(const std::string& node, const rpc::StringMap& versions);

 private:
  std::map<std::string, std::pair<std::string, std::string>> known_;  // node and version of the first, by name
};

}  // namespace paceline::controller
