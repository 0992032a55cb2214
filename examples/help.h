// The text that --help prints in the example programs.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "paceline/core/spelling.h"

/// Flags as a reader wants them: "--epochs N=1", without the types and ranges of C++ that CLI11 adds.
///
///     CLI::App app("Trains a model.");
///     app.formatter(std::make_shared<PlainHelp>());
class PlainHelp : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override {
    if (option->get_type_name().empty()) return "";  // a switch
    const std::string value = option->get_type_name().starts_with("INT") ? "N" : "TEXT";
    const std::string usual = option->get_default_str();
    return " " + value + (usual.empty() ? "" : "=" + usual);
  }
};

/// Explains on --help, or says what is wrong with the command line, and ends the program: with 0 or 2.
[[noreturn]] inline void explain(const CLI::App& app, const CLI::ParseError& error) {
  if (app.exit(error) == 0) std::exit(0);
  std::vector<std::string> flags;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  for (const std::string& word : app.remaining()) {
    const auto near = paceline::nearest(word.substr(0, word.find('=')), flags);
    if (near) std::cerr << "Did you mean " << *near << "?\n";
  }
  std::exit(2);
}

/// For a program without flags: if there is any argument, ends the program, after explaining it (--help) or refusing
/// the argument.
inline void explain_no_flags(int argc, char** argv, const std::string& what) {
  CLI::App app(what + "\nIt has no flags; its main() sets everything.");
  app.formatter(std::make_shared<PlainHelp>());
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    explain(app, error);
  }
}
