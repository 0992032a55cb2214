// What a Python program under torch's @record writes into TORCHELASTIC_ERROR_FILE about the exception that ends it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "paceline/rpc/messages.h"

namespace paceline::launch {

/// The exception in the file's text ({"message": {"message": "TYPE: TEXT", …}}, or its older form without the inner
/// object); nullopt when the text is something else.
std::optional<rpc::Failed> parse_error_file(std::string_view text);

/// Where the file of a worker is.
struct ErrorFile {
  std::string path;
  bool is_temporary = false;
};
/// In the run's folder or, on a machine that does not see that, among the temporary files.
ErrorFile error_file_of(const std::string& run_folder, WorkerId worker);

}  // namespace paceline::launch
