#include "paceline/core/error.h"

#include "paceline/core/json.h"

namespace paceline {
namespace {

// A message may quote a file, or its name, in which there may be any bytes. Those that belong to no character are
// replaced: messages are for people, and for Python.
std::string as_utf8(const std::string& text) {
  if (is_utf8(text)) return text;
  return Json::parse(Json(text).dump(-1, ' ', false, Json::error_handler_t::replace)).get<std::string>();
}

}  // namespace

void throw_if_error(const arrow::Status& status) {
  if (status.ok()) return;
  const std::string message = as_utf8(status.message());
  if (status.IsIOError() || status.IsSerializationError()) throw StorageError(message);
  if (status.IsInvalid() || status.IsKeyError() || status.IsTypeError()) throw ConfigError(message);
  throw Error(message);
}

}  // namespace paceline
