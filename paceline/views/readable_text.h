// Text from files that may be no UTF-8, for pages.
#pragma once

#include <string>

#include "paceline/core/json.h"

namespace paceline::views {

/// The same text; bytes that are no UTF-8 are replaced, as in the names of JSON's objects.
inline std::string readable(const std::string& bytes) {
  if (is_utf8(bytes)) return bytes;
  const Json json = bytes;
  return Json::parse(json.dump(-1, ' ', false, Json::error_handler_t::replace)).get<std::string>();
}

}  // namespace paceline::views
