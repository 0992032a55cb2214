// What the functions of Api share.
#pragma once

#include <arrow/result.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "paceline/core/json.h"
#include "paceline/dashboard/message.h"

namespace paceline::dashboard {

template <class T>
Response json_response(const T& value) {
  return {.body = encode_json(value)};
}

/// What stands between the commas of a list.
inline std::vector<std::string> parts_of(const std::string& list) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin < list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    if (end > begin) parts.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

/// What stands in the body. Invalid for what is no JSON, and for members that are not known or of another type; those
/// that lack have their defaults.
template <class T>
arrow::Result<T> body_of(const Request& request) {
  const auto json = decode_json(request.body);
  if (!json.ok() || !json->is_object()) return arrow::Status::Invalid("the body is no JSON object");
  const Json known = T();
  for (const auto& [name, value] : json->items()) {
    if (!known.contains(name)) return arrow::Status::Invalid("the body has a member that is not known: ", name);
    const bool is_whole = value.is_number_integer() &&
                          (!value.is_number_unsigned() || value.template get<uint64_t>() <= uint64_t{INT64_MAX});
    if (known.at(name).is_number_integer() && !is_whole) {
      return arrow::Status::Invalid(name, " is ", value.dump(), "; wanted a whole number");
    }
  }
  try {
    return json->template get<T>();
  } catch (const Json::exception& error) {
    return arrow::Status::Invalid("the body has a member of another type: ", error.what());
  }
}

}  // namespace paceline::dashboard
