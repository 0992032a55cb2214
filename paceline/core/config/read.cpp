#include "paceline/core/config/read.h"

#include "paceline/core/error.h"

namespace paceline {

void refuse_type(const std::string& config, const char* field, const std::string& shown, const std::string& type,
                 const std::string& allowed) {
  const bool is_number = type == "an integer" || type == "a number";
  const std::string bounds = allowed == any_value().words ? "" : allowed;
  const std::string words = bounds.empty() ? type : is_number ? type + ", " + bounds : bounds;
  throw ConfigError(config + "." + field + " is " + shown + "; allowed: " + words);
}

}  // namespace paceline
