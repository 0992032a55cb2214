// The JSON Schema of a type, from its declaration: records (core/record.h), lists, texts, numbers. Pure.
//
// A record's members are all always there. A later version may add others.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "paceline/core/ids.h"
#include "paceline/core/json.h"

namespace paceline::dashboard {

template <class T>
struct SchemaOf;

template <class T>
Json schema_of() {
  return SchemaOf<T>::get();
}

template <class T>
concept Record = requires(T record) { T::visit(record, [](const char*, auto&) {}); };

template <class T>
struct SchemaOf {
  static Json get() {
    if constexpr (std::is_same_v<T, bool>) {
      return {{"type", "boolean"}};
    } else if constexpr (std::is_same_v<T, std::string>) {
      return {{"type", "string"}};
    } else if constexpr (std::is_same_v<T, Json>) {
      return Json::object();  // of any type
    } else if constexpr (std::is_enum_v<T>) {
      return {{"type", {"string", "null"}}};
    } else if constexpr (std::is_integral_v<T>) {
      return {{"type", "integer"}};
    } else if constexpr (std::is_floating_point_v<T>) {
      return {{"type", "number"}};
    } else {
      static_assert(Record<T>);
      Json schema = {{"type", "object"}, {"properties", Json::object()}, {"required", Json::array()}};
      T record;
      T::visit(record, [&schema](const char* name, auto& member) {
        schema["properties"][name] = schema_of<std::remove_cvref_t<decltype(member)>>();
        schema["required"].push_back(name);
      });
      return schema;
    }
  }
};

template <class Tag>
struct SchemaOf<Id<Tag>> {
  static Json get() { return {{"type", "integer"}}; }
};

template <class T>
struct SchemaOf<std::vector<T>> {
  static Json get() { return {{"type", "array"}, {"items", schema_of<T>()}}; }
};

template <class T>
struct SchemaOf<std::map<std::string, T>> {
  static Json get() { return {{"type", "object"}, {"additionalProperties", schema_of<T>()}}; }
};

template <class T>
struct SchemaOf<std::optional<T>> {
  static Json get() {
    Json schema = schema_of<T>();
    schema["type"] = Json::array({schema["type"], "null"});
    return schema;
  }
};

}  // namespace paceline::dashboard
