// Tokens: secrets that last, in files that only their user can read.
#pragma once

#include <arrow/result.h>

#include <string>

#include "paceline/dashboard/message.h"

namespace paceline::dashboard {

/// The token in the file, which is made where there is none, in a folder that is there: 128 random bits. `what` it is
/// for, for errors: "the token for /metrics". Invalid when others may read it, or it holds no token.
arrow::Result<std::string> token_in_file(const std::string& path, const std::string& what);

/// Whether the request has that token, as "Authorization: Bearer TOKEN".
bool has_token(const Request& request, const std::string& token);

}  // namespace paceline::dashboard
