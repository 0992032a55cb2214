// Train loops and their names. A worker can be the driver's program executed again, so it finds its loop by name.
//
// A loop is a function at namespace scope: `void f()`, `void f(const Config&)`, or either of them returning Json; rank
// 0's value becomes Result::return_value. Loops are registered before main; afterwards the table is only read.
#pragma once

#include <string>
#include <type_traits>

#include "paceline/core/dictionary.h"

namespace paceline {

/// A train loop in any of the four forms. A function converts to it implicitly.
class TrainLoop {
 public:
  /// `void train_loop()`
  using Plain = void (*)();
  /// `void train_loop(const paceline::Config& config)`
  using WithConfig = void (*)(const Config&);
  /// `paceline::Json train_loop()`
  using Returning = Json (*)();
  /// `paceline::Json train_loop(const paceline::Config& config)`
  using ReturningWithConfig = Json (*)(const Config&);

  /// Whether a T is one of these.
  template <class T>
  static constexpr bool is_form =
      !std::is_class_v<std::remove_cvref_t<T>> &&
      (std::is_convertible_v<T, Plain> || std::is_convertible_v<T, WithConfig> || std::is_convertible_v<T, Returning> ||
       std::is_convertible_v<T, ReturningWithConfig>);

  /// Made implicitly: `TorchTrainer trainer(train_loop, …)`.
  TrainLoop(Plain function) noexcept;  // NOLINT: implicit
  /// Likewise.
  TrainLoop(WithConfig function) noexcept;  // NOLINT
  /// Likewise.
  TrainLoop(Returning function) noexcept;  // NOLINT
  /// Likewise.
  TrainLoop(ReturningWithConfig function) noexcept;  // NOLINT

  /// Anything else that can be called: the compiler refuses it, and says what a train loop is.
  template <class Callable>
    requires(!std::is_same_v<std::remove_cvref_t<Callable>, TrainLoop> && !is_form<Callable>)
  TrainLoop(Callable&&) noexcept {  // NOLINT: implicit
    using Given = std::remove_cvref_t<Callable>;
    static_assert(
        !std::is_class_v<Given>,
        "a train loop is a function at namespace scope, registered with PACELINE_TRAIN_LOOP(function): workers "
        "find it by its name, which a lambda or another object does not have");
    static_assert(std::is_class_v<Given>,
                  "a train loop is void f() or void f(const paceline::Config&), or either returning paceline::Json");
  }

  /// Calls the loop; returns null if the loop returns nothing.
  Json operator()(const Config& config) const { return call_(function_, config); }

  bool operator==(const TrainLoop& other) const { return function_ == other.function_; }

 private:
  using Function = void (*)();
  TrainLoop(Function function, Json (*call)(Function, const Config&)) noexcept : function_(function), call_(call) {}

  Function function_;
  Json (*call_)(Function, const Config&);
};

/// Registers `loop` as `name`. Throws ConfigError if another loop has that name.
void register_train_loop(const std::string& name, TrainLoop loop);
/// The name under which `loop` is registered. If there is none, throws UsageError, which says how to register it.
std::string train_loop_name(const TrainLoop& loop);
/// The loop registered as `name`. If there is none, throws UsageError, which lists the names.
TrainLoop find_train_loop(const std::string& name);

/// Registers a loop before main, where nothing could catch an error: an error ends the program with its text.
struct TrainLoopRegistration {
  TrainLoopRegistration(const char* name, TrainLoop loop) noexcept { register_train_loop(name, loop); }
};

}  // namespace paceline

/// Registers a train loop, at namespace scope: `PACELINE_TRAIN_LOOP(train_loop);`
#define PACELINE_TRAIN_LOOP(function) PACELINE_TRAIN_LOOP_AT_(function, __COUNTER__)
#define PACELINE_TRAIN_LOOP_AT_(function, number) PACELINE_TRAIN_LOOP_NAMED_(function, number)
#define PACELINE_TRAIN_LOOP_NAMED_(function, number) \
  [[maybe_unused]] static const ::paceline::TrainLoopRegistration paceline_train_loop_##number(#function, function)
