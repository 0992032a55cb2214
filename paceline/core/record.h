// PACELINE_RECORD: a struct whose fields are declared once; JSON in both directions and a visitor are derived.
/*     #define JOINED_FIELDS(FIELD)                    \
         FIELD(int64_t, pid, 0)                        \
         FIELD(std::string, host, "")
       PACELINE_RECORD(Joined, JOINED_FIELDS);                                                                     */
// gives an aggregate `struct Joined { int64_t pid = 0; std::string host = ""; }` with to_json, from_json, equality and
// `visit`. Reading ignores unknown fields and leaves absent or null ones at their default: that is how messages stay
// compatible within a major version. A field of the wrong type throws nlohmann's exception, which decoders turn into a
// Status. A type with a comma needs an alias.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

// nlohmann-json 3.11 has no adapter for std::optional: null is nullopt.
template <class T>
struct nlohmann::adl_serializer<std::optional<T>> {
  static void to_json(json& target, const std::optional<T>& value) {
    if (value) {
      target = *value;
    } else {
      target = nullptr;
    }
  }
  static void from_json(const json& source, std::optional<T>& value) {
    if (source.is_null()) {
      value.reset();
    } else {
      value = source.get<T>();
    }
  }
};

#define PACELINE_RECORD_MEMBER_(type, name, default_value, ...) type name = default_value;
#define PACELINE_RECORD_VISIT_(type, name, default_value, ...) visitor(#name, self.name);

#define PACELINE_RECORD_BODY_(Name, FIELDS)                                                    \
  FIELDS(PACELINE_RECORD_MEMBER_)                                                              \
  template <class Self, class Visitor>                                                         \
  static void visit(Self& self, Visitor&& visitor) {                                           \
    FIELDS(PACELINE_RECORD_VISIT_)                                                             \
  }                                                                                            \
  friend void to_json(nlohmann::json& json, const Name& record) {                              \
    json = nlohmann::json::object();                                                           \
    Name::visit(record, [&json](const char* name, const auto& value) { json[name] = value; }); \
  }                                                                                            \
  friend void from_json(const nlohmann::json& json, Name& record) {                            \
    Name::visit(record, [&json](const char* name, auto& value) {                               \
      const auto found = json.find(name);                                                      \
      if (found != json.end() && !found->is_null()) found->get_to(value);                      \
    });                                                                                        \
  }

#define PACELINE_RECORD(Name, FIELDS)             \
  struct Name {                                   \
    PACELINE_RECORD_BODY_(Name, FIELDS)           \
    bool operator==(const Name&) const = default; \
  }
