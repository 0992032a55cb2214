#include "paceline/transport/hello.h"

#include <algorithm>

#include "paceline/core/json.h"

namespace paceline::transport {
namespace {

constexpr size_t kMaxTextBytes = size_t{4} << 10;
constexpr size_t kMaxNameBytes = 256;

template <class Record>
arrow::Result<Record> decode(std::string_view text, const char* what) {
  if (text.size() > kMaxTextBytes) return arrow::Status::Invalid(what, " is too large: ", text.size(), " bytes");
  const auto json = decode_json(text);
  if (!json.ok() || !json->is_object()) return arrow::Status::Invalid(what, " is no JSON object");
  try {
    return json->get<Record>();
  } catch (const Json::exception&) {
    return arrow::Status::Invalid(what, " has a field of another type");
  }
}

// Names go into logs and messages.
bool is_name(const std::string& text) {
  return !text.empty() && text.size() <= kMaxNameBytes && is_utf8(text) &&
         std::ranges::none_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

bool is_id(const std::string& text) {
  return text.size() == 32 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

}  // namespace

std::string encode_hello(const Hello& hello) {
  return encode_json(Json(hello));
}

arrow::Result<Hello> decode_hello(std::string_view text) {
  ARROW_ASSIGN_OR_RAISE(const Hello hello, decode<Hello>(text, "the hello of an agent"));
  if (hello.major != rpc::kMajorVersion) {
    return arrow::Status::Invalid("controller and agent are of different versions: the controller speaks ",
                                  rpc::kMajorVersion, ".", rpc::kMinorVersion, ", the agent ", hello.major, ".",
                                  hello.minor);
  }
  if (!is_name(hello.run) || !is_name(hello.name) || !is_id(hello.peer) || hello.received < 0) {
    return arrow::Status::Invalid("the hello of an agent has a field with a wrong value");
  }
  return hello;
}

std::string encode_hello_answer(const HelloAnswer& answer) {
  return encode_json(Json(answer));
}

arrow::Result<HelloAnswer> decode_hello_answer(std::string_view text) {
  ARROW_ASSIGN_OR_RAISE(const auto answer, decode<HelloAnswer>(text, "the controller's answer"));
  if (answer.received < 0) return arrow::Status::Invalid("the controller's answer has a field with a wrong value");
  return answer;
}

}  // namespace paceline::transport
