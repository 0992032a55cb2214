#include "paceline/controller/survey.h"

#include <unistd.h>

#include <algorithm>

#include "paceline/core/posix/host_name.h"
#include "paceline/track/history.h"

namespace paceline::controller {

using namespace policy;

arrow::Result<RunOpened> survey(const RunRequest& request, checkpoint::Store& store, const RunState& earlier) {
  ARROW_RETURN_NOT_OK(store.collect_leftovers());
  RunOpened opened{.epoch = earlier.epoch.next(),
                   .name = request.run_config.name.value_or(""),
                   .host = host_name(),
                   .pid = ::getpid()};
  opened.last_seen = earlier.since;
  ARROW_ASSIGN_OR_RAISE(const auto published, store.list());
  for (const checkpoint::Published& one : published) {
    opened.checkpoints.push_back({one.report, one.name, one.metrics, one.time});
    opened.last_report = std::max(opened.last_report, one.report);
  }
  if (earlier.epoch.value == 0) return opened;
  ARROW_RETURN_NOT_OK(track::visit_history(request.run_folder, [&opened](const track::HistoryRow& row) {
    opened.last_report = std::max(opened.last_report, row.report);
    opened.last_seen = std::max(opened.last_seen, row.time);
  }));
  return opened;
}

void note_earlier(const RunRequest& request, const RunState& earlier, const RunOpened& opened, Log& log) {
  if (request.resume_from_checkpoint && !opened.checkpoints.empty()) {
    log.warning("the run has " + opened.checkpoints.back().name +
                " already and goes on from it; resume_from_checkpoint " + *request.resume_from_checkpoint +
                " is ignored: give the run another name to start from that");
  }
  if (earlier.epoch.value == 0) return;
  if (earlier.state == State::finished) {
    log.info("the run had finished: training again as a further attempt");
  } else {
    log.info("continuing a run that was " + to_string(earlier.state) + " in attempt " +
             std::to_string(earlier.attempt.value));
  }
}

}  // namespace paceline::controller
