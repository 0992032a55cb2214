// Packages: what of the user's code goes to agents on other machines, and the pieces of it that they ask for.
#pragma once

#include <arrow/result.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "paceline/controller/run_request.h"
#include "paceline/package/cache.h"
#include "paceline/rpc/package_messages.h"

namespace paceline::controller {

class Packages {
 public:
  /// None.
  Packages() = default;
  /// Those that the request names: ScalingConfig.ship, RunConfig.working_dir and py_modules. An error names the
  /// setting.
  static arrow::Result<Packages> collect(const RunRequest& request);

  /// What agents are told; nothing where there are none.
  const rpc::Packages& list() const { return list_; }
  /// In words, for the log: "working_dir: 12 files, 3.4 kB".
  const std::string& text() const { return text_; }
  /// The answer to an agent, which may ask for anything. Refused is what is in none of the packages.
  rpc::Envelope read(const rpc::PackageRead& wanted) const;

 private:
  arrow::Result<std::string> bytes_of(const rpc::PackageRead& wanted) const;

  rpc::Packages list_;
  std::string text_;
  std::optional<package::Cache> cache_;
  std::map<std::string, int64_t> bytes_by_sum_;
};

/// On the driver's own machine nothing travels: where processes work, and what PYTHONPATH has first ("": as it is).
std::string local_directory(const RunRequest& request);
std::string local_modules(const RunConfig& run_config);

}  // namespace paceline::controller
