// What has become of a JSON object: its members that are new or others than before, and those that are gone. Pure.
//
// Members are compared whole: what is inside them has no changes of its own.
#pragma once

#include <string>
#include <vector>

#include "paceline/core/json.h"

namespace paceline {

struct JsonChange {
  Json set = Json::object();
  std::vector<std::string> removed;

  bool is_empty() const { return set.empty() && removed.empty(); }
};

/// Of two objects.
JsonChange change_of(const Json& before, const Json& after);
/// Makes the object what it has become.
void apply_change(const JsonChange& change, Json& value);

}  // namespace paceline
