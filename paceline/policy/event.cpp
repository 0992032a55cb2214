#include "paceline/policy/event.h"

namespace paceline::policy {
namespace {

// The end of a process lies flat in the JSON of its event, where version 0.1 had it.
template <class Kind>
concept HasEnd = requires(Kind kind) { kind.end.status; };

template <size_t index = 0>
arrow::Result<Event> decode_as(const std::string& name, const Json& json) {
  if constexpr (index == std::variant_size_v<Event>) {
    return arrow::Status::Invalid("no event is called \"", name, "\"");
  } else {
    using Alternative = std::variant_alternative_t<index, Event>;
    if (name != Alternative::kType) return decode_as<index + 1>(name, json);
    auto event = json.get<Alternative>();
    if constexpr (HasEnd<Alternative>) json.get_to(event.end);
    return Event(std::move(event));
  }
}

}  // namespace

Json encode_event(const Event& event) {
  return std::visit(
      [](const auto& record) {
        Json json = record;
        if constexpr (HasEnd<std::decay_t<decltype(record)>>) {
          json.erase("end");
          json.update(Json(record.end));
        }
        json["event"] = record.kType;
        return json;
      },
      event);
}

arrow::Result<Event> decode_event(const Json& json) {
  try {
    return decode_as(json.at("event").get<std::string>(), json);
  } catch (const Json::exception& error) {
    return arrow::Status::Invalid("event does not fit its declaration: ", error.what());
  }
}

Time journal_time(Time now) {
  return from_seconds(to_seconds(now));
}

}  // namespace paceline::policy
