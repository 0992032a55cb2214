// The id of a run: what names it in addresses, where a name may stand for several runs and a path for anything.
//
// 32 hexadecimal digits, made of the path of the run's folder on this machine: the same in every process, for as long
// as the folder stays where it is. Pure.
#pragma once

#include <string>
#include <string_view>

namespace paceline::track {

std::string run_id(std::string_view path);

/// Whether the text may be such an id.
bool is_run_id(std::string_view text);

}  // namespace paceline::track
