// Ranks that are processes, of which some are killed: forks of a test program that has no threads yet.
//
// Neither threads nor LibTorch's autograd live on in a fork. So a test program with such tests does nothing else, and
// leaves all work with tensors to the ranks.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <torch/torch.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "paceline/comm/group.h"
#include "paceline/core/json.h"
#include "paceline/testing/file_key_value.h"
#include "paceline/testing/temporary_folder.h"

namespace paceline::testing {

/// How long anything may take, on a machine with other work.
inline constexpr std::chrono::seconds kPatience{60};

/// One of the processes, as it sees itself. Words are heard by all processes of the run.
class RankProcess {
 public:
  RankProcess(int64_t number, std::string folder) : number_(number), folder_(std::move(folder)), words_(folder_) {}

  /// Stays the same, whatever its rank in groups is.
  int64_t number() const { return number_; }

  /// A group of the processes that come by this name; collective.
  std::shared_ptr<comm::Group> meet(const std::string& name, int64_t rank, int64_t world_size,
                                    comm::GroupOptions options = {}) const {
    options.rank = rank;
    options.world_size = world_size;
    options.timeout = kPatience;
    return comm::Group::create(options, std::make_shared<FileKeyValue>(folder_ + "/" + name));
  }

  void say(const std::string& word) { (void)words_.set(word, milliseconds_now()); }
  void wait_for(const std::string& word) {
    const arrow::Status status = words_.wait({word}, kPatience);
    if (!status.ok()) throw std::runtime_error(status.message());
  }
  void wait_for_end_of(int64_t number) { wait_for(ended(number)); }

  /// Its process is gone at once, as if the machine's memory had run out.
  void die() {
    say("dies");
    ::raise(SIGKILL);
  }
  /// Since one has died.
  int64_t milliseconds_since_death() {
    return std::stoll(milliseconds_now()) - std::stoll(words_.get("dies", kPatience).ValueOrDie());
  }

  static std::string ended(int64_t number) { return "ended_" + std::to_string(number); }

 private:
  static std::string milliseconds_now() {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
  }

  const int64_t number_;
  const std::string folder_;
  FileKeyValue words_;
};

/// How a process has ended: killed, or with what its body gave.
struct RankEnd {
  bool is_killed = false;
  Json gave;
};

/// Runs `body` in so many processes, and waits for all. One that throws fails the test.
inline std::vector<RankEnd> run_rank_processes(int64_t processes, const std::function<Json(RankProcess&)>& body) {
  const TemporaryFolder folder;
  FileKeyValue words(folder.path());
  std::vector<pid_t> children;
  for (int64_t number = 0; number < processes; ++number) {
    children.push_back(::fork());
    if (children.back() != 0) continue;
    ::alarm(static_cast<unsigned>(2 * kPatience.count()));
    torch::set_num_threads(1);
    int code = 0;
    Json gave;
    try {
      RankProcess self(number, folder.path());
      gave = body(self);
    } catch (const std::exception& error) {
      code = 1;
      gave = error.what();
    }
    (void)words.set("gave_" + std::to_string(number), gave.dump());
    ::_exit(code);
  }
  std::vector<RankEnd> ends(children.size());
  for (size_t left = children.size(); left > 0; --left) {
    int status = 0;
    const pid_t child = ::waitpid(-1, &status, 0);
    const auto number = static_cast<size_t>(std::ranges::find(children, child) - children.begin());
    if (number == children.size()) {
      ADD_FAILURE() << "a child of nobody here: " << child;
      break;
    }
    (void)words.set(RankProcess::ended(static_cast<int64_t>(number)), "");
    ends[number].is_killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    if (WIFEXITED(status)) ends[number].gave = Json::parse(*words.get("gave_" + std::to_string(number), kPatience));
    EXPECT_TRUE(ends[number].is_killed || status == 0) << "process " << number << ": " << ends[number].gave;
  }
  return ends;
}

/// All numbers of some tensors, without loss, and back.
inline Json numbers_of(const std::vector<torch::Tensor>& tensors) {
  std::vector<double> numbers;
  for (const torch::Tensor& tensor : tensors) {
    const torch::Tensor values = tensor.detach().to(torch::kDouble).contiguous();
    numbers.insert(numbers.end(), values.const_data_ptr<double>(), values.const_data_ptr<double>() + values.numel());
  }
  return numbers;
}
inline void set_numbers(const Json& numbers, const std::vector<torch::Tensor>& tensors) {
  const torch::NoGradGuard no_grad;
  const torch::Tensor all = torch::tensor(numbers.get<std::vector<double>>(), torch::kDouble);
  int64_t place = 0;
  for (const torch::Tensor& tensor : tensors) {
    tensor.copy_(all.narrow(0, place, tensor.numel()).view(tensor.sizes()));
    place += tensor.numel();
  }
}

}  // namespace paceline::testing
