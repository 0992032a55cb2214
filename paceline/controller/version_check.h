// Versions of what must be the same on all nodes of a run. Pure.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "paceline/rpc/messages.h"

namespace paceline::controller {

class VersionCheck {
 public:
  /// What a process has, by name; `where`: "node n1", "the driver's machine". "" if all of it is what others have, who
  /// came before; otherwise what differs, where, and what to do. A name that only some have is no difference.
  std::string add(const std::string& where, const rpc::StringMap& versions);

 private:
  std::map<std::string, std::pair<std::string, std::string>> known_;  // where the first was, and its version, by name
};

}  // namespace paceline::controller
