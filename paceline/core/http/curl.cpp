#include <dlfcn.h>

#include <type_traits>

#include "paceline/core/http/curl_internal.h"

namespace paceline {
namespace {

constexpr const char* kFile = "libcurl.so.4";

arrow::Result<Curl> find_functions() {
  void* const library = ::dlopen(kFile, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return arrow::Status::Invalid("talking to a server needs libcurl, which cannot be loaded (", ::dlerror(),
                                  "); install it (Debian and Ubuntu: apt install libcurl4)");
  }
  Curl curl{};
  decltype(&curl_global_init) global_init = nullptr;
  const char* missing = nullptr;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
    if (function == nullptr) missing = name;
  };
  find(global_init, "curl_global_init");
  find(curl.easy_init, "curl_easy_init");
  find(curl.easy_cleanup, "curl_easy_cleanup");
  find(curl.easy_reset, "curl_easy_reset");
  find(curl.easy_setopt, "curl_easy_setopt");
  find(curl.easy_perform, "curl_easy_perform");
  find(curl.easy_getinfo, "curl_easy_getinfo");
  find(curl.easy_send, "curl_easy_send");
  find(curl.easy_recv, "curl_easy_recv");
  find(curl.easy_strerror, "curl_easy_strerror");
  find(curl.easy_escape, "curl_easy_escape");
  find(curl.free, "curl_free");
  find(curl.slist_append, "curl_slist_append");
  find(curl.slist_free_all, "curl_slist_free_all");
  if (missing != nullptr) return arrow::Status::Invalid(kFile, " is not libcurl: it has no function ", missing);
  if (global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) return arrow::Status::Invalid(kFile, " does not start");
  return curl;
}

}  // namespace

const arrow::Result<Curl>& Curl::load() {
  static const arrow::Result<Curl> curl = find_functions();
  return curl;
}

}  // namespace paceline
