// What the tests of this folder share.
#pragma once

#include "paceline/core/ids.h"

namespace paceline::checkpoint {

// A worker of the first attempt.
inline Identity worker(int64_t number) {
  return {.attempt = {1}, .worker = {number}};
}

}  // namespace paceline::checkpoint
