#include "paceline/core/json_change.h"

namespace paceline {

JsonChange change_of(const Json& before, const Json& after) {
  JsonChange change;
  for (const auto& [name, member] : after.items()) {
    const auto found = before.find(name);
    if (found == before.end() || *found != member) change.set[name] = member;
  }
  for (const auto& [name, member] : before.items()) {
    if (!after.contains(name)) change.removed.push_back(name);
  }
  return change;
}

void apply_change(const JsonChange& change, Json& value) {
  for (const auto& [name, member] : change.set.items()) value[name] = member;
  for (const std::string& name : change.removed) value.erase(name);
}

}  // namespace paceline
