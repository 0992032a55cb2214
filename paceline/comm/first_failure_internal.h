// FirstFailure: what has failed first in a group of several nodes, left in its store so that all ranks name the same.
//
// Within a node everybody sees who is missing. Between nodes a broken connection says less: there the word of who knows
// more is waited for, a moment only. Threading: any. Errors: none; without the store each rank says what it has seen.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <exception>
#include <string>

namespace c10d {
class Store;
}

namespace paceline::comm {

class FirstFailure {
 public:
  /// `store`: of this group alone, and of nobody who waits at it.
  FirstFailure(c10::intrusive_ptr<c10d::Store> store, int64_t rank, int64_t world_size);
  ~FirstFailure();
  FirstFailure(const FirstFailure&) = delete;
  FirstFailure& operator=(const FirstFailure&) = delete;

  /// What is thrown for `failure`: itself where it is the first, and else what the first was.
  std::exception_ptr agree(const std::exception_ptr& failure) const;

 private:
  std::exception_ptr as_told(const std::string& word) const;

  const c10::intrusive_ptr<c10d::Store> store_;
  const int64_t rank_;
  const int64_t world_size_;
};

}  // namespace paceline::comm
