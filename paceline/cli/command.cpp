#include "paceline/cli/command.h"

#include <cstdio>

namespace paceline::cli {

int report(const arrow::Status& status) {
  if (status.ok()) return kDone;
  std::fprintf(stderr, "paceline: %s\n", status.message().c_str());
  return kFailed;
}

}  // namespace paceline::cli
