// PACELINE_CONFIG: a configuration struct whose fields are declared once, with default, bounds and help.
/*     #define FAILURE_CONFIG_FIELDS(FIELD) \
         FIELD(int64_t, max_failures, 0, at_least(-1), "Restarts after worker failures; -1 is without limit")
       PACELINE_CONFIG(FailureConfig, FAILURE_CONFIG_FIELDS);                                                      */
// gives an aggregate for designated initialisers with JSON both ways, `FailureConfig::fields()` (what --help and the
// documentation print) and `validate()`, which throws ConfigError naming field, value and what is allowed; its argument
// is the struct's name in that error, where users know it by another.
#pragma once

#include <string>
#include <vector>

#include "paceline/core/config/constraint.h"
#include "paceline/core/record.h"

namespace paceline {

/// A list of names, or a command line, as a setting.
using Words = std::vector<std::string>;

/// One setting, as --help and the documentation show it.
struct FieldInfo {
  std::string name;
  Json default_value;
  std::string allowed;
  std::string help;
};

/// Throws ConfigError("ScalingConfig.num_workers is -1; allowed: at least 0") unless `value` passes.
void check_field(const char* config, const char* field, const Json& value, const Constraint& constraint);

}  // namespace paceline

#define PACELINE_CONFIG_CHECK_(type, name, default_value, constraint, help) \
  ::paceline::check_field(kind, #name, ::paceline::Json(this->name), constraint);
#define PACELINE_CONFIG_INFO_(type, name, default_value, constraint, help) \
  {#name, ::paceline::Json(defaults.name), (constraint).words, help},

#define PACELINE_CONFIG(Name, FIELDS)                                                \
  struct Name {                                                                      \
    PACELINE_RECORD_BODY_(Name, FIELDS)                                              \
    bool operator==(const Name&) const = default;                                    \
    void validate(const char* kind = #Name) const { FIELDS(PACELINE_CONFIG_CHECK_) } \
    static std::vector<::paceline::FieldInfo> fields() {                             \
      const Name defaults{};                                                         \
      return {FIELDS(PACELINE_CONFIG_INFO_)};                                        \
    }                                                                                \
  }
