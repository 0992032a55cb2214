#include "paceline/track/tracker/curl_internal.h"
#include "paceline/track/tracker/http_internal.h"

namespace paceline::track {
namespace {

constexpr long kConnectSeconds = 5;
constexpr long kRequestSeconds = 30;
// What an error message shows of an answer that is not MLflow's JSON, such as a proxy's page.
constexpr size_t kMostShown = 300;

size_t take(const char* bytes, size_t size, size_t count, void* text) {
  static_cast<std::string*>(text)->append(bytes, size * count);
  return size * count;
}

// curl asks at least once a second.
int is_abandoned(void* token, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return static_cast<std::stop_token*>(token)->stop_requested() ? 1 : 0;
}

std::string words_of(const std::string& answer) {
  const Json json = decode_json(answer).ValueOr(Json());
  if (json.is_object() && json.contains("message") && json["message"].is_string()) return json["message"];
  return answer.substr(0, kMostShown);
}

bool may_pass(long code) {
  return code == 408 || code == 429 || code >= 500;
}

}  // namespace

struct HttpClient::Handle {
  explicit Handle(const Curl& functions) : curl(functions) {}
  Handle(const Handle&) = delete;
  ~Handle() {
    curl.slist_free_all(headers);
    curl.easy_cleanup(easy);
  }
  void add_header(const std::string& line) { headers = curl.slist_append(headers, line.c_str()); }

  const Curl& curl;
  CURL* easy = curl.easy_init();
  curl_slist* headers = nullptr;
};

HttpClient::HttpClient(std::string base, const std::string& token, std::string password, std::stop_token abandoned)
    : base_(std::move(base)), password_(token.empty() ? std::move(password) : ""), abandoned_(std::move(abandoned)) {
  while (!base_.empty() && base_.back() == '/') base_.pop_back();
  const auto& curl = Curl::load();
  if (!curl.ok()) return;  // requests say so
  handle_ = std::make_unique<Handle>(*curl);
  handle_->add_header("Content-Type: application/json");
  if (!token.empty()) handle_->add_header("Authorization: Bearer " + token);
}

HttpClient::~HttpClient() = default;

arrow::Result<Json> HttpClient::get(const std::string& path) {
  return request(path, nullptr);
}

arrow::Result<Json> HttpClient::post(const std::string& path, const Json& body) {
  const std::string text = body.dump(-1, ' ', false, Json::error_handler_t::replace);
  return request(path, &text);
}

std::string HttpClient::escaped(const std::string& text) const {
  if (!handle_) return text;
  char* const escaped = handle_->curl.easy_escape(handle_->easy, text.data(), static_cast<int>(text.size()));
  const std::string result = escaped == nullptr ? "" : escaped;
  handle_->curl.free(escaped);
  return result;
}

arrow::Result<Json> HttpClient::request(const std::string& path, const std::string* body) {
  if (!handle_) return Curl::load().status();
  const Curl& curl = handle_->curl;
  CURL* const easy = handle_->easy;
  curl.easy_reset(easy);  // keeps the connection
  const std::string url = base_ + "/" + path;
  std::string answer;
  char reason[CURL_ERROR_SIZE] = "";
  curl.easy_setopt(easy, CURLOPT_URL, url.c_str());
  curl.easy_setopt(easy, CURLOPT_HTTPHEADER, handle_->headers);
  curl.easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);  // signals are the user's
  curl.easy_setopt(easy, CURLOPT_NETRC, static_cast<long>(CURL_NETRC_OPTIONAL));
  curl.easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
  curl.easy_setopt(easy, CURLOPT_TIMEOUT, kRequestSeconds);
  curl.easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 1L);
  curl.easy_setopt(easy, CURLOPT_POSTREDIR, static_cast<long>(CURL_REDIR_POST_ALL));
  curl.easy_setopt(easy, CURLOPT_ERRORBUFFER, reason);
  curl.easy_setopt(easy, CURLOPT_WRITEFUNCTION, take);
  curl.easy_setopt(easy, CURLOPT_WRITEDATA, &answer);
  curl.easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
  curl.easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, is_abandoned);
  curl.easy_setopt(easy, CURLOPT_XFERINFODATA, &abandoned_);
  if (!password_.empty()) curl.easy_setopt(easy, CURLOPT_USERPWD, password_.c_str());
  if (body != nullptr) {
    curl.easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body->size()));
    curl.easy_setopt(easy, CURLOPT_POSTFIELDS, body->c_str());
  }
  const CURLcode done = curl.easy_perform(easy);
  if (done != CURLE_OK) {
    const std::string why = *reason != '\0' ? reason : curl.easy_strerror(done);
    if (done == CURLE_URL_MALFORMAT || done == CURLE_UNSUPPORTED_PROTOCOL) {
      return arrow::Status::Invalid(base_, ": ", why);
    }
    return arrow::Status::IOError(base_, ": ", why);
  }
  long code = 0;
  curl.easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &code);
  if (code == 200) {
    ARROW_ASSIGN_OR_RAISE(Json json, decode_json(answer.empty() ? "{}" : answer));
    return json;
  }
  const std::string text =
      base_ + " answered " + std::to_string(code) + " to " + path.substr(0, path.find('?')) + ": " + words_of(answer);
  if (may_pass(code)) return arrow::Status::IOError(text);
  return code == 404 ? arrow::Status::KeyError(text) : arrow::Status::Invalid(text);
}

}  // namespace paceline::track
