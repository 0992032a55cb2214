#include "paceline/data/preprocessor/chain.h"

#include "paceline/core/error.h"

namespace paceline::data::preprocessors {

Chain::Chain(std::vector<std::shared_ptr<Preprocessor>> parts) : parts_(std::move(parts)) {
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (parts_[i] == nullptr)
      throw ConfigError("Chain: the preprocessor at " + std::to_string(i) + " is a null pointer");
  }
}

FitStatus Chain::fit_status() const {
  FitStatus all = FitStatus::not_fittable;
  for (const auto& part : parts_) {
    const FitStatus one = part->fit_status();
    if (one == FitStatus::not_fittable || one == all) continue;
    all = all == FitStatus::not_fittable ? one : FitStatus::partially_fitted;
  }
  return all;
}

AggregateResults Chain::learn(const Dataset& dataset) {
  Dataset made = dataset;
  for (const auto& part : parts_) {
    part->fit(made);
    if (part != parts_.back()) made = part->transform(made);
  }
  return {};
}

Dataset Chain::made_of(const Dataset& dataset) const {
  Dataset made = dataset;
  for (const auto& part : parts_) made = part->transform(made);
  return made;
}

Json Chain::state() const {
  check_fitted();
  Json parts = Json::array();
  for (const auto& part : parts_) parts.push_back(part->state());
  return {{"name", name()}, {"parts", std::move(parts)}};
}

void Chain::load_state(const Json& state) {
  check_state(state);
  for (size_t i = 0; i < parts_.size(); ++i) parts_[i]->load_state(state["parts"][i]);
}

void Chain::check_state(const Json& state) const {
  const Json parts = state.is_object() && state.value("name", Json()) == name() ? state.value("parts", Json()) : Json();
  if (!parts.is_array() || parts.size() != parts_.size()) {
    throw ConfigError("this is no state of a Chain of " + std::to_string(parts_.size()) + " preprocessors");
  }
  for (size_t i = 0; i < parts_.size(); ++i) parts_[i]->check_state(parts[i]);
}

}  // namespace paceline::data::preprocessors
