#include "paceline/data/service/messages.h"

namespace paceline::data {

void to_json(Json& json, const StreamState& state) {
  json = {{"rows", state.position.rows},      {"window", state.position.window}, {"row", state.position.row},
          {"buffer_rows", state.buffer_rows}, {"buffer", state.buffer},          {"done", state.done}};
}

void from_json(const Json& json, StreamState& state) {
  json.at("rows").get_to(state.position.rows);
  json.at("window").get_to(state.position.window);
  json.at("row").get_to(state.position.row);
  json.at("buffer_rows").get_to(state.buffer_rows);
  json.at("buffer").get_to(state.buffer);
  json.at("done").get_to(state.done);
}

}  // namespace paceline::data
