// The commands of `paceline`, one file each in commands/; main.cpp lists them.
//
// Every command adds itself to the program and sets `exit_code` when it has run. Results go to standard output, as one
// line of JSON with --json; the reason why something could not be done is one line on standard error.
#pragma once

#include <arrow/status.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

namespace paceline::cli {

inline constexpr int kDone = 0;
inline constexpr int kFailed = 1;
inline constexpr int kWrongUse = 2;

/// paceline run [FLAGS] [--] PROGRAM [ARGUMENTS], for the list of commands: main() hands its words to run_command().
void add_run_command(CLI::App& program, int& exit_code);
/// paceline list [-n N] [--state STATE] [--json]
void add_list(CLI::App& program, int& exit_code);
/// paceline index [FOLDER…] [--json]
void add_index(CLI::App& program, int& exit_code);
/// paceline show RUN [--collectives] [--json]
void add_show(CLI::App& program, int& exit_code);
/// paceline stop RUN [--json]
void add_stop(CLI::App& program, int& exit_code);
/// paceline stacks RUN [--rank N] [--json]
void add_stacks(CLI::App& program, int& exit_code);
/// paceline profile RUN [--rank N] [--cpu | --off-cpu | --memory | --timeline [--steps N]] [--seconds S] [-o FILE]
/// [--json]
void add_profile(CLI::App& program, int& exit_code);
/// paceline logs RUN [--rank N | --controller] [--attempt N] [-n N] [-f] [--json]
void add_logs(CLI::App& program, int& exit_code);
/// paceline metrics RUN [--plot NAME] [-o FILE] [--json]
void add_metrics(CLI::App& program, int& exit_code);
/// paceline rm RUN… [--yes] [--json]
void add_rm(CLI::App& program, int& exit_code);
/// paceline prune [--older-than AGE] [--failed] [--gone] [--yes] [--json]
void add_prune(CLI::App& program, int& exit_code);
/// paceline doctor [--storage-path PATH] [--json]
void add_doctor(CLI::App& program, int& exit_code);
/// paceline agent --token-file FILE [--join HOST:PORT…] [--name NAME] [--address ADDRESS] [--label NAME=VALUE…]
/// [--keep]
void add_agent(CLI::App& program, int& exit_code);
/// paceline dashboard [--storage-path PATH…] [--host ADDRESS] [--port N] [--external-url URL] [--read-only]
/// [--insecure-no-tls] [--token-file FILE] [--web-root FOLDER]
void add_dashboard(CLI::App& program, int& exit_code);
/// paceline completion bash|zsh
void add_completion(CLI::App& program, int& exit_code);
/// paceline checkpoint ls | verify | now | diff | export
void add_checkpoint(CLI::App& program, int& exit_code);

// What commands share, so that it has one name and one explanation everywhere.

/// The positional RUN: what find_run() (run_lookup.h) takes.
std::shared_ptr<std::string> add_run(CLI::App& command);
/// -o, --output: a file to be written, or a folder; "~/…" is found, as quotes keep it from the shell.
CLI::Option* add_output(CLI::App& command, std::string& path, const std::string& what);
/// --json
std::shared_ptr<bool> add_json(CLI::App& command);

/// Prints the reason of a failure; the exit code that goes with the status: a KeyError, of a name that nothing has, is
/// wrong use.
int report(const arrow::Status& status);
/// Who asks a live run for something with that command, for the run's log.
std::string asker(const std::string& command);
/// To standard output as it is: text may have zero bytes.
void print(const std::string& text);

}  // namespace paceline::cli
