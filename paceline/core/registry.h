// Functions of the user's program by name: a process that is the program executed again finds them so. Filled before
// main, afterwards only read.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "paceline/core/error.h"

namespace paceline {

/// `Function` is compared with ==.
template <class Function>
class Registry {
 public:
  /// For messages: "train loop"; "the train loop given to TorchTrainer"; the macro that registers one.
  struct Words {
    const char* kind;
    const char* given;
    const char* macro;
  };
  explicit Registry(Words words) : words_(words) {}

  /// ConfigError when another has that name.
  void add(const std::string& name, Function function) {
    for (const auto& [known, other] : functions_) {
      if (known != name) continue;
      if (other == function) return;
      throw ConfigError(std::string("two functions are registered as the ") + words_.kind + " \"" + name +
                        "\"; give one of them another name");
    }
    functions_.emplace_back(name, function);
  }

  /// UsageError that says how to register when it is not.
  std::string name_of(const Function& function) const {
    for (const auto& [name, known] : functions_) {
      if (known == function) return name;
    }
    throw UsageError(std::string(words_.given) +
                     " is not registered, so the processes that call it could not find it; "
                     "write " +
                     words_.macro + "(your_function); at namespace scope, below the function");
  }

  /// UsageError naming those that there are.
  Function find(const std::string& name) const {
    std::string names;
    for (const auto& [known, function] : functions_) {
      if (known == name) return function;
      names += (names.empty() ? "" : ", ") + known;
    }
    throw UsageError(std::string("no ") + words_.kind + " is registered as \"" + name +
                     "\" in this program; registered: " + (names.empty() ? "none" : names));
  }

 private:
  Words words_;
  std::vector<std::pair<std::string, Function>> functions_;
};

}  // namespace paceline
