// The table of the flags, and what each of them does.
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "paceline/cli/commands/run_flags_internal.h"
#include "paceline/core/run_layout.h"

namespace paceline::cli {
namespace {

arrow::Result<int64_t> integer(const std::string& text, int64_t least, const char* allowed) {
  int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, problem] = std::from_chars(text.data(), end, value);
  if (problem != std::errc() || rest != end || text.empty() || value < least) {
    return arrow::Status::Invalid("is \"", text, "\"; allowed: ", allowed);
  }
  return value;
}

arrow::Status take_workers(const std::string& text, Reading& reading, std::optional<int64_t>& workers) {
  const RunFacts& facts = reading.facts;
  reading.counts_this_machine |= text == "cpu" || text == "gpu" || text == "auto";
  if (text == "cpu" || (text == "auto" && facts.gpus == 0)) {
    workers = facts.cores;
  } else if (text == "gpu" && facts.gpus == 0) {
    return arrow::Status::Invalid("is \"gpu\", but this machine has no GPU that can be used");
  } else if (text == "gpu" || text == "auto") {
    workers = facts.gpus;
  } else {
    ARROW_ASSIGN_OR_RAISE(workers, integer(text, 1, "a number from 1, auto, cpu or gpu"));
  }
  return arrow::Status::OK();
}

arrow::Status take_nodes(Reading& reading, const std::string& text) {
  const size_t colon = text.find(':');
  constexpr const char* kAllowed = "a number from 1, or MIN:MAX";
  NodeFlags& nodes = reading.flags.nodes;
  ARROW_ASSIGN_OR_RAISE(nodes.least, integer(text.substr(0, colon), 1, kAllowed));
  const std::string rest = colon == std::string::npos ? text : text.substr(colon + 1);
  return integer(rest, nodes.least, kAllowed).Value(&nodes.most);
}

arrow::Status take_is_host(NodeFlags& nodes, const std::string& value) {
  constexpr const char* kYes[] = {"1", "true", "t", "yes", "y"};
  constexpr const char* kNo[] = {"0", "false", "f", "no", "n"};
  std::string lower = value;
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  nodes.is_host = std::ranges::find(kYes, lower) != std::end(kYes);
  if (*nodes.is_host || std::ranges::find(kNo, lower) != std::end(kNo)) return arrow::Status::OK();
  return arrow::Status::Invalid("has is_host=", value, "; allowed: true, false");
}

// "join_timeout=300,is_host=1".
arrow::Status take_rendezvous(Reading& reading, const std::string& text) {
  NodeFlags& nodes = reading.flags.nodes;
  std::istringstream entries(text);
  for (std::string entry; std::getline(entries, entry, ',');) {
    std::erase(entry, ' ');
    const size_t equals = entry.find('=');
    if (equals == 0 || equals == std::string::npos || equals + 1 == entry.size()) {
      return arrow::Status::Invalid("has \"", entry, "\"; allowed: KEY=VALUE,…");
    }
    const std::string key = entry.substr(0, equals);
    const std::string value = entry.substr(equals + 1);
    const auto number_into = [&](auto& field) -> arrow::Status {
      const auto number = integer(value, 1, "a number from 1");
      if (!number.ok()) return arrow::Status::Invalid("has ", key, ", which ", number.status().message());
      field = static_cast<double>(*number);
      return arrow::Status::OK();
    };
    if (key == "join_timeout" || key == "timeout") {
      ARROW_RETURN_NOT_OK(number_into(nodes.join_timeout_s));
    } else if (key == "last_call_timeout") {
      ARROW_RETURN_NOT_OK(number_into(nodes.last_call_s));
    } else if (key == "keep_alive_interval") {
      ARROW_RETURN_NOT_OK(number_into(reading.keep_alive_interval_s));
    } else if (key == "keep_alive_max_attempt") {
      ARROW_RETURN_NOT_OK(number_into(reading.keep_alive_attempts));
    } else if (key == "is_host") {
      ARROW_RETURN_NOT_OK(take_is_host(nodes, value));
    } else {
      reading.flags.notes.push_back("--rdzv-conf " + entry + " is not used: nodes meet over Paceline's own connection");
    }
  }
  return arrow::Status::OK();
}

// "SIGTERM,SIGINT".
arrow::Status take_signals(Reading& reading, const std::string& text) {
  std::istringstream names(text);
  reading.flags.signals.clear();
  for (std::string name; std::getline(names, name, ',');) {
    std::erase(name, ' ');
    const std::string short_name = name.starts_with("SIG") ? name.substr(3) : name;
    int found = 0;
    for (int signal = 1; signal < SIGRTMIN && found == 0; ++signal) {
      const char* abbreviation = ::sigabbrev_np(signal);
      if (abbreviation != nullptr && short_name == abbreviation) found = signal;
    }
    if (found == 0 || found == SIGKILL || found == SIGSTOP || found == SIGCHLD) {
      return arrow::Status::Invalid("names \"", name,
                                    "\"; allowed: signals that a program can handle, such as SIGTERM");
    }
    reading.flags.signals.push_back(found);
  }
  return arrow::Status::OK();
}

// "3", or "0:1,1:2" by local rank, as torch.distributed.elastic.multiprocessing.Std reads it.
arrow::Status take_streams(const std::string& text, std::map<int64_t, int>& streams) {
  constexpr const char* kAllowed = "0 to 3 (1 standard output, 2 standard error, 3 both), or RANK:STREAMS,…";
  std::istringstream entries(text);
  for (std::string entry; std::getline(entries, entry, ',');) {
    const size_t colon = entry.find(':');
    int64_t rank = kEveryRank;
    if (colon != std::string::npos) {
      ARROW_ASSIGN_OR_RAISE(rank, integer(entry.substr(0, colon), 0, kAllowed));
    }
    ARROW_ASSIGN_OR_RAISE(const int64_t which,
                          integer(colon == std::string::npos ? entry : entry.substr(colon + 1), 0, kAllowed));
    if (which > 3) return arrow::Status::Invalid("is \"", text, "\"; allowed: ", kAllowed);
    streams[rank] = static_cast<int>(which);
  }
  return arrow::Status::OK();
}

// "GPU=1,CPU=4".
arrow::Status take_resources(const std::string& text, Resources& resources) {
  std::istringstream entries(text);
  for (std::string entry; std::getline(entries, entry, ',');) {
    const size_t equals = entry.find('=');
    char* end = nullptr;
    const std::string amount = equals == std::string::npos ? "" : entry.substr(equals + 1);
    const double value = std::strtod(amount.c_str(), &end);
    if (equals == 0 || amount.empty() || *end != '\0' || !(value >= 0) || std::isinf(value)) {
      return arrow::Status::Invalid("has \"", entry, "\"; allowed: NAME=AMOUNT,… such as CPU=4,GPU=1");
    }
    resources[entry.substr(0, equals)] = value;
  }
  return arrow::Status::OK();
}

arrow::Status take_ranks(const std::string& text, std::set<int64_t>& ranks) {
  std::istringstream entries(text);
  for (std::string entry; std::getline(entries, entry, ',');) {
    ARROW_ASSIGN_OR_RAISE(const int64_t rank, integer(entry, 0, "ranks with commas between them: 0,1"));
    ranks.insert(rank);
  }
  return arrow::Status::OK();
}

arrow::Status note(Reading& reading, const std::string& text) {
  reading.flags.notes.push_back(text);
  return arrow::Status::OK();
}

template <std::optional<std::string> RunFlags::* Field>
arrow::Status take_text(Reading& reading, const std::string& text) {
  if (text.empty()) return arrow::Status::Invalid("is empty");
  reading.flags.*Field = text;
  return arrow::Status::OK();
}

template <std::string NodeFlags::* Field>
arrow::Status take_node_text(Reading& reading, const std::string& text) {
  if (text.empty()) return arrow::Status::Invalid("is empty");
  reading.flags.nodes.*Field = text;
  return arrow::Status::OK();
}

template <std::string RayFlags::* Field>
arrow::Status take_ray_text(Reading& reading, const std::string& text) {
  if (text.empty()) return arrow::Status::Invalid("is empty");
  reading.flags.ray.*Field = text;
  return arrow::Status::OK();
}

// "a,b,c", or a file with a name in each line, as of MPI: what stands behind it ("slots=8") does not matter.
arrow::Status take_hosts(Reading& reading, const std::string& text) {
  std::vector<std::string>& hosts = reading.flags.hosts;
  hosts.clear();
  std::error_code error;
  if (std::filesystem::is_regular_file(text, error)) {
    std::ifstream file(text);
    for (std::string line; std::getline(file, line);) {
      std::istringstream words(line.substr(0, line.find('#')));
      if (std::string host; words >> host) hosts.push_back(host);
    }
  } else if (text.find('/') != std::string::npos) {
    return arrow::Status::Invalid("is \"", text, "\": there is no such file");
  } else {
    std::istringstream names(text);
    for (std::string name; std::getline(names, name, ',');) {
      std::erase(name, ' ');
      if (!name.empty()) hosts.push_back(name);
    }
  }
  if (!hosts.empty()) return arrow::Status::OK();
  return arrow::Status::Invalid("is \"", text,
                                "\"; allowed: names of machines with commas between them, or a file with one "
                                "in each line");
}

template <bool RunFlags::* Field>
arrow::Status take_switch(Reading& reading, const std::string&) {
  reading.flags.*Field = true;
  return arrow::Status::OK();
}

template <bool launch::ProgramChoice::* Field>
arrow::Status take_choice(Reading& reading, const std::string&) {
  reading.flags.program.*Field = true;
  return arrow::Status::OK();
}

// Why some flags change nothing before a program that calls fit().
constexpr const char* kOwnPlace = "it tells its workers their place by get_context()";
constexpr const char* kOwnGroup = "its workers meet over Paceline's own store";
constexpr const char* kOwnNodes = "its ScalingConfig says where its nodes come from";
constexpr const char* kOwnOutput = "it shows the output of all its workers, or none with --quiet";

arrow::Status accept(Reading&, const std::string&) {
  return arrow::Status::OK();
}

}  // namespace

const std::vector<Flag>& own_flags() {
  static const std::vector<Flag> flags = {
      {"num-workers", 'n', "N", nullptr, nullptr, "Ranks to start on this node: a number, auto, cpu or gpu; default 1",
       [](Reading& r, const std::string& text) { return take_workers(text, r, r.flags.num_workers); }},
      {"name", 0, "NAME", nullptr, nullptr,
       "Name of the run and of its folder; by default the program's name, the time and a unique ending",
       take_text<&RunFlags::name>},
      {"storage-path", 0, "PATH", nullptr, nullptr, "Folder that holds run folders; by default ~/paceline_results",
       take_text<&RunFlags::storage_path>},
      {"debug-rank", 0, "RANK", nullptr, nullptr,
       "Run this rank under gdb (pdb for Python) on the terminal; the others write only to their logs",
       [](Reading& r, const std::string& text) {
         return integer(text, 0, "a rank").Value(&r.flags.debug_rank.emplace());
       }},
      {"token-file", 0, "FILE", nullptr, nullptr,
       "With several nodes: file that the first writes and the others read, a secret; by default in ~/.paceline",
       take_node_text<&NodeFlags::token_file>, kOwnNodes, false, true},
      {"engine", 0, "NAME", "ray", nullptr,
       "ray: run as a job of a Ray cluster, with the ranks on its nodes; -n counts all of them",
       take_text<&RunFlags::engine>, nullptr, true},
      {"address", 0, "URL", nullptr, nullptr,
       "With --engine ray: its dashboard, http://HEAD:8265; by default RAY_API_SERVER_ADDRESS, else this machine's",
       take_ray_text<&RayFlags::address>, nullptr, true},
      {"working-dir", 0, "FOLDER", nullptr, nullptr,
       "With --engine ray: folder that the cluster gets a copy of, in which the program runs there",
       take_ray_text<&RayFlags::working_dir>, nullptr, true},
      {"runtime-env", 0, "FILE", nullptr, nullptr,
       "With --engine ray: JSON file with what Ray calls runtime_env: env_vars, pip, …",
       take_ray_text<&RayFlags::runtime_env>, nullptr, true},
      {"resources-per-worker", 0, "NAME=AMOUNT,…", nullptr, nullptr,
       "With --engine ray: what each rank needs of its node, such as CPU=4,GPU=1; default CPU=1",
       [](Reading& r, const std::string& text) { return take_resources(text, r.flags.ray.resources_per_worker); },
       "its ScalingConfig says what its workers need"},
      {"hosts", 0, "HOSTS", nullptr, nullptr,
       "Machines on which ssh starts the workers, --num-workers on each (in all of a program that calls fit()): a,b,c, "
       "or "
       "a file with a name in each line",
       take_hosts},
      {"driver", 0, nullptr, nullptr, nullptr,
       "The program calls fit(), which starts the workers: start it once. Of C++ programs that is found out",
       take_switch<&RunFlags::driver>},
      {"ship", 0, nullptr, nullptr, nullptr,
       "With --hosts, of a C++ program that calls fit(): send it to the machines, with its libraries",
       take_switch<&RunFlags::ship>},
      {"quiet", 'q', nullptr, nullptr, nullptr, "Print only what the programs print, warnings and errors",
       take_switch<&RunFlags::quiet>},
      {"help", 'h', nullptr, nullptr, nullptr, "Print this help", take_switch<&RunFlags::help>},
  };
  return flags;
}

const std::vector<Flag>& torchrun_flags() {
  static const std::vector<Flag> flags = {
      {"nproc-per-node", 0, "N", nullptr, "PET_NPROC_PER_NODE", "The same as --num-workers: a number, auto, cpu or gpu",
       [](Reading& r, const std::string& text) { return take_workers(text, r, r.nproc); }},
      {"nnodes", 0, "N", nullptr, "PET_NNODES",
       "Nodes: a number, or MIN:MAX for MIN and those that come besides before the start; default 1", take_nodes},
      {"standalone", 0, nullptr, nullptr, "PET_STANDALONE", "Accepted: one node needs no other",
       [](Reading& r, const std::string&) {
         r.standalone = true;
         return arrow::Status::OK();
       }},
      {"max-restarts", 0, "N", nullptr, "PET_MAX_RESTARTS", "Restarts of all ranks after one has failed; default 0",
       [](Reading& r, const std::string& text) {
         return integer(text, 0, "a number from 0").Value(&r.flags.max_restarts.emplace());
       }},
      {"rdzv-backend", 0, "NAME", nullptr, "PET_RDZV_BACKEND", "Accepted: nodes meet at the first, whatever it is",
       accept, kOwnNodes},
      {"rdzv-endpoint", 0, "HOST:PORT", nullptr, "PET_RDZV_ENDPOINT",
       "Where the first node is, in the place of --master-addr and --master-port; default port 29400",
       [](Reading& r, const std::string& text) {
         r.endpoint = text;
         return arrow::Status::OK();
       },
       kOwnNodes, false, true},
      {"rdzv-id", 0, "ID", nullptr, "PET_RDZV_ID",
       "TORCHELASTIC_RUN_ID of the programs; the token file is named after it",
       [](Reading& r, const std::string& text) {
         r.flags.run_id = text;
         return arrow::Status::OK();
       },
       kOwnPlace},
      {"rdzv-conf", 0, "KEY=VALUE,…", nullptr, "PET_RDZV_CONF",
       "join_timeout (600 s), last_call_timeout (30 s), keep_alive_interval, keep_alive_max_attempt, is_host; no "
       "others",
       take_rendezvous, kOwnNodes},
      {"monitor-interval", 0, "SECONDS", nullptr, "PET_MONITOR_INTERVAL",
       "No effect: the end of a rank is noticed at once", nullptr},
      {"start-method", 0, "METHOD", "spawn|fork|forkserver", "PET_START_METHOD",
       "No effect: every rank is a fresh process", nullptr},
      {"event-log-handler", 0, "NAME", nullptr, "PET_EVENT_LOG_HANDLER",
       "No effect: events are in the run folder's journal",
       [](Reading& r, const std::string& text) {
         return text == "null" ? arrow::Status::OK()
                               : note(r, "--event-log-handler " + text +
                                             " is not used: events are in the run folder's " + run_layout::kJournal);
       }},
      {"role", 0, "NAME", nullptr, "PET_ROLE", "ROLE_NAME of the programs",
       [](Reading& r, const std::string& text) {
         r.flags.role = text;
         return arrow::Status::OK();
       },
       kOwnPlace},
      {"module", 'm', nullptr, nullptr, "PET_MODULE", "The program is the name of a Python module: python -m",
       take_choice<&launch::ProgramChoice::module>},
      {"no-python", 0, nullptr, nullptr, "PET_NO_PYTHON",
       "Run the program without Python (executables always run without)",
       take_choice<&launch::ProgramChoice::no_python>},
      {"run-path", 0, nullptr, nullptr, "PET_RUN_PATH", "Accepted: scripts always run with Python", accept},
      {"log-dir", 0, "PATH", nullptr, "PET_LOG_DIR", "No effect: logs are in the run folder, below --storage-path",
       nullptr},
      {"redirects", 'r', "STREAMS", nullptr, "PET_REDIRECTS",
       "These streams go to the logs only: 1 standard output, 2 standard error, 3 both; 0:1,1:3 by rank",
       [](Reading& r, const std::string& text) { return take_streams(text, r.flags.shown.redirected); }, kOwnOutput},
      {"tee", 't', "STREAMS", nullptr, "PET_TEE",
       "These streams go to the logs and the terminal, as all streams do by default",
       [](Reading& r, const std::string& text) { return take_streams(text, r.flags.shown.shown_too); }},
      {"local-ranks-filter", 0, "RANKS", nullptr, "PET_LOCAL_RANKS_FILTER", "The terminal shows these ranks only: 0,1",
       [](Reading& r, const std::string& text) { return take_ranks(text, r.flags.shown.ranks); }, kOwnOutput},
      {"duplicate-stdout-filters", 0, "WORDS", nullptr, "PET_DUPLICATE_STDOUT_FILTERS",
       "No effect: there is one log for each rank; `paceline logs` and grep find what is in them", nullptr},
      {"duplicate-stderr-filters", 0, "WORDS", nullptr, "PET_DUPLICATE_STDERR_FILTERS",
       "No effect: there is one log for each rank; `paceline logs` and grep find what is in them", nullptr},
      {"node-rank", 0, "N", nullptr, "PET_NODE_RANK",
       "Number of this node, with every backend; by default 0, or as nodes come with --rdzv-endpoint",
       [](Reading& r, const std::string& text) {
         return integer(text, 0, "a number from 0").Value(&r.flags.nodes.rank.emplace());
       },
       nullptr, false, true},
      {"master-addr", 0, "ADDRESS", nullptr, "PET_MASTER_ADDR",
       "Where node 0 is; with one node MASTER_ADDR of the programs, which must be this machine's",
       [](Reading& r, const std::string& text) -> arrow::Status {
         if (text.empty()) return arrow::Status::Invalid("is empty; leave it out for 127.0.0.1");
         r.flags.master_address = text;
         r.has_master_address = true;
         return arrow::Status::OK();
       },
       kOwnGroup, false, true},
      {"master-port", 0, "PORT", nullptr, "PET_MASTER_PORT",
       "Where node 0 listens, default 29500; with one node MASTER_PORT of the programs, by default a free port",
       [](Reading& r, const std::string& text) -> arrow::Status {
         ARROW_ASSIGN_OR_RAISE(r.flags.master_port, integer(text, 0, "0 (any that is free) to 65535"));
         if (*r.flags.master_port <= 65535) return arrow::Status::OK();
         return arrow::Status::Invalid("is ", text, "; allowed: 0 (any that is free) to 65535");
       },
       kOwnGroup, false, true},
      {"local-addr", 0, "ADDRESS", nullptr, "PET_LOCAL_ADDR",
       "With several nodes: where the others' ranks reach those here; by default found out",
       take_node_text<&NodeFlags::local_address>, kOwnNodes, false, true},
      {"logs-specs", 0, "NAME", nullptr, nullptr, "Refused: Paceline writes the logs",
       [](Reading&, const std::string& text) {
         return arrow::Status::Invalid("is \"", text,
                                       "\", a plug-in of torchrun; leave it out: logs are in the run folder");
       }},
      {"numa-binding", 0, "MODE", "node|socket|exclusive|core-complex", nullptr,
       "No effect: ranks are not bound to cores", nullptr},
      {"signals-to-handle", 0, "NAMES", nullptr, "PET_SIGNALS_TO_HANDLE",
       "Signals that are passed on and stop the run; default SIGTERM,SIGINT,SIGHUP,SIGQUIT", take_signals,
       "SIGINT and SIGTERM stop it"},
      {"shutdown-timeout", 0, "SECONDS", nullptr, "PET_SHUTDOWN_TIMEOUT",
       "Seconds that programs have to end by themselves before they are killed; default 30",
       [](Reading& r, const std::string& text) -> arrow::Status {
         ARROW_ASSIGN_OR_RAISE(const int64_t seconds, integer(text, 0, "seconds, a number from 0"));
         r.flags.shutdown_timeout_s = static_cast<double>(seconds);
         return arrow::Status::OK();
       },
       "its FailureConfig says stop_grace_s"},
      {"virtual-local-rank", 0, nullptr, nullptr, "PET_VIRTUAL_LOCAL_RANK",
       "Every rank has LOCAL_RANK 0, and its own GPU in CUDA_VISIBLE_DEVICES",
       take_switch<&RunFlags::virtual_local_rank>, "get_device() gives each worker its GPU"},
  };
  return flags;
}

}  // namespace paceline::cli
