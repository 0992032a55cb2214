// What the functions of Api share: answers as JSON, requests, and what takes long.
#pragma once

#include <arrow/result.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include "paceline/core/json.h"
#include "paceline/dashboard/message.h"

namespace paceline::dashboard {

template <class T>
Response json_response(const T& value) {
  return {.body = encode_json(value)};
}

/// What stands between the commas of a list.
inline std::vector<std::string> parts_of(const std::string& list) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin < list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    if (end > begin) parts.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

/// What stands in the body. Invalid for what is no JSON, and for members that are not known or of another type; those
/// that are missing have their defaults.
template <class T>
arrow::Result<T> body_of(const Request& request) {
  const auto json = decode_json(request.body);
  if (!json.ok() || !json->is_object()) return arrow::Status::Invalid("the body is no JSON object");
  const Json known = T();
  for (const auto& [name, value] : json->items()) {
    if (!known.contains(name)) return arrow::Status::Invalid("the body has a member that is not known: ", name);
    const bool is_whole = value.is_number_integer() &&
                          (!value.is_number_unsigned() || value.template get<uint64_t>() <= uint64_t{INT64_MAX});
    if (known.at(name).is_number_integer() && !is_whole) {
      return arrow::Status::Invalid(name, " is ", value.dump(), "; wanted a whole number");
    }
  }
  try {
    return json->template get<T>();
  } catch (const Json::exception& error) {
    return arrow::Status::Invalid("the body has a member of another type: ", error.what());
  }
}

/// A place among those that do the same at once.
class Turn {
 public:
  explicit Turn(std::atomic<int>& count) : count_(count), others_(count.fetch_add(1)) {}
  ~Turn() { --count_; }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  int others() const { return others_; }

 private:
  std::atomic<int>& count_;
  const int others_;
};

/// That the server ends, or that the browser has gone.
class NobodyWaits {
 public:
  NobodyWaits(const std::stop_source& server, const Request& request)
      : when_server_ends_(server.get_token(), Stop{has_come_}), when_browser_goes_(request.given_up, Stop{has_come_}) {}
  std::stop_token token() const { return has_come_.get_token(); }

 private:
  struct Stop {
    std::stop_source source;
    void operator()() { source.request_stop(); }
  };

  std::stop_source has_come_;
  std::stop_callback<Stop> when_server_ends_, when_browser_goes_;
};

}  // namespace paceline::dashboard
