#include "paceline/core/http/http_client.h"

#include <utility>

#include "paceline/core/http/curl_internal.h"

namespace paceline {
namespace {

constexpr long kConnectSeconds = 5;

size_t take(const char* bytes, size_t size, size_t count, void* text) {
  static_cast<std::string*>(text)->append(bytes, size * count);
  return size * count;
}

// curl asks at least once a second.
int is_abandoned(void* token, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return static_cast<std::stop_token*>(token)->stop_requested() ? 1 : 0;
}

std::string without_password(const std::string& address) {
  const size_t scheme = address.find("://");
  const size_t begin = scheme == std::string::npos ? 0 : scheme + 3;
  const size_t at = address.substr(0, address.find('/', begin)).rfind('@');
  return at == std::string::npos || at < begin ? address : address.substr(0, begin) + address.substr(at + 1);
}

}  // namespace

struct HttpClient::Handle {
  explicit Handle(const Curl& functions) : curl(functions) {}
  Handle(const Handle&) = delete;
  ~Handle() {
    curl.slist_free_all(headers);
    curl.easy_cleanup(easy);
  }

  const Curl& curl;
  CURL* easy = curl.easy_init();
  curl_slist* headers = nullptr;
};

HttpClient::HttpClient(Options options) : options_(std::move(options)) {
  std::string& base = options_.base;
  while (!base.empty() && base.back() == '/') base.pop_back();
  name_ = without_password(base);
  const auto& curl = Curl::load();
  if (!curl.ok()) return;  // requests say so
  handle_ = std::make_unique<Handle>(*curl);
  for (const std::string& line : options_.headers) {
    handle_->headers = curl->slist_append(handle_->headers, line.c_str());
  }
}

HttpClient::~HttpClient() = default;

std::string HttpClient::escaped(const std::string& text) const {
  if (!handle_) return text;
  char* const escaped = handle_->curl.easy_escape(handle_->easy, text.data(), static_cast<int>(text.size()));
  const std::string result = escaped == nullptr ? "" : escaped;
  handle_->curl.free(escaped);
  return result;
}

arrow::Result<HttpAnswer> HttpClient::request(const HttpRequest& request) {
  if (!handle_) return Curl::load().status();
  const Curl& curl = handle_->curl;
  CURL* const easy = handle_->easy;
  curl.easy_reset(easy);  // keeps the connection
  const std::string url = options_.base + "/" + request.path;
  HttpAnswer answer;
  char reason[CURL_ERROR_SIZE] = "";
  curl.easy_setopt(easy, CURLOPT_URL, url.c_str());
  curl.easy_setopt(easy, CURLOPT_HTTPHEADER, handle_->headers);
  curl.easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);  // signals are the user's
  curl.easy_setopt(easy, CURLOPT_NETRC, static_cast<long>(CURL_NETRC_OPTIONAL));
  curl.easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
  curl.easy_setopt(easy, CURLOPT_TIMEOUT, static_cast<long>(request.patience.count()));
  curl.easy_setopt(easy, CURLOPT_FOLLOWLOCATION, options_.follows_redirects ? 1L : 0L);
  curl.easy_setopt(easy, CURLOPT_POSTREDIR, static_cast<long>(CURL_REDIR_POST_ALL));
  curl.easy_setopt(easy, CURLOPT_ERRORBUFFER, reason);
  curl.easy_setopt(easy, CURLOPT_WRITEFUNCTION, take);
  curl.easy_setopt(easy, CURLOPT_WRITEDATA, &answer.body);
  curl.easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
  curl.easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, is_abandoned);
  curl.easy_setopt(easy, CURLOPT_XFERINFODATA, &options_.abandoned);
  if (!options_.password.empty()) curl.easy_setopt(easy, CURLOPT_USERPWD, options_.password.c_str());
  if (request.method != "GET") {
    curl.easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    curl.easy_setopt(easy, CURLOPT_POSTFIELDS, request.body.empty() ? "" : request.body.data());
    if (request.method != "POST") curl.easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  }
  const CURLcode done = curl.easy_perform(easy);
  if (done != CURLE_OK) {
    const std::string why = *reason != '\0' ? reason : curl.easy_strerror(done);
    if (done == CURLE_URL_MALFORMAT || done == CURLE_UNSUPPORTED_PROTOCOL) {
      return arrow::Status::Invalid(name_, ": ", why);
    }
    return arrow::Status::IOError(name_, ": ", why);
  }
  long code = 0;
  curl.easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &code);
  answer.code = code;
  return answer;
}

}  // namespace paceline
