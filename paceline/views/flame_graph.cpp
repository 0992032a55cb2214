#include "paceline/views/flame_graph.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "paceline/rpc/profile_kind.h"
#include "paceline/views/readable_text.h"

namespace paceline::views {
namespace {

// Puts stacks into the graph's tree, each function and each way to it once.
class Tree {
 public:
  explicit Tree(FlameGraph& graph) : graph_(graph) {}

  int64_t frame_of(const stacks::StackFrame& frame) {
    const auto [found, is_new] =
        frames_.try_emplace(std::tuple(frame.function, frame.file, frame.module), std::ssize(graph_.frames));
    if (is_new) {
      graph_.frames.push_back({.function = readable(frame.function),
                               .file = readable(frame.file),
                               .line = frame.line,
                               .module = readable(frame.module)});
    }
    return found->second;
  }
  // The node of that function below `parent`, or, with -1, outermost.
  int64_t node_below(int64_t parent, int64_t frame) {
    const auto [found, is_new] = nodes_.try_emplace(std::pair(parent, frame), std::ssize(graph_.parent));
    if (is_new) {
      graph_.parent.push_back(parent);
      graph_.frame.push_back(frame);
    }
    return found->second;
  }

 private:
  FlameGraph& graph_;
  std::map<std::tuple<std::string, std::string, std::string>, int64_t> frames_;
  std::map<std::pair<int64_t, int64_t>, int64_t> nodes_;
};

FlameThread thread_of(const stacks::ThreadProfile& thread, const std::vector<int64_t>& frames, int64_t process,
                      bool is_idle, Tree& tree) {
  std::map<int64_t, int64_t> counts;  // stacks that differ in their lines alone end at one node
  for (const stacks::CountedStack& stack : thread.stacks) {
    int64_t node = -1;
    for (const int64_t at : stack.frames) node = tree.node_below(node, frames[static_cast<size_t>(at)]);
    if (node >= 0) counts[node] += stack.count;
  }
  FlameThread added{.process = process,
                    .is_idle = is_idle,
                    .tid = thread.tid,
                    .name = readable(thread.name),
                    .language = thread.language};
  for (const auto& [node, count] : counts) {
    added.nodes.push_back(node);
    added.counts.push_back(count);
  }
  return added;
}

}  // namespace

FlameGraph flame_graph_of(const run::ReadProfile& read) {
  FlameGraph graph{.profile = read.profile};
  const bool shows_waits = rpc::shows_waits(read.profile.kind);
  Tree tree(graph);
  for (const stacks::Profile& profile : read.taken) {
    const int64_t process = std::ssize(graph.processes);
    graph.processes.push_back({.worker = profile.worker,
                               .rank = profile.rank,
                               .node = profile.node,
                               .pid = profile.pid,
                               .rate = profile.rate,
                               .seconds = profile.seconds,
                               .unit = profile.unit,
                               .dropped = profile.dropped,
                               .ways = profile.ways,
                               .problems = profile.problems});
    std::vector<int64_t> frames;
    for (const stacks::StackFrame& frame : profile.frames) frames.push_back(tree.frame_of(frame));
    for (const stacks::ThreadProfile& thread : profile.threads) {
      const bool is_idle = shows_waits && stacks::waited_all_the_time(profile, thread);
      graph.threads.push_back(thread_of(thread, frames, process, is_idle, tree));
    }
  }
  return graph;
}

}  // namespace paceline::views
