#include "paceline/cli/commands/run_flags.h"

#include <algorithm>
#include <charconv>
#include <csignal>
#include <sstream>

#include "paceline/cli/commands/run_flags_internal.h"
#include "paceline/core/spelling.h"

namespace paceline::cli {
namespace {

template <class Visit>
void for_each_flag(const Visit& visit) {
  for (const Flag& flag : own_flags()) visit(flag);
  for (const Flag& flag : torchrun_flags()) visit(flag);
}

arrow::Result<const Flag*> find_by_letter(char letter) {
  const Flag* found = nullptr;
  for_each_flag([&](const Flag& flag) { found = flag.letter == letter ? &flag : found; });
  if (found != nullptr) return found;
  return arrow::Status::Invalid("paceline run knows no flag -", std::string(1, letter), "; --help lists them");
}

// By its whole name, or by a beginning that no other flag has.
arrow::Result<const Flag*> find_by_name(const std::string& written) {
  std::string name = written;
  std::ranges::replace(name, '_', '-');
  std::vector<const Flag*> beginning;
  std::vector<std::string> known;
  for_each_flag([&](const Flag& flag) {
    known.push_back(std::string("--") + flag.name);
    if (std::string(flag.name).starts_with(name)) beginning.push_back(&flag);
  });
  for (const Flag* flag : beginning) {
    if (flag->name == name) return flag;
  }
  if (beginning.size() == 1 && !name.empty()) return beginning.front();
  if (beginning.size() > 1 && !name.empty()) {
    std::string names;
    for (const Flag* flag : beginning) names += (names.empty() ? "--" : ", --") + std::string(flag->name);
    return arrow::Status::Invalid("--", written, " is the beginning of several flags: ", names);
  }
  return arrow::Status::Invalid("paceline run knows no flag --", written,
                                "; --help lists them. Flags of the program go behind it",
                                suggestion("--" + name, known));
}

bool is_one_of(const std::string& value, const std::string& choices) {
  std::istringstream names(choices);
  for (std::string name; std::getline(names, name, '|');) {
    if (name == value) return true;
  }
  return false;
}

arrow::Status apply(const Flag& flag, const std::string& who, const std::string& value, Reading& reading) {
  if (flag.choices != nullptr && !is_one_of(value, flag.choices)) {
    return arrow::Status::Invalid(who, " is \"", value, "\"; allowed: ", flag.choices);
  }
  if (flag.apply == nullptr) {
    const std::string why = std::string(flag.what).substr(std::string("No effect: ").size());
    reading.flags.notes.push_back(who + " " + value + " is not used: " + why);
    return arrow::Status::OK();
  }
  arrow::Status status = flag.apply(reading, value);
  if (status.ok() && !flag.stays_here) {
    reading.flags.passed_on.push_back("--" + std::string(flag.name) + (flag.value == nullptr ? "" : "=" + value));
  }
  if (!status.ok()) return arrow::Status::Invalid(who, " ", status.message());
  if (flag.without_effect_on_drivers != nullptr) {
    reading.flags.driver_notes.push_back(
        who + (value.empty() ? "" : " " + value) +
        " has no effect on a program that calls fit(): " + flag.without_effect_on_drivers);
  }
  return status;
}

// One word that begins with '-', and the next one if its flag takes a value that is not in the word.
class CommandLine {
 public:
  CommandLine(const std::vector<std::string>& words, Reading& reading) : words_(words), reading_(reading) {}

  // Up to the program.
  arrow::Status read() {
    while (at_ < words_.size() && words_[at_].size() > 1 && words_[at_].starts_with("-")) {
      const std::string& word = words_[at_++];
      if (word == "--") break;
      ARROW_RETURN_NOT_OK(word.starts_with("--") ? read_long(word.substr(2)) : read_short(word.substr(1)));
    }
    const auto program = words_.begin() + static_cast<std::ptrdiff_t>(at_);
    reading_.flags.program.words.assign(program, words_.end());
    return arrow::Status::OK();
  }

  bool has(const Flag& flag) const { return std::ranges::find(seen_, &flag) != seen_.end(); }

 private:
  arrow::Status read_long(const std::string& word) {
    const size_t equals = word.find('=');
    ARROW_ASSIGN_OR_RAISE(const Flag* flag, find_by_name(word.substr(0, equals)));
    if (equals == std::string::npos) return take(*flag, std::nullopt);
    return take(*flag, word.substr(equals + 1));
  }

  // "-m", "-r 3", "-r3", "-r=3".
  arrow::Status read_short(const std::string& word) {
    ARROW_ASSIGN_OR_RAISE(const Flag* flag, find_by_letter(word[0]));
    if (word.size() == 1) return take(*flag, std::nullopt);
    if (flag->value == nullptr) {
      ARROW_RETURN_NOT_OK(take(*flag, std::nullopt));
      return read_short(word.substr(1));
    }
    return take(*flag, word.substr(word[1] == '=' ? 2 : 1));
  }

  arrow::Status take(const Flag& flag, std::optional<std::string> value) {
    const std::string name = std::string("--") + flag.name;
    if (flag.value == nullptr && value)
      return arrow::Status::Invalid(name, " takes no value, and got \"", *value, "\"");
    if (flag.value != nullptr && !value) {
      if (at_ == words_.size()) return arrow::Status::Invalid(name, " takes a value: ", name, " ", flag.value);
      value = words_[at_++];
    }
    seen_.push_back(&flag);
    return apply(flag, name, value.value_or(""), reading_);
  }

  const std::vector<std::string>& words_;
  Reading& reading_;
  size_t at_ = 0;
  std::vector<const Flag*> seen_;
};

bool has_nodes_elsewhere(const RunFlags& flags) {
  return !flags.hosts.empty() || flags.engine == "ray";
}

arrow::Status check_own_nodes(const Reading& reading, const CommandLine& words) {
  if (!has_nodes_elsewhere(reading.flags)) return arrow::Status::OK();
  for (const auto* flags : {&own_flags(), &torchrun_flags()}) {
    for (const Flag& flag : *flags) {
      if (!flag.places_own_node || !words.has(flag)) continue;
      return arrow::Status::Invalid("--", flag.name, " is about a node on which this command is run; nodes of ",
                                    reading.flags.hosts.empty() ? "--engine ray" : "--hosts",
                                    " find out their own places: leave it out");
    }
  }
  return arrow::Status::OK();
}

// What stands in variables and not on the command line. Those about a node of its own, which a cluster may have set
// where the command is run, do not concern nodes elsewhere.
arrow::Status read_variables(Reading& reading, const CommandLine& words) {
  for (const Flag& flag : torchrun_flags()) {
    if (flag.variable == nullptr || words.has(flag)) continue;
    if (flag.places_own_node && has_nodes_elsewhere(reading.flags)) continue;
    const auto value = reading.facts.variables(flag.variable);
    if (!value || value->empty() || (flag.value == nullptr && *value == "0")) continue;
    ARROW_RETURN_NOT_OK(apply(flag, flag.variable, *value, reading));
  }
  return arrow::Status::OK();
}

arrow::Status check_ray(const Reading& reading) {
  const RunFlags& flags = reading.flags;
  if (flags.engine != "ray") {
    const RayFlags& ray = flags.ray;
    const char* const given = !ray.address.empty()                ? "--address"
                              : !ray.working_dir.empty()          ? "--working-dir"
                              : !ray.runtime_env.empty()          ? "--runtime-env"
                              : !ray.resources_per_worker.empty() ? "--resources-per-worker"
                                                                  : nullptr;
    if (given == nullptr) return arrow::Status::OK();
    return arrow::Status::Invalid(given, " is for a Ray cluster; add --engine ray, or leave it out");
  }
  if (reading.counts_this_machine) {
    return arrow::Status::Invalid(
        "auto, cpu and gpu count what this machine has; with --engine ray give a number of ranks");
  }
  if (!flags.hosts.empty())
    return arrow::Status::Invalid("--hosts and --engine ray exclude each other; give one of them");
  if (flags.nodes.least != flags.nodes.most) {
    return arrow::Status::Invalid("--nnodes is ", flags.nodes.least, ":", flags.nodes.most,
                                  "; with --engine ray give a number");
  }
  return arrow::Status::OK();
}

arrow::Status check_together(Reading& reading) {
  RunFlags& flags = reading.flags;
  ARROW_RETURN_NOT_OK(check_ray(reading));
  if (reading.nproc && flags.num_workers && *reading.nproc != *flags.num_workers) {
    return arrow::Status::Invalid("--num-workers is ", *flags.num_workers, " and --nproc-per-node is ", *reading.nproc,
                                  "; they mean the same: give one of them");
  }
  if (!flags.num_workers) flags.num_workers = reading.nproc;
  if (flags.program.module && flags.program.no_python) {
    return arrow::Status::Invalid("--module and --no-python exclude each other; give one of them");
  }
  if (flags.debug_rank && *flags.debug_rank >= flags.num_workers.value_or(1)) {
    return arrow::Status::Invalid("--debug-rank is ", *flags.debug_rank, "; allowed: 0 to ",
                                  flags.num_workers.value_or(1) - 1, ", a rank of the ",
                                  flags.num_workers.value_or(1) == 1 ? "only worker" : "workers (--num-workers)");
  }
  if (!flags.hosts.empty() && flags.nodes.are_several()) {
    return arrow::Status::Invalid("--hosts and --nnodes exclude each other: with --hosts one command starts all nodes");
  }
  if (!flags.hosts.empty() && flags.debug_rank) {
    return arrow::Status::Invalid("--debug-rank is for ranks of this machine; leave out --hosts");
  }
  if (flags.ship && flags.hosts.empty()) return arrow::Status::Invalid("--ship needs --hosts, to which it sends");
  if (flags.program.words.empty()) {
    return arrow::Status::Invalid(
        "no program is given: paceline run [FLAGS] [--] PROGRAM [ARGUMENTS]; --help explains");
  }
  return arrow::Status::OK();
}

struct Endpoint {
  std::string host;
  int64_t port = 0;
};

// "HOST", "HOST:PORT", "IPV6", "[IPV6]:PORT".
arrow::Result<Endpoint> parse_endpoint(const std::string& text) {
  constexpr int64_t kDefaultPort = 29400;
  const bool is_bracketed = text.starts_with('[');
  const size_t host_end = is_bracketed                        ? text.find(']')
                          : text.find(':') == text.rfind(':') ? text.find(':')
                                                              : text.npos;
  Endpoint endpoint{is_bracketed ? text.substr(1, host_end - 1) : text.substr(0, host_end), kDefaultPort};
  const std::string rest = host_end == text.npos ? "" : text.substr(host_end + (is_bracketed ? 1 : 0));
  if (!rest.empty()) {
    const char* const end = rest.data() + rest.size();
    const auto [stop, problem] = std::from_chars(rest.data() + 1, end, endpoint.port);
    if (rest[0] != ':' || problem != std::errc() || stop != end) endpoint.port = -1;
  }
  if (endpoint.host.empty() || endpoint.port < 0 || endpoint.port > 65535) {
    return arrow::Status::Invalid("--rdzv-endpoint is \"", text, "\"; allowed: HOST or HOST:PORT");
  }
  return endpoint;
}

arrow::Status check_nodes(Reading& reading) {
  constexpr int64_t kDefaultPort = 29500;
  NodeFlags& nodes = reading.flags.nodes;
  if (reading.standalone && nodes.least > 1) {
    return arrow::Status::Invalid("--standalone is for one node, and --nnodes is ", nodes.least, "; give one of them");
  }
  if (reading.standalone) nodes.most = 1;
  if (nodes.rank && *nodes.rank >= nodes.most) {
    return arrow::Status::Invalid("--node-rank is ", *nodes.rank, "; allowed: 0",
                                  nodes.are_several() ? " to " + std::to_string(nodes.most - 1) : "",
                                  ", since --nnodes is ", nodes.most);
  }
  if (reading.keep_alive_interval_s || reading.keep_alive_attempts) {
    nodes.lease_s = reading.keep_alive_interval_s.value_or(5) * reading.keep_alive_attempts.value_or(3);
  }
  if (nodes.token_file.empty()) nodes.token_file = reading.facts.variables("PACELINE_TOKEN_FILE").value_or("");
  if (reading.endpoint && !reading.endpoint->empty()) {
    ARROW_ASSIGN_OR_RAISE(const Endpoint endpoint, parse_endpoint(*reading.endpoint));
    nodes.host = endpoint.host;
    nodes.port = endpoint.port;
  } else {
    nodes.host = reading.flags.master_address;
    nodes.port = reading.flags.master_port.value_or(kDefaultPort);
    nodes.has_default_host = !reading.has_master_address;
    if (!nodes.rank) nodes.rank = 0;
  }
  return arrow::Status::OK();
}

RunFlagInfo info_of(const Flag& flag, bool torchruns) {
  const std::string letter = flag.letter != 0 ? std::string("-") + flag.letter + "," : "";
  return {letter + "--" + flag.name, flag.value != nullptr ? flag.value : "", torchruns, flag.what};
}

}  // namespace

bool ShownOutput::shows(int64_t rank, const std::string& stream) const {
  if (!ranks.empty() && !ranks.contains(rank)) return false;
  const int bit = stream == "stderr" ? 2 : 1;
  const auto streams_of = [rank](const std::map<int64_t, int>& streams) {
    const auto own = streams.find(rank);
    const auto found = own != streams.end() ? own : streams.find(kEveryRank);
    return found == streams.end() ? 0 : found->second;
  };
  return (streams_of(redirected) & bit) == 0 || (streams_of(shown_too) & bit) != 0;
}

arrow::Result<RunFlags> parse_run_flags(const std::vector<std::string>& arguments, const RunFacts& facts) {
  Reading reading{.facts = facts};
  reading.flags.signals = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};
  CommandLine words(arguments, reading);
  ARROW_RETURN_NOT_OK(words.read());
  if (reading.flags.help) return reading.flags;
  ARROW_RETURN_NOT_OK(check_own_nodes(reading, words));
  ARROW_RETURN_NOT_OK(read_variables(reading, words));
  ARROW_RETURN_NOT_OK(check_nodes(reading));
  ARROW_RETURN_NOT_OK(check_together(reading));
  return reading.flags;
}

std::string RunFlagInfo::usage() const {
  std::string text = names;
  if (const size_t comma = text.find(','); comma != std::string::npos) text.insert(comma + 1, " ");
  return value.empty() ? text : text + " " + value;
}

std::vector<RunFlagInfo> run_flag_table() {
  std::vector<RunFlagInfo> table;
  for (const Flag& flag : own_flags()) table.push_back(info_of(flag, false));
  for (const Flag& flag : torchrun_flags()) table.push_back(info_of(flag, true));
  return table;
}

}  // namespace paceline::cli
