// ScalingConfig: how many workers, and what each of them gets.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "paceline/core/config/field.h"

namespace paceline {

/// A number of workers, or a range {min, max} for elastic runs (today a range runs at its maximum).
struct NumWorkers {
  /// The smallest number of workers that is enough.
  int64_t min = 1;
  /// The largest number of workers.
  int64_t max = 1;

  NumWorkers() = default;
  /// Exactly `count`.
  NumWorkers(int64_t count) : min(count), max(count) {}  // NOLINT: `.num_workers = 2` is the usual form
  /// Exactly `count`.
  NumWorkers(int count) : min(count), max(count) {}  // NOLINT: so that {2, 4} is never ambiguous
  /// From `low` to `high`.
  NumWorkers(int64_t low, int64_t high) : min(low), max(high) {}

  bool operator==(const NumWorkers&) const = default;
  friend void to_json(Json& json, const NumWorkers& workers);
  friend void from_json(const Json& json, NumWorkers& workers);
};

/// 0 or more, or a range with min ≤ max and max at least 1.
Constraint worker_count();

/// Amounts by name: "CPU", "GPU".
using Resources = std::map<std::string, double>;
/// Labels of nodes by name.
using Labels = std::map<std::string, std::string>;

/// Each 0 or more.
Constraint resource_amounts();

#define PACELINE_SCALING_CONFIG_FIELDS(FIELD)                                                                          \
  FIELD(                                                                                                               \
      ::paceline::NumWorkers, num_workers, 1, ::paceline::worker_count(),                                              \
      "Number of worker processes; 0 runs the train loop in the calling process; of a range the run uses the maximum") \
  FIELD(bool, use_gpu, false, ::paceline::any_value(), "Each worker gets one GPU, and collectives use NCCL")           \
  FIELD(::paceline::Resources, resources_per_worker, {}, ::paceline::resource_amounts(),                               \
        "What each worker needs of its node: \"CPU\", \"GPU\" (0.5 is half of one), \"memory\" in bytes, and others "  \
        "that "                                                                                                        \
        "`paceline agent --resource` names; empty: one CPU, and one GPU with use_gpu")                                 \
  FIELD(                                                                                                               \
      ::paceline::Labels, label_selector, {}, ::paceline::any_value(),                                                 \
      "Labels that a worker's node must have (`paceline agent --label`): \"a\", \"!a\", \"in(a,b)\" or \"!in(a,b)\"")  \
  FIELD(std::optional<std::string>, accelerator_type, std::nullopt, ::paceline::any_value(),                           \
        "What GPUs a worker's node must have, such as \"A100\": its label accelerator_type, which agents find out")    \
  FIELD(std::optional<int64_t>, threads_per_worker, std::nullopt, ::paceline::at_least(1),                             \
        "Threads that LibTorch uses in each worker; by default cores / workers, at least 1")                           \
  FIELD(                                                                                                               \
      std::string, engine, "auto",                                                                                     \
      ::paceline::one_of({"auto", "local", "agents", "local_and_agents", "hosts", "slurm", "ray"}),                    \
      "Where the workers' machines come from; \"local\" is this machine, \"agents\" are those on which somebody has "  \
      "started `paceline agent`, \"local_and_agents\" is both, \"hosts\" those of `hosts`, \"slurm\" the nodes of "    \
      "the Slurm job that this is, "                                                                                   \
      "\"ray\" those of a Ray cluster; "                                                                               \
      "\"auto\": `hosts` or `token_file` where they are set, Ray's in a job of `paceline run --engine ray`, the "      \
      "nodes "                                                                                                         \
      "of a Slurm job that has several, else this machine")                                                            \
  FIELD(::paceline::Words, hosts, {}, ::paceline::any_value(),                                                         \
        "With engine \"hosts\": names of machines, as ssh takes them; ssh starts an agent on each")                    \
  FIELD(::paceline::Words, agent_command, {}, ::paceline::any_value(),                                                 \
        "With engines \"hosts\" and \"slurm\": the program `paceline` there, with what stands before its arguments; "  \
        "by default the one of this machine's PATH, of a Python program its interpreter with -m paceline")             \
  FIELD(std::optional<int64_t>, nodes, std::nullopt, ::paceline::at_least(1),                                          \
        "How many agents the first worker group waits for; others that come are spare; by default one with agents "    \
        "that somebody starts, all with \"hosts\" and \"slurm\"")                                                      \
  FIELD(std::string, listen, "", ::paceline::any_value(),                                                              \
        "This machine's address for agents, HOST:PORT; port 0 is any that is free; needed by engines \"agents\" and "  \
        "\"local_and_agents\", by default the one from which the others are reached")                                  \
  FIELD(std::string, token_file, "", ::paceline::any_value(),                                                          \
        "With engines \"agents\" and \"local_and_agents\": file that the driver writes, and agents read: where it "    \
        "is, and what proves it")                                                                                      \
  FIELD(bool, ship, false, ::paceline::any_value(),                                                                    \
        "For C++: nodes on other machines get this program and its libraries, but for the system's, from here; they "  \
        "need not be there")                                                                                           \
  FIELD(std::string, placement_strategy, "PACK",                                                                       \
        ::paceline::one_of({"PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"}),                                        \
        "How workers are placed on nodes: on as few as they fit on, or one after the other on each; strictly: all on " \
        "one, each on its own")                                                                                        \
  FIELD(bool, use_tpu, false, ::paceline::any_value(), "True is refused: Paceline has no TPU support")                 \
  FIELD(std::optional<std::string>, topology, std::nullopt, ::paceline::any_value(),                                   \
        "TPU topology; any is refused: Paceline has no TPU support")
PACELINE_CONFIG(ScalingConfig, PACELINE_SCALING_CONFIG_FIELDS);

/// Throws ConfigError for what no machine can provide: TPUs, and GPUs for workers that use none; and for hosts where
/// the machines come from elsewhere.
void refuse_impossible(const ScalingConfig& scaling);

/// Number of GPUs of each worker. Below 1 it is a part of a GPU that the worker shares with others; otherwise these are
/// whole GPUs of its own. It is what `resources_per_worker` asks for, else 1 with use_gpu and 0 without.
double gpus_per_worker(const ScalingConfig& scaling);
/// Number of CPUs of each worker, as Ray Train counts them: what `resources_per_worker` asks for, else 1, and 0 with
/// use_gpu.
double cpus_per_worker(const ScalingConfig& scaling);
/// How many workers with `each` GPUs (more than 0) fit on `gpus`. A worker with a part of a GPU never gets parts of
/// two.
int64_t workers_that_fit(int64_t gpus, double each);
/// How many GPUs this many workers take.
int64_t gpus_for(int64_t workers, double each);
/// The first GPU of the worker with this local rank.
int64_t first_gpu(int64_t local_rank, double each);
/// "1 GPU", "2 GPUs", "0.5 GPU".
std::string gpus_text(double gpus);

}  // namespace paceline
