// libcurl, loaded when this process first talks to a server: linked, it and the thirty libraries that it brings would
// be loaded at each start of a driver, of a worker and of the command line, nearly all of which talk to none.
#pragma once

#include <arrow/result.h>
#include <curl/curl.h>

namespace paceline {

/// Its functions that Paceline calls.
struct Curl {
  decltype(&curl_easy_init) easy_init;
  decltype(&curl_easy_cleanup) easy_cleanup;
  decltype(&curl_easy_reset) easy_reset;
  decltype(&curl_easy_setopt) easy_setopt;
  decltype(&curl_easy_perform) easy_perform;
  decltype(&curl_easy_getinfo) easy_getinfo;
  decltype(&curl_easy_send) easy_send;
  decltype(&curl_easy_recv) easy_recv;
  decltype(&curl_easy_strerror) easy_strerror;
  decltype(&curl_easy_escape) easy_escape;
  decltype(&curl_free) free;
  decltype(&curl_slist_append) slist_append;
  decltype(&curl_slist_free_all) slist_free_all;

  /// Loaded by the first call, from then on the same. Thread-safe. Invalid where it is not installed, with what to do.
  static const arrow::Result<Curl>& load();
};

}  // namespace paceline
