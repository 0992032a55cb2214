// progress(): a loader with a progress display. Only rank 0's is shown; other ranks iterate without one.
#pragma once

#include <chrono>
#include <string>
#include <utility>

namespace paceline {
namespace train {

/// Shows that `done` of `total` (0: nobody knows) steps are done, `rate` a second. Does nothing outside rank 0 of a
/// session.
void show_progress(const std::string& label, int64_t done, int64_t total, double rate);

/// Tells the terminal, at most five times a second and at the end. Does nothing outside rank 0 of a session.
class ProgressReporter {
 public:
  ProgressReporter(std::string label, int64_t total);
  void step();
  void finish();

 private:
  void show();

  std::string label_;
  int64_t total_;
  int64_t done_ = 0;
  bool shows_;
  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point shown_;
};

}  // namespace train

/// `loader` for one range-for loop, with progress shown as `label`. progress() makes it. The loader must outlive it.
template <class Loader>
class ProgressRange {
 public:
  /// Of the loader.
  using LoaderIterator = decltype(std::declval<Loader&>().begin());
  /// Of the loader.
  using LoaderSentinel = decltype(std::declval<Loader&>().end());

  class Iterator {
   public:
    Iterator(LoaderIterator iterator, train::ProgressReporter* reporter)
        : iterator_(std::move(iterator)), reporter_(reporter) {}
    decltype(auto) operator*() { return *iterator_; }
    Iterator& operator++() {
      ++iterator_;
      reporter_->step();
      return *this;
    }
    bool operator==(const LoaderSentinel& end) {
      if (iterator_ != end) return false;
      reporter_->finish();
      return true;
    }

   private:
    LoaderIterator iterator_;
    train::ProgressReporter* reporter_;
  };

  /// Use progress().
  ProgressRange(Loader& loader, std::string label) : loader_(loader), reporter_(std::move(label), loader.remaining()) {}
  /// Begins an iteration of the loader.
  Iterator begin() { return Iterator(loader_.begin(), &reporter_); }
  /// The loader's end.
  LoaderSentinel end() { return loader_.end(); }

 private:
  Loader& loader_;
  train::ProgressReporter reporter_;
};

/// Iterates over `loader` and shows rank 0's progress: steps, rate, time left.
///
///     for (auto& [images, labels] : paceline::progress(loader, "epoch 3")) …
template <class Loader>
ProgressRange<Loader> progress(Loader& loader, std::string label) {
  return ProgressRange<Loader>(loader, std::move(label));
}

}  // namespace paceline
