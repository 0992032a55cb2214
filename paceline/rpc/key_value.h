// KeyValueClient: the operations of c10d's Store, without LibTorch.
//
// Keys are seen by one generation of one attempt only. Values are bytes. Thread-safe; get and wait block.
// Errors: IOError when the connection is gone or the generation is over, Cancelled when the wait timed out (the message
// names the missing keys), Invalid when the operation does not fit the value. A timeout of 0 or less does not wait.
// Implementations: key_value_client.h over any carrier of envelopes, memory_key_value.h in one process (the reference).
#pragma once

#include <arrow/result.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace paceline::rpc {

class KeyValueClient {
 public:
  using Timeout = std::chrono::milliseconds;

  virtual ~KeyValueClient() = default;

  virtual arrow::Status set(const std::string& key, const std::string& value) = 0;
  /// Waits for the key, then gives its value.
  virtual arrow::Result<std::string> get(const std::string& key, Timeout timeout) = 0;
  /// Adds to the decimal number at `key` (absent is 0) and gives the sum.
  virtual arrow::Result<int64_t> add(const std::string& key, int64_t amount) = 0;
  /// Sets `desired` if the value is `expected` (or the key is absent and `expected` is empty); gives the value now, and
  /// `expected` where the key is absent still: c10d's stores do so.
  virtual arrow::Result<std::string> compare_set(const std::string& key, const std::string& expected,
                                                 const std::string& desired) = 0;
  virtual arrow::Status append(const std::string& key, const std::string& value) = 0;
  /// Whether all keys exist now.
  virtual arrow::Result<bool> check(const std::vector<std::string>& keys) = 0;
  virtual arrow::Status wait(const std::vector<std::string>& keys, Timeout timeout) = 0;
  /// Whether the key was there.
  virtual arrow::Result<bool> delete_key(const std::string& key) = 0;
  virtual arrow::Result<int64_t> num_keys() = 0;
};

}  // namespace paceline::rpc
