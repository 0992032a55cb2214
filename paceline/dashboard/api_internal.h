// What the functions of Api share.
#pragma once

#include <algorithm>
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

}  // namespace paceline::dashboard
