// UserCallback: what users may hook into a run, in the driver.
//
// Threading: called one after another on the controller's thread; a slow callback delays the controller, not the
// workers. An exception from a callback ends the run with an error; it never hides an error that is there already.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "paceline/checkpoint/checkpoint.h"
#include "paceline/core/dictionary.h"

namespace paceline {

/// What a callback is told about its run.
struct RunContext {
  std::string name;
  std::string path;
  int64_t attempt = 1;
  int64_t world_size = 1;
};

class UserCallback {
 public:
  virtual ~UserCallback() = default;
  /// Every rank has made this report: its metrics by rank (with ReportOptions::reduce the group's numbers on each), and
  /// the checkpoint if one was published (else null).
  virtual void after_report(const RunContext& run, const std::vector<Metrics>& metrics, const Checkpoint* checkpoint) {}
  /// Workers have failed, once for each group that did: messages by rank. What concerns the whole group (a lost node, a
  /// start that took too long, reports that do not fit together) is under -1.
  virtual void after_exception(const RunContext& run, const std::map<int64_t, std::string>& errors) {}
};

}  // namespace paceline
