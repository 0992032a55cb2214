// Occupation: what the controller's thread is in where that is the user's code, so that others can say who it is that
// everybody waits for.
//
// Threading: Scope on the controller's thread; text() on any.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <utility>

namespace paceline::controller {

class Occupation {
 public:
  using Clock = std::chrono::steady_clock;

  /// While it lives the thread is in what `name` says. It is called only when somebody asks, with the thread inside.
  class Scope {
   public:
    Scope(Occupation& occupation, std::function<std::string()> name) : occupation_(occupation) {
      occupation_.set(std::move(name));
    }
    ~Scope() { occupation_.set(nullptr); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Occupation& occupation_;
  };

  /// "callback Early::after_report, for 12 s"; "" when the thread is in nothing of the kind.
  std::string text() const {
    const std::lock_guard lock(mutex_);
    if (!name_) return "";
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - since_).count();
    return name_() + ", for " + std::to_string(seconds) + " s";
  }

 private:
  void set(std::function<std::string()> name) {
    const std::lock_guard lock(mutex_);
    name_ = std::move(name);
    since_ = Clock::now();
  }

  mutable std::mutex mutex_;
  std::function<std::string()> name_;
  Clock::time_point since_;
};

}  // namespace paceline::controller
