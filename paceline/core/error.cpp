#include "paceline/core/error.h"

namespace paceline {

void throw_if_error(const arrow::Status& status) {
  if (status.ok()) return;
  const std::string& message = status.message();
  if (status.IsIOError() || status.IsSerializationError()) throw StorageError(message);
  if (status.IsInvalid() || status.IsKeyError() || status.IsTypeError()) throw ConfigError(message);
  throw Error(message);
}

}  // namespace paceline
