#include "paceline/core/dictionary.h"

#include <sstream>

namespace paceline {

Dictionary::Dictionary(std::initializer_list<std::pair<std::string, Json>> values) {
  for (const auto& [name, value] : values) values_[name] = value;
}

Dictionary::Dictionary(Json object) {
  if (object.is_null()) return;
  if (!object.is_object()) {
    throw ConfigError("wanted a JSON object with names and values; got: " + readable_json(object));
  }
  values_ = std::move(object);
}

const Json* Dictionary::find(const std::string& name) const {
  if (const auto found = values_.find(name); found != values_.end()) return &*found;
  const Json* level = &values_;
  std::istringstream parts(name);
  for (std::string part; std::getline(parts, part, '/');) {
    if (!level->is_object()) return nullptr;
    const auto found = level->find(part);
    if (found == level->end()) return nullptr;
    level = &*found;
  }
  return level == &values_ ? nullptr : level;
}

void Dictionary::throw_missing(const std::string& name) const {
  std::string names;
  for (const auto& [known, value] : values_.items()) names += (names.empty() ? "" : ", ") + known;
  throw ConfigError("\"" + name + "\" is not there; there is: " + (names.empty() ? "nothing" : names) +
                    ". Set it (a loop's configuration is TorchTrainerOptions.train_loop_config), or read it with a "
                    "default: get(\"" +
                    name + "\", …)");
}

void Dictionary::throw_wrong_type(const std::string& name, const Json& value, const char* wanted) {
  throw ConfigError("\"" + name + "\" is the " + value.type_name() + " " + readable_json(value) + "; wanted " + wanted);
}

void from_json(const Json& json, Dictionary& dictionary) {
  // As every other type says it: decoders know no other errors.
  if (!json.is_null() && !json.is_object()) throw Json::type_error::create(302, "wanted an object", &json);
  dictionary = Dictionary(json);
}

}  // namespace paceline
