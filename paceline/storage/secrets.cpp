#include "paceline/storage/secrets.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <utility>

#include "paceline/storage/location.h"

namespace paceline::storage {
namespace {

constexpr std::string_view kHidden = "…";
// Of a token: "<pad>" and "[MASK]" are tokens too.
constexpr size_t kShortestToken = 8;

bool is_letter_or_digit(char letter) {
  return std::isalnum(static_cast<unsigned char>(letter)) != 0;
}

bool is_blank(char letter) {
  return std::isspace(static_cast<unsigned char>(letter)) != 0;
}

bool is_quote(char letter) {
  return letter == '"' || letter == '\'';
}

bool is_word(char letter) {
  return is_letter_or_digit(letter) || letter == '_' || letter == '-' || letter == '.';
}

char lower(char letter) {
  return static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
}

size_t end_of_word(std::string_view text, size_t begin) {
  while (begin < text.size() && is_word(text[begin])) ++begin;
  return begin;
}

size_t end_of_blanks(std::string_view text, size_t begin) {
  while (begin < text.size() && is_blank(text[begin])) ++begin;
  return begin;
}

// "--HF-Token" → "hftoken".
std::string plain(std::string_view name) {
  std::string letters;
  for (const char letter : name) {
    if (is_letter_or_digit(letter)) letters += lower(letter);
  }
  return letters;
}

// What a name says of its value.
enum class Secrecy {
  none,
  token,  // a key, or a word for a tokenizer
  path,   // "pwd": a password, or a folder
  part,   // the name of a secret is a part of it: "api_key_count", or "api_key_of_bucket"
  whole,
};

Secrecy secrecy(std::string_view name) {
  constexpr std::array kSecrets = {"secret",    "password",  "passwd",      "passphrase",      "credential",
                                   "apikey",    "accesskey", "accountkey",  "sharedkey",       "privatekey",
                                   "secretkey", "authtoken", "accesstoken", "accesssignature", "dbpass",
                                   "userpass",  "sshpass",   "smtppass"};
  constexpr std::array kTokenizers = {"pad",   "eos",   "bos",  "unk",   "mask", "sep",     "cls", "image",
                                      "video", "audio", "stop", "start", "end",  "special", "per"};
  std::string letters = plain(name);
  letters.resize(letters.find_last_not_of("0123456789") + 1);  // "hf_token_2"
  if (letters == "sig") return Secrecy::token;                 // of an address of Azure's
  if (letters.ends_with("authorization")) return Secrecy::whole;
  if (letters.ends_with("pwd")) return Secrecy::path;
  bool is_part = false;
  for (const std::string_view word : kSecrets) {
    const size_t at = letters.rfind(word);
    if (at == std::string::npos) continue;
    const size_t end = at + word.size();
    if (end == letters.size() || (end + 1 == letters.size() && letters[end] == 's')) return Secrecy::whole;
    is_part = true;
  }
  if (is_part) return Secrecy::part;
  if (letters.ends_with("tokens")) letters.pop_back();
  if (!letters.ends_with("token")) return Secrecy::none;
  letters.resize(letters.size() - std::string_view("token").size());
  const auto is_last = [&](const char* word) { return letters.ends_with(word); };
  return std::ranges::any_of(kTokenizers, is_last) ? Secrecy::none : Secrecy::token;
}

bool is_switch_or_number(std::string_view value) {
  constexpr std::array<std::string_view, 6> kSwitches = {"true", "false", "none", "null", "yes", "no"};
  if (value.find_first_not_of("0123456789.") == std::string_view::npos) return true;
  const auto is_same = [&](std::string_view word) { return std::ranges::equal(word, value, {}, {}, lower); };
  return std::ranges::any_of(kSwitches, is_same);
}

bool begins_secret(Secrecy secrecy, char first) {
  return !(secrecy == Secrecy::token && (first == '<' || first == '[')) &&
         !(secrecy == Secrecy::path && (first == '/' || first == '~'));
}

bool is_secret(Secrecy secrecy, std::string_view value) {
  if (value.empty() || value == kHidden || !begins_secret(secrecy, value[0])) return false;
  switch (secrecy) {
    case Secrecy::none:
      return false;
    case Secrecy::token:
      return value.size() >= kShortestToken && !is_switch_or_number(value);
    case Secrecy::path:
      return true;
    case Secrecy::part:
      return !is_switch_or_number(value);
    case Secrecy::whole:
      return std::isdigit(static_cast<unsigned char>(value[0])) != 0 || !is_switch_or_number(value);
  }
  return false;
}

bool is_secret(Secrecy secrecy, const Json& value) {
  if (value.is_string()) return is_secret(secrecy, std::string_view(value.get_ref<const std::string&>()));
  if (value.is_number()) return secrecy == Secrecy::whole;
  return value.is_structured() &&
         std::ranges::any_of(value, [&](const Json& member) { return is_secret(secrecy, member); });
}

// Whether a list goes on behind the separator: at a text's end, a blank, or in front of what `begins` an element.
template <class Begins>
bool ends_element(std::string_view text, size_t separator, const Begins& begins) {
  const size_t next = separator + 1;
  return next == text.size() || is_blank(text[next]) || begins(end_of_word(text, next));
}

// A URI whose scheme begins at `begin`: to its end. A key may have any letter.
size_t end_of_uri(std::string_view text, size_t begin) {
  constexpr std::string_view kEnds = " \t\r\n\"'`|<>(){}";
  const auto begins_uri = [&](size_t at) { return text.substr(at).starts_with("://"); };
  size_t end = begin;
  while (end < text.size() && kEnds.find(text[end]) == std::string_view::npos) {
    if ((text[end] == ',' || text[end] == ';') && ends_element(text, end, begins_uri)) break;
    ++end;
  }
  return end;
}

std::string shown_uri(std::string_view uri) {
  std::string shown = Location(uri).text();
  std::string scheme(uri.substr(0, uri.find("://")));
  std::ranges::transform(scheme, scheme.begin(), lower);
  if (scheme != "http" && !scheme.ends_with("https") && !scheme.ends_with("+http")) return shown;
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

// What a value stands in: nothing, quotes, or quotes that stand in others.
struct Quotes {
  char quote = 0;
  bool are_escaped = false;
};

// The quotes with which a value begins at `at`, which is moved behind them: `"`, `\"`, `b'`, `SecretStr('`.
Quotes take_quotes(std::string_view text, size_t& at) {
  const size_t word = end_of_word(text, at);
  const bool is_prefix = word - at <= 2 && text.substr(at, word - at).find_first_not_of("bBrRfFuU") == text.npos;
  const bool is_call = word > at && word < text.size() && text[word] == '(';
  size_t next = is_call ? word + 1 : is_prefix ? word : at;
  const bool are_escaped = next < text.size() && text[next] == '\\';
  if (are_escaped) ++next;
  if (next >= text.size() || !is_quote(text[next])) return {};
  at = next + 1;
  return {text[next], are_escaped};
}

size_t end_of_quoted(std::string_view text, size_t begin, Quotes in) {
  for (size_t at = begin; at < text.size(); ++at) {
    if (text[at] == in.quote && !in.are_escaped) return at;
    if (text[at] != '\\') continue;
    if (in.are_escaped && at + 1 < text.size() && text[at + 1] == in.quote) return at;
    ++at;
  }
  return text.size();
}

// Of YAML's `|` and `>`: the lines beneath that are further in.
size_t end_of_block(std::string_view text, size_t begin) {
  size_t end = std::min(text.find('\n', begin), text.size());
  while (end < text.size() && end + 1 < text.size() && is_blank(text[end + 1])) {
    end = std::min(text.find('\n', end + 1), text.size());
  }
  return end;
}

bool begins_block(std::string_view text, size_t at) {
  if (text[at] != '|' && text[at] != '>') return false;
  const size_t end = text.find_first_not_of("+-0123456789", at + 1);
  return end != text.npos && (text[end] == '\n' || text[end] == '\r');
}

// The end of what stands behind a name without quotes, from its first letter on: where a list of such goes on, or a
// text ends that holds it.
size_t end_of_value(std::string_view text, size_t begin) {
  const auto begins_name = [&](size_t at) { return at < text.size() && (text[at] == '=' || text[at] == ':'); };
  constexpr std::string_view kSeparators = ",;|&", kClosing = ",;:)]}>&|";
  size_t end = begin;
  while (end < text.size() && !is_blank(text[end])) {
    if (kSeparators.find(text[end]) != text.npos && ends_element(text, end, begins_name)) break;
    const bool is_last = end + 1 == text.size() || is_blank(text[end + 1]) || kClosing.find(text[end + 1]) != text.npos;
    if (is_quote(text[end]) && is_last) break;
    ++end;
  }
  while (end > begin && std::string_view(")}]>`").find(text[end - 1]) != std::string_view::npos) --end;
  return end;
}

// Where the value of the name that ends at `name_end` begins; npos without one.
size_t begin_of_value(std::string_view text, size_t name_begin, size_t name_end) {
  size_t at = name_end;
  if (at + 1 < text.size() && text[at] == '\\' && is_quote(text[at + 1])) ++at;
  if (at < text.size() && is_quote(text[at])) ++at;
  const size_t behind_blanks = end_of_blanks(text, at);
  if (behind_blanks < text.size() && (text[behind_blanks] == '=' || text[behind_blanks] == ':')) {
    if (text.substr(behind_blanks).starts_with("://")) return std::string_view::npos;
    const bool is_arrow = text.substr(behind_blanks).starts_with("=>");
    return end_of_blanks(text, behind_blanks + (is_arrow ? 2 : 1));
  }
  const bool is_flag = text[name_begin] == '-' && behind_blanks > name_end && behind_blanks < text.size();
  return is_flag && text[behind_blanks] != '-' ? behind_blanks : std::string_view::npos;
}

// `password=…`, `"api_key": "…"`, `--token …`, `?token=…`, `Pwd=…;`, `Authorization: Basic …`.
std::string without_named_values(std::string_view text) {
  std::string shown;
  size_t taken = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = end_of_word(text, begin);
    const size_t name = std::exchange(begin, std::max(end, begin + 1));
    const Secrecy found = secrecy(text.substr(name, end - name));
    if (found == Secrecy::none) continue;
    size_t value = begin_of_value(text, name, end);
    if (value == std::string_view::npos) continue;
    const Quotes quotes = take_quotes(text, value);
    if (plain(text.substr(name, end - name)).ends_with("authorization")) {
      const size_t behind_scheme = end_of_blanks(text, end_of_word(text, value));
      if (behind_scheme < text.size() && is_blank(text[behind_scheme - 1])) value = behind_scheme;
    }
    if (value == text.size() || !begins_secret(found, text[value])) continue;  // its end may be far
    const size_t value_end = quotes.quote != 0           ? end_of_quoted(text, value, quotes)
                             : begins_block(text, value) ? end_of_block(text, value)
                                                         : end_of_value(text, value);
    if (!is_secret(found, text.substr(value, value_end - value))) continue;
    shown += text.substr(taken, value - taken);
    shown += kHidden;
    begin = taken = value_end;
  }
  return shown.append(text.substr(taken));
}

std::string without_bearers(std::string_view text) {
  constexpr std::string_view kScheme = "bearer ";
  const auto is_same = [](char one, char other) { return lower(one) == other; };
  std::string shown;
  size_t taken = 0;
  for (;;) {
    const auto found = std::ranges::search(text.substr(taken), kScheme, is_same);
    if (found.empty()) return shown.append(text.substr(taken));
    const size_t begin = static_cast<size_t>(found.end() - text.begin());
    const size_t end = end_of_value(text, begin);
    shown += text.substr(taken, begin - taken);
    if (end > begin) shown += kHidden;
    taken = end;
  }
}

// Keys as files have them: "-----BEGIN PRIVATE KEY-----…-----END PRIVATE KEY-----".
std::string without_private_keys(std::string_view text) {
  constexpr std::string_view kBegin = "PRIVATE KEY-----", kEnd = "-----END ";
  std::string shown;
  size_t taken = 0;
  for (size_t at = text.find(kBegin); at != text.npos; at = text.find(kBegin, taken)) {
    const size_t begin = at + kBegin.size();
    const size_t end = std::min(text.find(kEnd, begin), text.size());
    shown.append(text.substr(taken, begin - taken)).append(kHidden);
    const size_t behind = text.find(kBegin, end);
    taken = behind == text.npos ? end : behind + kBegin.size();
    shown.append(text.substr(end, taken - end));
  }
  return shown.append(text.substr(taken));
}

// "--password=…", alone in an element of a command line: to its end, whatever is in it.
std::optional<std::string> without_value(std::string_view element) {
  const size_t equals = element.find('=');
  if (equals == element.npos || end_of_word(element, 0) != equals) return std::nullopt;
  if (!is_secret(secrecy(element.substr(0, equals)), element.substr(equals + 1))) return std::nullopt;
  return std::string(element.substr(0, equals + 1)).append(kHidden);
}

}  // namespace

std::string without_secrets(std::string_view text) {
  const bool is_uri = text.find("://") != std::string_view::npos && text.find_first_of(" \t\r\n,") == text.npos &&
                      std::ranges::all_of(text.substr(0, text.find("://")), is_word);
  const std::string shown = is_uri ? shown_uri(text) : without_keys_of_uris(text);
  return without_private_keys(without_bearers(without_named_values(shown)));
}

Json without_secrets(const Json& value) {
  if (value.is_string()) return without_secrets(std::string_view(value.get_ref<const std::string&>()));
  if (value.is_object()) {
    Json shown = Json::object();
    for (const auto& [name, member] : value.items()) {
      shown[without_secrets(std::string_view(name))] =
          is_secret(secrecy(name), member) ? Json(kHidden) : without_secrets(member);
    }
    return shown;
  }
  if (!value.is_array()) return value;
  Json shown = Json::array();
  std::string_view flag;  // before this one
  for (const Json& element : value) {
    const bool is_value = !flag.empty() && is_secret(secrecy(flag), element);
    flag = {};
    if (!element.is_string()) {
      shown.push_back(is_value ? Json(kHidden) : without_secrets(element));
      continue;
    }
    const auto& text = element.get_ref<const std::string&>();
    shown.push_back(is_value ? std::string(kHidden)
                             : without_value(text).value_or(without_secrets(std::string_view(text))));
    if (text.starts_with('-') && text.find('=') == text.npos) flag = text;
  }
  return shown;
}

}  // namespace paceline::storage
