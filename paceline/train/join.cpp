#include "paceline/train/join.h"

#include <memory>

#include "paceline/core/error.h"
#include "paceline/train/prepare_model.h"
#include "paceline/train/worker/session_internal.h"

namespace paceline::train {

void join_items(const std::function<void()>& loop, const JoinOptions& options, const std::vector<Item>& items) {
  Session& session = Session::current("join()");
  std::vector<std::shared_ptr<parallel::ParallelModel>> models;
  std::vector<Item> others;
  for (const Item& item : items) {
    if (item.module != nullptr) {
      models.push_back(parallel_model_of(*item.module, "join()"));
    } else {
      others.push_back(item);
    }
  }
  if (models.empty()) throw UsageError("join() was given no model; give it the models that the loop trains");
  const std::shared_ptr<comm::Group> group = session.collective([&] { return session.group()->duplicate(); });
  parallel::Join join(models, group, options);
  loop();
  session.collective([&] {
    join.finish();
    if (const auto source = join.source()) copy_items(*group, *source, items, others);
  });
}

}  // namespace paceline::train
