#include "paceline/storage/secrets.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "paceline/storage/location.h"

namespace paceline::storage {
namespace {

constexpr std::string_view kHidden = "…";
// Of a token: "<pad>" and "[MASK]" are tokens too.
constexpr size_t kShortestToken = 8;

bool is_word(char letter) {
  return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_' || letter == '-' || letter == '.';
}

bool ends_text(char letter) {
  constexpr std::string_view kEnds = " \t\r\n\"'`,;|<>(){}";
  return kEnds.find(letter) != std::string_view::npos;
}

// "--HF-Token" → "hftoken".
std::string plain(std::string_view name) {
  std::string letters;
  for (const char letter : name) {
    const auto byte = static_cast<unsigned char>(letter);
    if (std::isalnum(byte) != 0) letters += static_cast<char>(std::tolower(byte));
  }
  return letters;
}

bool is_secret(std::string_view name, std::string_view value) {
  constexpr std::array kAnywhere = {"secret",    "password",   "passwd",    "passphrase", "credential", "apikey",
                                    "accesskey", "accountkey", "sharedkey", "privatekey", "authtoken",  "accesstoken"};
  constexpr std::array kAtTheEnd = {"token", "pwd"};
  const std::string letters = plain(name);
  const auto is_in = [&](const char* word) { return letters.find(word) != std::string::npos; };
  if (std::ranges::any_of(kAnywhere, is_in)) return true;
  const auto is_last = [&](const char* word) { return letters.ends_with(word); };
  return std::ranges::any_of(kAtTheEnd, is_last) && value.size() >= kShortestToken && !value.starts_with('<') &&
         !value.starts_with('[');
}

// A URI whose scheme begins at `begin`: to its end, or to that of the text if all of it is one. A key may have any
// letter.
size_t end_of_uri(std::string_view text, size_t begin) {
  size_t end = begin;
  while (end < text.size() && !ends_text(text[end])) ++end;
  return end;
}

std::string shown_uri(std::string_view uri) {
  std::string shown = Location(uri).text();
  if (!uri.starts_with("http://") && !uri.starts_with("https://")) return shown;
  const size_t begin = shown.find("://") + 3;
  const size_t at = shown.substr(0, shown.find('/', begin)).rfind('@');
  if (at != std::string::npos) shown.replace(begin, at - begin, kHidden);
  return shown;
}

std::string without_keys_of_uris(std::string_view text) {
  std::string shown;
  size_t taken = 0;
  for (size_t at = text.find("://"); at != std::string_view::npos; at = text.find("://", std::max(at + 3, taken))) {
    size_t begin = at;
    while (begin > taken && (is_word(text[begin - 1]) || text[begin - 1] == '+')) --begin;
    const size_t end = end_of_uri(text, begin);
    shown += text.substr(taken, begin - taken);
    shown += shown_uri(text.substr(begin, end - begin));
    taken = end;
  }
  return shown.append(text.substr(taken));
}

// `password=…`, `?token=…`, `Pwd=…;`.
std::string without_named_values(std::string_view text) {
  std::string shown;
  size_t taken = 0;
  for (size_t equals = text.find('='); equals != std::string_view::npos; equals = text.find('=', equals + 1)) {
    if (equals < taken) continue;
    size_t begin = equals;
    while (begin > taken && is_word(text[begin - 1])) --begin;
    size_t value = equals + 1;
    if (value < text.size() && (text[value] == '"' || text[value] == '\'')) ++value;
    size_t end = value;
    while (end < text.size() && !ends_text(text[end]) && text[end] != '&') ++end;
    if (end == value || !is_secret(text.substr(begin, equals - begin), text.substr(value, end - value))) continue;
    shown += text.substr(taken, value - taken);
    shown += kHidden;
    taken = end;
  }
  return shown.append(text.substr(taken));
}

std::string without_bearers(std::string text) {
  constexpr std::string_view kScheme = "Bearer ";
  for (size_t at = text.find(kScheme); at != std::string::npos; at = text.find(kScheme, at + 1)) {
    const size_t begin = at + kScheme.size();
    const size_t end = end_of_uri(text, begin);
    if (end > begin) text.replace(begin, end - begin, kHidden);
  }
  return text;
}

bool is_named_secret(std::string_view name, const Json& value) {
  return value.is_string() && !value.get_ref<const std::string&>().empty() &&
         is_secret(name, value.get_ref<const std::string&>());
}

}  // namespace

std::string without_secrets(std::string_view text) {
  const bool is_uri = text.find("://") != std::string_view::npos && text.find_first_of(" \t\r\n,") == text.npos &&
                      std::ranges::all_of(text.substr(0, text.find("://")), is_word);
  return without_bearers(without_named_values(is_uri ? shown_uri(text) : without_keys_of_uris(text)));
}

Json without_secrets(const Json& value) {
  if (value.is_string()) return without_secrets(std::string_view(value.get_ref<const std::string&>()));
  if (value.is_object()) {
    Json shown = Json::object();
    for (const auto& [name, member] : value.items()) {
      shown[without_secrets(std::string_view(name))] =
          is_named_secret(name, member) ? Json(kHidden) : without_secrets(member);
    }
    return shown;
  }
  if (!value.is_array()) return value;
  Json shown = Json::array();
  std::string_view flag;  // before this one
  for (const Json& element : value) {
    shown.push_back(!flag.empty() && is_named_secret(flag, element) ? Json(kHidden) : without_secrets(element));
    flag = {};
    if (!element.is_string()) continue;
    const auto& text = element.get_ref<const std::string&>();
    if (text.starts_with('-') && text.find('=') == text.npos) flag = text;
  }
  return shown;
}

}  // namespace paceline::storage
