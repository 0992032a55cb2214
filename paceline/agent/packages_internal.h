// AgentPackages: the run's code on this node. It asks the controller for what this machine's cache lacks, unpacks it in
// the agent's folder, and puts it before processes that start.
//
// Threading: the agent's loop, but for one thread that unpacks. Ownership: `send` and `done` outlive it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "paceline/package/cache.h"
#include "paceline/package/manifest.h"
#include "paceline/rpc/package_messages.h"

namespace paceline::agent {

class AgentPackages {
 public:
  using Send = std::function<void(rpc::Envelope)>;
  using Done = std::function<void()>;
  /// `folder`: of the agent, which is deleted with it. `done` is called once, when all is there or nothing can be.
  AgentPackages(boost::asio::io_context& loop, std::string folder, Send send, Done done);
  /// Waits for the thread that unpacks.
  ~AgentPackages();
  AgentPackages(const AgentPackages&) = delete;
  AgentPackages& operator=(const AgentPackages&) = delete;

  void take(const rpc::Packages& wanted);
  void take(const rpc::PackagePart& part, const std::string& bytes);

  /// Whether processes have to wait.
  bool are_awaited() const { return state_ == State::fetching || state_ == State::unpacking; }
  /// Why none can be started; "" where they can.
  const std::string& problem() const { return problem_; }
  /// Says in `start` where what it needs is. After they were awaited, without a problem.
  void put_before(rpc::StartProcess& start) const;

 private:
  enum class State { none, fetching, unpacking, there };
  struct Wanted {
    rpc::PackageName name;
    std::optional<package::Manifest> manifest;
    std::string folder;
  };
  // A content that is not in the cache.
  struct Content {
    std::string sha256;
    int64_t bytes = 0;
    std::optional<package::Cache::Writer> writer;
  };

  arrow::Status begin(const rpc::Packages& wanted);
  arrow::Status add(const rpc::PackagePart& part, const std::string& bytes);
  arrow::Status go_on();
  void want(const std::string& sha256, int64_t bytes);
  void ask();
  void unpack();
  void finish(const arrow::Status& status);

  boost::asio::io_context& loop_;
  const std::string folder_;
  const Send send_;
  const Done done_;
  State state_ = State::none;
  std::string problem_;
  std::optional<package::Cache> cache_;
  std::vector<Wanted> packages_;
  std::deque<Content> contents_;  // the first is being written
  size_t asking_ = 0;             // which of them is asked for
  int64_t asked_ = 0;             // of that one's bytes
  std::deque<int64_t> due_;       // bytes of the requests on their way
  std::thread thread_;
};

}  // namespace paceline::agent
