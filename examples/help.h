// The text that --help prints in the example programs.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

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

/// For a program without flags: if there is any argument, ends the program, after explaining it (--help) or refusing
/// the argument.
inline void explain_no_flags(int argc, char** argv, const std::string& what) {
  CLI::App app(what + "\nIt has no flags; its main() sets everything.");
  app.formatter(std::make_shared<PlainHelp>());
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error) == 0 ? 0 : 2);
  }
}
