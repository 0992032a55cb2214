#include <dlfcn.h>

#include "paceline/transport/crypto_internal.h"

namespace paceline::transport {
namespace {

arrow::Result<Crypto> load() {
  constexpr const char* kLibrary = "libcrypto.so.3";
  void* const library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return arrow::Status::IOError("OpenSSL 3 cannot be loaded: ", ::dlerror());
  Crypto functions;
  const char* missing = nullptr;
#define PACELINE_FIND_CRYPTO_(name)                                                     \
  functions.name = reinterpret_cast<decltype(functions.name)>(::dlsym(library, #name)); \
  if (functions.name == nullptr) missing = #name;
  PACELINE_CRYPTO_FUNCTIONS(PACELINE_FIND_CRYPTO_)
#undef PACELINE_FIND_CRYPTO_
  if (missing != nullptr) return arrow::Status::IOError(kLibrary, " has no function ", missing);
  return functions;
}

}  // namespace

const arrow::Result<Crypto>& crypto() {
  static const auto* const loaded = new arrow::Result<Crypto>(load());
  return *loaded;
}

}  // namespace paceline::transport
