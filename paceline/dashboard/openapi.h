// The interface as OpenAPI 3.1, from the table of the routes: docs/openapi.json. Pure.
#pragma once

#include "paceline/core/json.h"

namespace paceline::dashboard {

Json openapi();

}  // namespace paceline::dashboard
