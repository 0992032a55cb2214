// Chain: preprocessors one after the other.
//
// A value; copies share its parts, and so learn together. Threading and errors are those of Preprocessor.
#pragma once

#include <concepts>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "paceline/data/preprocessor/preprocessor.h"

namespace paceline::data::preprocessors {

/// Each learns from what those before it make. stats() is empty: two may have learnt something of one name, so ask each
/// of preprocessors().
///
///     Chain chain(SimpleImputer({"x", "y"}), StandardScaler({"x", "y"}), Concatenator({"x", "y"}));
///     const Dataset train = chain.fit_transform(ds);
class Chain : public Preprocessor {
 public:
  /// Copies of these: fit() of the chain leaves the caller's as they are.
  template <std::derived_from<Preprocessor>... Parts>
    requires(sizeof...(Parts) > 1)
  explicit Chain(Parts... parts) : parts_{std::make_shared<Parts>(std::move(parts))...} {}
  /// Any number of them, which it shares with the caller: they learn with it. ConfigError for a null pointer.
  explicit Chain(std::vector<std::shared_ptr<Preprocessor>> parts);

  FitStatus fit_status() const override;
  Json state() const override;
  /// Of all parts; of none where it is no state of one of them.
  void load_state(const Json& state) override;
  void check_state(const Json& state) const override;
  /// Its parts, in their order.
  const std::vector<std::shared_ptr<Preprocessor>>& preprocessors() const { return parts_; }

 private:
  std::string name() const override { return "Chain"; }
  AggregateResults learn(const Dataset& dataset) override;
  Dataset made_of(const Dataset& dataset) const override;

  std::vector<std::shared_ptr<Preprocessor>> parts_;
};

}  // namespace paceline::data::preprocessors
