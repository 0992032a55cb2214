// paceline completion bash|zsh, and what the scripts are answered.
#include "paceline/cli/commands/completion.h"

#include <algorithm>
#include <sstream>

#include "paceline/cli/command.h"
#include "paceline/cli/run_lookup.h"

namespace paceline::cli {
namespace {

constexpr const char* kBash = R"sh(# bash completion for paceline: source <(paceline completion bash)
_paceline() {
  local candidate
  COMPREPLY=()
  while IFS= read -r candidate; do
    COMPREPLY+=("$(printf '%q' "$candidate")")
  done < <(paceline __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _paceline paceline
)sh";

constexpr const char* kZsh = R"sh(#compdef paceline
# zsh completion for paceline: source <(paceline completion zsh), or a file _paceline in $fpath
_paceline() {
  local -a candidates
  candidates=("${(@f)$(paceline __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ -n "${candidates[1]}" ]]; then compadd -- "${candidates[@]}"; else _files; fi
}
if [[ "${funcstack[1]}" == _paceline ]]; then
  _paceline "$@"
else
  (( $+functions[compdef] )) || { autoload -Uz compinit && compinit }
  compdef _paceline paceline
fi
)sh";

// The option that `word` names; null for none.
const CLI::Option* option_named(const CLI::App& command, const std::string& word) {
  for (const CLI::Option* option : command.get_options()) {
    if (option->nonpositional() && option->check_name(word)) return option;
  }
  return nullptr;
}

const CLI::App* command_named(const CLI::App& command, const std::string& word) {
  const auto subcommands = command.get_subcommands(nullptr);
  const auto found = std::ranges::find(subcommands, word, [](const CLI::App* one) { return one->get_name(); });
  return found == subcommands.end() ? nullptr : *found;
}

// The words that an argument can be, where CLI::IsMember says it, which shows in its type: "SHELL:{bash,zsh}".
std::vector<std::string> choices_of(const CLI::App& command) {
  std::vector<std::string> choices;
  for (const CLI::Option* option : command.get_options()) {
    const std::string type = option->get_type_name();
    const size_t brace = type.find('{');
    if (option->nonpositional() || brace == std::string::npos) continue;
    std::istringstream words(type.substr(brace + 1, type.find('}') - brace - 1));
    for (std::string word; std::getline(words, word, ',');) choices.push_back(word);
  }
  return choices;
}

bool wants_run(const CLI::App& command) {
  return std::ranges::any_of(command.get_options(), [](const CLI::Option* option) {
    return !option->nonpositional() && option->get_name() == "RUN";
  });
}

}  // namespace

Completion complete(const CLI::App& program, const std::vector<std::string>& words) {
  if (words.empty()) return {};
  const CLI::App* command = &program;
  bool wants_value = false;
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    if (std::exchange(wants_value, false)) continue;
    if (words[i].starts_with('-')) {
      const CLI::Option* option = option_named(*command, words[i]);
      wants_value = option != nullptr && option->get_items_expected_min() > 0;
    } else if (const CLI::App* inner = command_named(*command, words[i])) {
      command = inner;
    }
  }
  if (wants_value) return {};
  const std::string& last = words.back();
  Completion completion;
  const auto offer = [&](const std::string& word) {
    if (word.starts_with(last)) completion.words.push_back(word);
  };
  if (last.starts_with('-')) {
    for (const CLI::Option* option : command->get_options()) {
      if (option->get_group().empty()) continue;  // it is no user's
      for (const std::string& name : option->get_lnames()) offer("--" + name);
    }
    return completion;
  }
  for (const CLI::App* inner : command->get_subcommands(nullptr)) {
    offer(inner->get_name());
  }
  for (const std::string& choice : choices_of(*command)) offer(choice);
  completion.run = wants_run(*command);
  return completion;
}

std::string completion_script(const std::string& shell) {
  return shell == "zsh" ? kZsh : kBash;
}

void add_completion(CLI::App& program, int& exit_code) {
  CLI::App* command = program.add_subcommand("completion", "Print a shell's completion script");
  command->footer(
      "Example, in ~/.bashrc: source <(paceline completion bash)\n"
      "Completes commands, options and the names of runs.");
  const auto shell = std::make_shared<std::string>();
  command->add_option("shell", *shell, "bash or zsh")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh"}))
      ->type_name("SHELL");
  command->callback([shell, &exit_code] {
    print(completion_script(*shell));
    exit_code = kDone;
  });
}

int answer_completion(const CLI::App& program, const std::vector<std::string>& words) {
  const Completion completion = complete(program, words);
  for (const std::string& word : completion.words) print(word + "\n");
  if (!completion.run) return kDone;
  for (const NamedRun& run : runs_with_names()) {
    const bool is_one_line = run.name.find('\n') == std::string::npos;
    if (is_one_line && run.name.starts_with(words.back())) print(run.name + "\n");
  }
  return kDone;
}

}  // namespace paceline::cli
