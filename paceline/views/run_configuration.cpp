#include "paceline/views/run_configuration.h"

#include "paceline/policy/event.h"
#include "paceline/run/journal.h"
#include "paceline/storage/local/line_reader.h"

namespace paceline::views {

arrow::Result<RunConfiguration> run_configuration(const std::string& run_folder) {
  RunConfiguration configuration;
  ARROW_RETURN_NOT_OK(storage::read_lines_from_end(run::journal_path(run_folder), [&](std::string_view text) {
    if (text.find(policy::RunOpened::kType) == std::string_view::npos) return true;
    const auto line = decode_json(text);
    if (!line.ok() || !line->is_object() || line->value("event", Json()) != policy::RunOpened::kType) return true;
    if (const auto time = line->find("time"); time != line->end() && time->is_number()) {
      configuration.opened = time->get<double>();
    }
    const auto take = [&line](const char* name, Json& object) {
      if (const auto found = line->find(name); found != line->end() && found->is_object()) object = *found;
    };
    take("options", configuration.options);
    take("train_loop_config", configuration.train_loop_config);
    return false;
  }));
  return configuration;
}

}  // namespace paceline::views
