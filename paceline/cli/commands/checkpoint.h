// The commands below `paceline checkpoint`, and what they share.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

namespace paceline::cli {

/// paceline checkpoint ls RUN [--json]
void add_checkpoint_ls(CLI::App& group, int& exit_code);
/// paceline checkpoint verify PATH [--json]
void add_checkpoint_verify(CLI::App& group, int& exit_code);
/// paceline checkpoint diff FIRST SECOND [-n N] [--json]
void add_checkpoint_diff(CLI::App& group, int& exit_code);
/// paceline checkpoint export PATH -o OUT [--item ITEM] [--max-shard-size SIZE] [--json]
void add_checkpoint_export(CLI::App& group, int& exit_code);

/// A positional that names a checkpoint's folder; a path or a URI.
std::shared_ptr<std::string> add_checkpoint_path(CLI::App& command, const std::string& name);

}  // namespace paceline::cli
