#include "paceline/core/sha256.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "paceline/core/posix/descriptor.h"

namespace paceline {
namespace {

// Looked up in libcrypto itself: Arrow's libparquet exports some functions of an OpenSSL of its own, and a program that
// links both calls a mixture of the two.
struct Functions {
  decltype(&::EVP_MD_CTX_new) make = nullptr;
  decltype(&::EVP_MD_CTX_free) free = nullptr;
  decltype(&::EVP_DigestInit_ex) begin = nullptr;
  decltype(&::EVP_DigestUpdate) add = nullptr;
  decltype(&::EVP_DigestFinal_ex) end = nullptr;
  decltype(&::EVP_sha256) kind = nullptr;
};

arrow::Result<Functions> load() {
  constexpr const char* kLibrary = "libcrypto.so.3";
  void* const library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return arrow::Status::IOError("OpenSSL 3 cannot be loaded: ", ::dlerror());
  Functions functions;
  const char* missing = nullptr;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
    if (function == nullptr) missing = name;
  };
  find(functions.make, "EVP_MD_CTX_new");
  find(functions.free, "EVP_MD_CTX_free");
  find(functions.begin, "EVP_DigestInit_ex");
  find(functions.add, "EVP_DigestUpdate");
  find(functions.end, "EVP_DigestFinal_ex");
  find(functions.kind, "EVP_sha256");
  if (missing != nullptr) return arrow::Status::IOError(kLibrary, " has no function ", missing);
  return functions;
}

const arrow::Result<Functions>& functions() {
  static const auto* const loaded = new arrow::Result<Functions>(load());
  return *loaded;
}

}  // namespace

struct Sha256::State {
  State() : context(functions()->make()) { functions()->begin(context, functions()->kind(), nullptr); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { functions()->free(context); }

  EVP_MD_CTX* const context;
};

Sha256::Sha256(std::unique_ptr<State> state) : state_(std::move(state)) {}
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;
Sha256::~Sha256() = default;

arrow::Result<Sha256> Sha256::begin() {
  ARROW_RETURN_NOT_OK(functions().status());
  return Sha256(std::make_unique<State>());
}

void Sha256::add(std::string_view bytes) {
  functions()->add(state_->context, bytes.data(), bytes.size());
}

std::string Sha256::hex() {
  std::array<unsigned char, 32> digest{};
  functions()->end(state_->context, digest.data(), nullptr);
  std::string hex;
  for (const unsigned char byte : digest) {
    constexpr const char* kDigits = "0123456789abcdef";
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  return hex;
}

arrow::Result<std::string> sha256_of(std::string_view bytes) {
  ARROW_ASSIGN_OR_RAISE(Sha256 sum, Sha256::begin());
  sum.add(bytes);
  return sum.hex();
}

arrow::Result<std::string> sha256_of_file(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return errno_status("cannot open " + path);
  ARROW_ASSIGN_OR_RAISE(Sha256 sum, Sha256::begin());
  std::vector<char> portion(size_t{1} << 20);
  while (true) {
    const ssize_t size = ::read(file.get(), portion.data(), portion.size());
    if (size < 0) return errno_status("cannot read " + path);
    if (size == 0) return sum.hex();
    sum.add({portion.data(), static_cast<size_t>(size)});
  }
}

bool is_sha256(std::string_view text) {
  return text.size() == 64 &&
         std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

}  // namespace paceline
