// SHA-256 of bytes and files, by OpenSSL's libcrypto.
#pragma once

#include <arrow/result.h>

#include <memory>
#include <string>
#include <string_view>

namespace paceline {

/// The sum of bytes that come one after the other. One thread at a time.
///
///     ARROW_ASSIGN_OR_RAISE(Sha256 sum, Sha256::begin());
///     sum.add("ab"); sum.add("c");
///     sum.hex();  // "ba7816bf…", of "abc"
class Sha256 {
 public:
  /// IOError where libcrypto.so.3 is not there.
  static arrow::Result<Sha256> begin();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  ~Sha256();

  void add(std::string_view bytes);
  /// 64 lower-case hexadecimal digits, once: nothing may be added after it.
  std::string hex();

 private:
  struct State;
  explicit Sha256(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Of all bytes, as Sha256::hex() gives it.
arrow::Result<std::string> sha256_of(std::string_view bytes);
/// Of what is in the file. IOError names it.
arrow::Result<std::string> sha256_of_file(const std::string& path);
/// Whether the text may be such a sum: 64 lower-case hexadecimal digits.
bool is_sha256(std::string_view text);

}  // namespace paceline
