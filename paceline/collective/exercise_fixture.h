// Exercise: one call of any collective, with its memory and what has to come out, for tests.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "paceline/collective/group.h"

namespace paceline::collective {

/// What rank `rank` gives at place `i`.
inline int64_t given(int rank, size_t i) {
  return 1000 * (rank + 1) + static_cast<int64_t>(i % 977);
}

class Exercise {
 public:
  /// `count`: values of a rank or, where each rank has a part, of a part. `in_arena`: the memory is the arena's.
  Exercise(const SharedGroup& group, Kind kind, size_t count, int root, bool in_arena)
      : kind_(kind),
        count_(count),
        root_(root),
        rank_(group.rank()),
        ranks_(group.size()),
        arena_(in_arena ? group.arena() : nullptr) {
    const auto all = static_cast<size_t>(ranks_);
    const bool is_root = rank_ == root_;
    const bool has_parts = kind == Kind::scatter || kind == Kind::reduce_scatter || kind == Kind::all_to_all;
    const bool gets_all = kind == Kind::all_gather || kind == Kind::all_to_all || (kind == Kind::gather && is_root);
    const bool gives = kind != Kind::barrier && ((kind != Kind::broadcast && kind != Kind::scatter) || is_root);
    if (gives) {
      const size_t values = has_parts ? all * count : count;
      input_ = memory(values);
      for (size_t i = 0; i < values; ++i) input_[i] = given(rank_, i);
    }
    if (kind == Kind::all_reduce || (kind == Kind::reduce && is_root)) {
      outputs_.push_back(input_);
    } else if (gets_all) {
      for (size_t i = 0; i < all; ++i) outputs_.push_back(memory(count));
    } else if (kind == Kind::scatter || kind == Kind::reduce_scatter || (kind == Kind::broadcast && !is_root)) {
      outputs_.push_back(memory(count));
    }
  }
  ~Exercise() {
    for (void* const block : blocks_) arena_->free(block);
  }
  Exercise(const Exercise&) = delete;
  Exercise& operator=(const Exercise&) = delete;

  /// Of `exercise`, which lives as long as the call.
  static Request request(const std::shared_ptr<Exercise>& exercise, std::chrono::milliseconds timeout) {
    const Exercise& own = *exercise;
    const bool has_root = own.kind_ == Kind::reduce || own.kind_ == Kind::broadcast || own.kind_ == Kind::gather ||
                          own.kind_ == Kind::scatter;
    Request request{.kind = own.kind_,
                    .what = {.element = Element::int64},
                    .root = has_root ? own.root_ : -1,
                    .elements = own.kind_ == Kind::barrier || own.kind_ == Kind::all_to_all ? 0 : own.count_,
                    .input = own.input_,
                    .timeout = timeout,
                    .keeps = exercise};
    request.outputs.assign(own.outputs_.begin(), own.outputs_.end());
    if (own.kind_ == Kind::all_to_all) {
      request.sends.assign(static_cast<size_t>(own.ranks_), own.count_ * sizeof(int64_t));
      request.receives = request.sends;
    }
    return request;
  }

  /// Whether what has come is right.
  bool is_right() const {
    for (size_t part = 0; part < outputs_.size(); ++part) {
      for (size_t i = 0; i < count_; ++i) {
        if (outputs_[part][i] != wanted(static_cast<int>(part), i)) return false;
      }
    }
    return true;
  }

 private:
  int64_t wanted(int part, size_t i) const {
    const size_t of_own_part = static_cast<size_t>(rank_) * count_ + i;
    switch (kind_) {
      case Kind::all_reduce:
      case Kind::reduce:
        return sum(i);
      case Kind::reduce_scatter:
        return sum(of_own_part);
      case Kind::broadcast:
        return given(root_, i);
      case Kind::scatter:
        return given(root_, of_own_part);
      case Kind::all_to_all:
        return given(part, of_own_part);
      default:
        return given(part, i);
    }
  }

  int64_t sum(size_t i) const {
    int64_t sum = 0;
    for (int rank = 0; rank < ranks_; ++rank) sum += given(rank, i);
    return sum;
  }

  int64_t* memory(size_t values) {
    if (arena_ == nullptr) return heap_.emplace_back(values).data();
    blocks_.push_back(arena_->allocate(values * sizeof(int64_t)).ValueOrDie());
    return static_cast<int64_t*>(blocks_.back());
  }

  const Kind kind_;
  const size_t count_;
  const int root_, rank_, ranks_;
  const std::shared_ptr<Arena> arena_;
  std::vector<std::vector<int64_t>> heap_;
  std::vector<void*> blocks_;
  int64_t* input_ = nullptr;
  std::vector<int64_t*> outputs_;
};

}  // namespace paceline::collective
