#include "paceline/cli/ray/job.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>

#include "paceline/cli/agent_program.h"
#include "paceline/cli/command.h"
#include "paceline/cli/ray/jobs_client.h"
#include "paceline/transport/trust.h"

namespace paceline::cli {
namespace {

namespace fs = std::filesystem;
using Moment = std::chrono::steady_clock::time_point;
using Seconds = std::chrono::duration<double>;

constexpr Seconds kLookEvery{1};
// Where its log cannot be followed, all of it comes with each question: there are fewer the longer an answer takes.
constexpr double kPauses = 10;  // as long as an answer
constexpr Seconds kLongestPause{30};
constexpr Seconds kFollowAgain{10};
constexpr Seconds kSilence{120};
constexpr Seconds kBusy{60};
// What a run needs to end after its workers have had their grace; Ray kills after that.
constexpr int64_t kEndSeconds = 15;

void say(const RunFlags& flags, const std::string& text) {
  if (!flags.quiet) std::fprintf(stderr, "paceline: %s\n", text.c_str());
}

std::string quoted(const std::string& word) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789%+,-./:=@_";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

bool is_path(const std::string& word) {
  return word.find('/') != std::string::npos || fs::path(word).extension() == ".py";
}

// The cluster has the working directory, and what is on its nodes already.
arrow::Status check_program(const RunFlags& flags, const std::string& folder) {
  const std::string& word = flags.program.words.front();
  if (flags.program.module || !is_path(word) || fs::path(word).is_absolute()) return arrow::Status::OK();
  if (folder.empty()) {
    return arrow::Status::Invalid(
        "the program ", word, " is a path in a folder that the cluster does not have; ",
        "--working-dir FOLDER takes it there (an absolute path is one of the cluster's nodes)");
  }
  std::error_code error;
  if (fs::exists(fs::path(folder) / word, error)) return arrow::Status::OK();
  return arrow::Status::Invalid("there is no program ", word, " in ", folder, ", the folder that the cluster gets");
}

arrow::Result<Json> read_runtime_env(const std::string& path) {
  if (path.empty()) return Json::object();
  std::ifstream file(path);
  if (!file) return arrow::Status::Invalid("--runtime-env: cannot read ", path);
  const auto json = decode_json(std::string(std::istreambuf_iterator<char>(file), {}));
  if (json.ok() && json->is_object()) return json;
  return arrow::Status::Invalid("--runtime-env: ", path,
                                " is no JSON object, such as {\"env_vars\": {\"NAME\": \"value\"}}");
}

// Of the job: what the user says, the package, and the time that a stopped run has.
arrow::Result<Json> runtime_env_of(const RunFlags& flags, JobsClient& client) {
  ARROW_ASSIGN_OR_RAISE(Json runtime_env, read_runtime_env(flags.ray.runtime_env));
  std::string folder = flags.ray.working_dir;
  const auto given = runtime_env.find("working_dir");
  if (folder.empty() && given != runtime_env.end() && given->is_string()) {
    const auto text = given->get<std::string>();
    if (text.find("://") == std::string::npos) folder = text;
  }
  if (given == runtime_env.end() || !folder.empty()) ARROW_RETURN_NOT_OK(check_program(flags, folder));
  if (!folder.empty()) {
    ARROW_ASSIGN_OR_RAISE(const Package package, make_package(folder));
    ARROW_ASSIGN_OR_RAISE(const bool is_new, client.upload(package));
    runtime_env["working_dir"] = "gcs://" + package.name;
    say(flags, folder + ": " + std::to_string(package.files) + " files, " +
                   std::to_string((package.bytes.size() + (1 << 20) - 1) >> 20) + " MiB, " +
                   (is_new ? "sent to the cluster" : "are on the cluster already"));
  }
  Json& variables = runtime_env["env_vars"];
  if (variables.is_null()) variables = Json::object();
  if (!variables.is_object()) return arrow::Status::Invalid("--runtime-env: env_vars is no object of texts by name");
  const auto grace = static_cast<int64_t>(flags.shutdown_timeout_s) + kEndSeconds;
  if (!variables.contains("RAY_JOB_STOP_WAIT_TIME_S")) variables["RAY_JOB_STOP_WAIT_TIME_S"] = std::to_string(grace);
  return runtime_env;
}

// A job that was submitted, up to its end.
class Following {
 public:
  Following(const RunFlags& flags, JobsClient& client, std::string id, HeardSignals& signals)
      : flags_(flags), client_(client), id_(std::move(id)), signals_(signals) {}

  arrow::Result<int> follow() {
    while (true) {
      const Moment began = std::chrono::steady_clock::now();
      ARROW_ASSIGN_OR_RAISE(const std::optional<RayJob> job, look());
      if (job && job->is_over()) return exit_code_of(*job);
      const Moment now = std::chrono::steady_clock::now();
      const Seconds pause = std::clamp<Seconds>(kPauses * (now - began), kLookEvery, kLongestPause);
      const int signal = wait(now + std::chrono::duration_cast<std::chrono::nanoseconds>(tail_ ? kLookEvery : pause));
      if (signal == 0) continue;
      if (stopped_by_ != 0) {
        say(flags_, "not waited for any longer: Ray ends the job " + id_);
        return 128 + signal;
      }
      if (const arrow::Status stopped = client_.stop(id_); !stopped.ok()) {
        say(flags_, "the job cannot be stopped: " + stopped.message());
        continue;
      }
      stopped_by_ = signal;
      say(flags_, "stopping the job; once more leaves it to Ray");
    }
  }

 private:
  // How it stands, and what it has written, unless that comes by itself. Nothing while the cluster does not answer.
  arrow::Result<std::optional<RayJob>> look() {
    const auto job = client_.job(id_);
    arrow::Status status = job.status();
    if (job.ok() && !job->is_over()) follow_log();
    if (job.ok() && (job->is_over() || !tail_)) status = show_all();  // after the question: all up to its end
    if (status.ok()) {
      silent_since_.reset();
      return *job;
    }
    if (!status.IsIOError()) return status;
    const Moment now = std::chrono::steady_clock::now();
    if (!silent_since_) silent_since_ = now;
    if (now - *silent_since_ < kSilence) return std::nullopt;
    return arrow::Status::IOError("how the job ", id_, " goes on is not known, since ", status.message(),
                                  "; `ray job status ", id_, "` asks again");
  }

  void follow_log() {
    const Moment now = std::chrono::steady_clock::now();
    if (tail_ || now < follow_at_) return;
    follow_at_ = now + std::chrono::duration_cast<std::chrono::nanoseconds>(kFollowAgain);
    auto tail = client_.follow(id_);
    if (!tail.ok()) return;
    tail_ = *std::move(tail);
    to_skip_ = shown_;  // it begins at the first line
  }

  // Shows what comes until then; gives a signal.
  int wait(Moment until) {
    while (true) {
      const bool follows = tail_ != nullptr;
      const int signal = signals_.wait(follows ? std::vector{tail_->descriptor()} : std::vector<int>{}, until);
      if (follows) take_tail();
      if (signal != 0 || std::chrono::steady_clock::now() >= until) return signal;
    }
  }

  void take_tail() {
    const auto received = tail_->receive();
    if (received.ok()) {
      const size_t skipped = std::min(to_skip_, received->text.size());
      to_skip_ -= skipped;
      show(std::string_view(received->text).substr(skipped));
    }
    if (!received.ok() || received->is_closed) tail_.reset();
  }

  arrow::Status show_all() {
    ARROW_ASSIGN_OR_RAISE(const std::string logs, client_.logs(id_));
    if (logs.size() > shown_) show(std::string_view(logs).substr(shown_));
    return arrow::Status::OK();
  }

  void show(std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
    shown_ += text.size();
  }

  int exit_code_of(const RayJob& job) const {
    if (job.status == "SUCCEEDED") return kDone;
    if (job.status == "STOPPED") {
      say(flags_, "the job " + id_ + " was stopped");
      return 128 + (stopped_by_ != 0 ? stopped_by_ : SIGTERM);
    }
    if (!job.exit_code) {  // its command never ran, or was lost with its node
      std::fprintf(stderr, "paceline: the job %s has failed: %s\n", id_.c_str(), job.message.c_str());
      return kFailed;
    }
    const int64_t code = *job.exit_code;
    return code == 0 ? kFailed : static_cast<int>(code < 0 ? 128 - code : code);
  }

  const RunFlags& flags_;
  JobsClient& client_;
  const std::string id_;
  HeardSignals& signals_;
  std::unique_ptr<WebSocket> tail_;
  Moment follow_at_{};
  size_t shown_ = 0;    // bytes of its log
  size_t to_skip_ = 0;  // of what the tail repeats
  int stopped_by_ = 0;
  std::optional<Moment> silent_since_;
};

// A head that has just started takes no jobs for some seconds, and says so.
arrow::Status submit(JobsClient& client, const std::string& id, const std::string& command, const Json& runtime_env,
                     HeardSignals& signals) {
  const Moment deadline =
      std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::nanoseconds>(kBusy);
  while (true) {
    const arrow::Status status = client.submit(id, command, runtime_env);
    const Moment now = std::chrono::steady_clock::now();
    const bool is_busy = status.IsIOError() && status.message().find("try again later") != std::string::npos;
    if (!is_busy || now >= deadline) return status;
    const Moment again = now + std::chrono::duration_cast<std::chrono::nanoseconds>(kLookEvery);
    if (signals.wait({}, again) != 0) return arrow::Status::Cancelled("stopped before the cluster took the job");
  }
}

}  // namespace

std::string job_command(const RunFlags& flags) {
  std::string command = "exec python -m paceline._ray.program";
  for (const std::string& word : flags.passed_on) command += " " + quoted(word);
  command += " --";
  for (const std::string& word : flags.program.words) command += " " + quoted(word);
  return command;
}

arrow::Result<int> run_as_ray_job(const RunFlags& flags, const launch::Variables& variables) {
  if (flags.debug_rank) {
    return arrow::Status::Invalid("--debug-rank needs this terminal, but with --engine ray ranks are on the cluster");
  }
  ARROW_ASSIGN_OR_RAISE(JobsClient client, JobsClient::make(flags.ray.address, variables));
  const auto version = client.version();
  if (!version.ok()) {
    if (!version.status().IsIOError()) return version.status();
    return arrow::Status::IOError("no Ray cluster answers at ", version.status().message(),
                                  ". --address names its dashboard, http://HEAD:8265, which `ray start --head` prints");
  }
  ARROW_ASSIGN_OR_RAISE(const Json runtime_env, runtime_env_of(flags, client));
  ARROW_ASSIGN_OR_RAISE(const std::string random, transport::random_id());
  const std::string id = "paceline_" + random.substr(0, 16);
  HeardSignals signals({SIGINT, SIGTERM, SIGHUP});  // until here nothing is on the cluster that has to end
  const arrow::Status submitted = submit(client, id, job_command(flags), runtime_env, signals);
  if (submitted.IsCancelled()) return 128 + signals.last();
  ARROW_RETURN_NOT_OK(submitted);
  say(flags, "job " + id + " on " + client.name() + ", Ray " + *version);
  return Following(flags, client, id, signals).follow();
}

}  // namespace paceline::cli
