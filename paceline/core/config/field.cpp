#include "paceline/core/config/field.h"

#include "paceline/core/error.h"

namespace paceline {

void check_field(const char* config, const char* field, const Json& value, const Constraint& constraint) {
  if (value.is_null() || constraint.allows(value)) return;
  throw ConfigError(std::string(config) + "." + field + " is " + readable_json(value) +
                    "; allowed: " + constraint.words);
}

}  // namespace paceline
