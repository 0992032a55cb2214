#include "paceline/core/crypto_library.h"

#include <dlfcn.h>

namespace paceline {
namespace {

// The sanitizers' own functions have to come first.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kFlags = RTLD_NOW | RTLD_LOCAL;
#else
constexpr int kFlags = RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND;
#endif

}  // namespace

arrow::Result<void*> crypto_library() {
  static void* const library = ::dlopen("libcrypto.so.3", kFlags);
  if (library == nullptr) return arrow::Status::IOError("OpenSSL 3 (libcrypto.so.3) cannot be loaded");
  return library;
}

}  // namespace paceline
