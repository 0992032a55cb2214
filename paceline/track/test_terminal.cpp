// A terminal at the command of terminal_test.py, which reads what is drawn on standard error as a terminal would.
//
// Standard input has a command a line: ["log", level, line], ["output", who, line], ["bar", who, text], ["state",
// state], ["workers", ready, all], ["stragglers", text], ["progress", label, done, total, rate], ["metrics", {…}],
// ["checkpoint", name],
// ["finish"]; each is answered by "done". The argument "quiet" makes a quiet one.
#include <iostream>
#include <string>

#include "paceline/core/error.h"
#include "paceline/track/terminal.h"

int main(int count, char** arguments) {
  using namespace paceline;
  ManualClock clock(from_seconds(1000));
  const auto terminal = track::make_terminal(stderr, &clock, count > 1 && std::string(arguments[1]) == "quiet");
  for (std::string line; std::getline(std::cin, line);) {
    const Json command = value_or_throw(decode_json(line));
    const auto text = [&](size_t at) { return command.at(at).get<std::string>(); };
    const auto number = [&](size_t at) { return command.at(at).get<int64_t>(); };
    const std::string name = text(0);
    if (name == "log") terminal->log(log_level(text(1)), text(2));
    if (name == "output") terminal->output(text(1), text(2));
    if (name == "bar") terminal->bar(text(1), text(2));
    if (name == "state") terminal->state(text(1));
    if (name == "workers") terminal->workers(number(1), number(2));
    if (name == "stragglers") terminal->stragglers(text(1));
    if (name == "progress") terminal->progress(text(1), number(2), number(3), command.at(4));
    if (name == "metrics") terminal->metrics(command.at(1));
    if (name == "checkpoint") terminal->checkpoint(text(1));
    if (name == "finish") terminal->finish();
    clock.advance(std::chrono::seconds(1));
    std::cout << "done" << std::endl;  // NOLINT(performance-avoid-endl): the test waits for it
  }
}
