#include "paceline/train/validation.h"

#include "paceline/core/registry.h"

namespace paceline {
namespace {

Registry<ValidationFn>& validations() {
  static Registry<ValidationFn> functions(
      {"validation function", "the function of ValidationConfig", "PACELINE_VALIDATION"});
  return functions;
}

}  // namespace

void ValidationConfig::validate() const {
  if (fn == nullptr) {
    throw ConfigError("ValidationConfig.fn is not set; allowed: a function registered with PACELINE_VALIDATION");
  }
  check_field("ValidationConfig", "max_in_flight", max_in_flight, at_least(1));
  task_config.validate();
}

void register_validation(const std::string& name, ValidationFn function) {
  validations().add(name, function);
}

std::string validation_name(ValidationFn function) {
  return validations().name_of(function);
}

ValidationFn find_validation(const std::string& name) {
  return validations().find(name);
}

}  // namespace paceline
