#include "paceline/train/prepare_data_loader.h"

#include "paceline/train/worker/session_internal.h"

namespace paceline::train {

LoaderPlace loader_place() {
  Session& session = Session::current("prepare_data_loader()");
  const auto& options = session.options();
  return {.rank = options.context.world_rank,
          .world_size = options.context.world_size,
          .device = options.device,
          .ledger = session.ledger(),
          .before_batch =
              [&session] {  // which a loader may outlive
                if (Session::current_or_null() != &session) return;
                session.throw_if_stopped();
                session.set_phase(Phase::data);
              },
          .after_batch =
              [&session] {
                if (Session::current_or_null() != &session) return;
                session.set_phase(Phase::training);
                session.set_step(session.ledger()->count() + 1);
              }};
}

}  // namespace paceline::train
