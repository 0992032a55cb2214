#include <dlfcn.h>

#include "paceline/core/crypto_library.h"
#include "paceline/transport/crypto_internal.h"

namespace paceline::transport {
namespace {

arrow::Result<Crypto> load() {
  ARROW_ASSIGN_OR_RAISE(void* const library, crypto_library());
  Crypto functions;
  const char* missing = nullptr;
#define PACELINE_FIND_CRYPTO_(name)                                                     \
  functions.name = reinterpret_cast<decltype(functions.name)>(::dlsym(library, #name)); \
  if (functions.name == nullptr) missing = #name;
  PACELINE_CRYPTO_FUNCTIONS(PACELINE_FIND_CRYPTO_)
#undef PACELINE_FIND_CRYPTO_
  if (missing != nullptr) return arrow::Status::IOError("libcrypto has no function ", missing);
  return functions;
}

}  // namespace

const arrow::Result<Crypto>& crypto() {
  static const auto* const loaded = new arrow::Result<Crypto>(load());
  return *loaded;
}

}  // namespace paceline::transport
