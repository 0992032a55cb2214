// Connections by which other processes hear of this one's end, and what becomes of them in its forks.
//
// A fork has its parent's descriptors: one that outlives its parent would hide the end from the others. So it closes
// them as it begins. Any thread may use it.
#pragma once

#include <mutex>
#include <vector>

namespace paceline {

class ConnectionsOfForks {
 public:
  static ConnectionsOfForks& instance();
  /// Forks close `descriptor` from now on. Whoever closes it here removes it before.
  void add(int descriptor);
  void remove(int descriptor);

 private:
  ConnectionsOfForks();

  std::mutex mutex_;
  std::vector<int> descriptors_;
};

}  // namespace paceline
