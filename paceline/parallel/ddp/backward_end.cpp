#include "paceline/parallel/ddp/backward_end.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>

#include <exception>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace paceline::parallel {
namespace {

using torch::autograd::Engine;

class BackwardEnd final : public std::enable_shared_from_this<BackwardEnd> {
 public:
  void add(int64_t place, std::shared_ptr<EndOfModel> end) {
    const std::lock_guard lock(mutex_);
    models_[place] = std::move(end);
  }

  void begin() {
    for (const auto& [place, model] : models_) model->begin();
    announce();
    for (const auto& [place, model] : models_) model->catch_up();
    // The reducers' own callbacks stand in the queue by now; they wait for the averages.
    Engine::get_default_engine().queue_callback([self = shared_from_this()] {
      std::exception_ptr first;
      for (const auto& [place, model] : self->models_) {
        try {
          model->finish();
        } catch (...) {
          if (first == nullptr) first = std::current_exception();
        }
      }
      if (first != nullptr) std::rethrow_exception(first);
      for (const auto& [ranks, numbers] : self->joined_) ranks->conclude();
    });
  }

 private:
  void announce() {
    for (const auto& [place, model] : models_) {
      const auto [ranks, number] = model->join();
      if (ranks == nullptr) continue;
      if (joined_.empty() || joined_.back().first != ranks) joined_.emplace_back(ranks, std::vector<size_t>());
      joined_.back().second.push_back(number);
    }
    for (const auto& [ranks, numbers] : joined_) ranks->announce(numbers);
  }

  std::mutex mutex_;  // a backward over several devices has a thread for each
  std::map<int64_t, std::shared_ptr<EndOfModel>> models_;
  std::vector<std::pair<std::shared_ptr<JoinedRanks>, std::vector<size_t>>> joined_;
};

// Those that are under way, by autograd's number of the backward.
struct Ends {
  std::mutex mutex;
  std::unordered_map<int, std::weak_ptr<BackwardEnd>> by_task;
};

Ends& ends() {
  static auto* const instance = new Ends;  // threads of autograd may outlive every other static
  return *instance;
}

}  // namespace

void end_backward_with(int64_t place, std::shared_ptr<EndOfModel> end) {
  std::shared_ptr<BackwardEnd> backward;
  {
    const std::lock_guard lock(ends().mutex);
    std::erase_if(ends().by_task, [](const auto& entry) { return entry.second.expired(); });
    auto& known = ends().by_task[torch::autograd::get_current_graph_task_id()];
    backward = known.lock();
    if (backward == nullptr) {
      known = backward = std::make_shared<BackwardEnd>();
      Engine::get_default_engine().queue_callback([backward] { backward->begin(); });
    }
  }
  backward->add(place, std::move(end));
}

}  // namespace paceline::parallel
