#include <algorithm>
#include <boost/asio/post.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "paceline/agent/packages_internal.h"
#include "paceline/core/posix/thread.h"
#include "paceline/package/unpack.h"

namespace paceline::agent {
namespace {

constexpr const char* kProgramFolder = "bin";
constexpr const char* kLibraryFolder = "lib";

std::string folder_name(rpc::PackageUse use) {
  switch (use) {
    case rpc::PackageUse::program:
      return "program";
    case rpc::PackageUse::directory:
      return "directory";
    case rpc::PackageUse::modules:
      return "modules";
    case rpc::PackageUse::unknown:
      break;
  }
  return "";
}

// Before what the variable has.
void put_first(rpc::StringMap& environment, const std::string& name, const std::string& folder) {
  std::string& value = environment[name];
  value = value.empty() ? folder : folder + ":" + value;
}

std::string first_file_of(const std::string& folder) {
  std::error_code error;
  const std::filesystem::directory_iterator files(folder, error);
  return error || files == std::filesystem::directory_iterator() ? "" : files->path().string();
}

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

AgentPackages::AgentPackages(boost::asio::io_context& loop, std::string folder, Send send, Done done)
    : loop_(loop), folder_(std::move(folder)), send_(std::move(send)), done_(std::move(done)) {}

AgentPackages::~AgentPackages() {
  if (thread_.joinable()) thread_.join();
}

void AgentPackages::take(const rpc::Packages& wanted) {
  if (state_ != State::none || wanted.packages.empty()) return;
  state_ = State::fetching;
  const arrow::Status begun = begin(wanted);
  if (!begun.ok()) finish(begun);
}

arrow::Status AgentPackages::begin(const rpc::Packages& wanted) {
  if (folder_.empty()) return arrow::Status::Invalid("this agent has no folder for the run's code");
  auto cached = package::cache_folder();  // without a home it serves this run alone
  ARROW_ASSIGN_OR_RAISE(cache_, package::Cache::open(cached.ok() ? *cached : folder_ + "/cache"));
  for (const rpc::PackageName& name : wanted.packages) {
    const std::string folder = folder_name(name.use);
    if (folder.empty() || !is_sha256(name.checksum) || name.text_bytes < 0) {
      return arrow::Status::Invalid("the driver has a kind of package that this Paceline does not know");
    }
    packages_.push_back({.name = name, .manifest = std::nullopt, .folder = folder_ + "/" + folder});
    want(name.checksum, name.text_bytes);
  }
  return go_on();
}

void AgentPackages::take(const rpc::PackagePart& part, const std::string& bytes) {
  if (state_ != State::fetching) return;
  const arrow::Status added = add(part, bytes);
  if (!added.ok()) finish(added);
}

arrow::Status AgentPackages::add(const rpc::PackagePart& part, const std::string& bytes) {
  if (!part.error.empty()) return arrow::Status::IOError(part.error);
  if (due_.empty() || std::ssize(bytes) != due_.front()) {
    return arrow::Status::IOError("the driver has sent other bytes than were asked for");
  }
  due_.pop_front();
  Content& content = contents_.front();
  if (!content.writer) {
    ARROW_ASSIGN_OR_RAISE(auto writer, cache_->write(content.sha256));
    content.writer.emplace(std::move(writer));
  }
  ARROW_RETURN_NOT_OK(content.writer->add(bytes));
  if (content.writer->written() == content.bytes) {
    ARROW_RETURN_NOT_OK(content.writer->finish());
    contents_.pop_front();
    --asking_;
  }
  return go_on();
}

void AgentPackages::want(const std::string& sha256, int64_t bytes) {
  const bool is_wanted =
      std::ranges::any_of(contents_, [&sha256](const Content& content) { return content.sha256 == sha256; });
  if (!is_wanted && !cache_->has(sha256, bytes)) contents_.push_back({sha256, bytes, std::nullopt});
}

// The lists first, then what they name.
arrow::Status AgentPackages::go_on() {
  ask();
  if (!contents_.empty()) return arrow::Status::OK();
  const bool has_lists = packages_.front().manifest.has_value();
  if (has_lists) {
    unpack();
    return arrow::Status::OK();
  }
  for (Wanted& one : packages_) {
    ARROW_ASSIGN_OR_RAISE(one.manifest, package::decode(text_of(cache_->path_of(one.name.checksum))));
  }
  for (const Wanted& one : packages_) {
    for (const package::PackagedFile& file : *one.manifest) {
      if (file.link.empty()) want(file.sha256, file.bytes);
    }
  }
  return go_on();
}

// An empty content is a request of no bytes.
void AgentPackages::ask() {
  while (std::ssize(due_) < rpc::kPackageReadsAhead && asking_ < contents_.size()) {
    const Content& content = contents_[asking_];
    const int64_t bytes = std::min(rpc::kPackagePartBytes, content.bytes - asked_);
    send_(rpc::pack(rpc::PackageRead{.sha256 = content.sha256, .offset = asked_, .bytes = bytes}));
    due_.push_back(bytes);
    asked_ += bytes;
    if (asked_ < content.bytes) continue;
    ++asking_;
    asked_ = 0;
  }
}

void AgentPackages::unpack() {
  state_ = State::unpacking;
  thread_ = start_thread([this] {
    arrow::Status status;
    for (const Wanted& one : packages_) {
      const auto content =
          one.name.use == rpc::PackageUse::program ? package::Content::shared : package::Content::copied;
      if (status.ok()) status = package::unpack(*one.manifest, *cache_, one.folder, content);
    }
    cache_->trim(package::kMostCachedBytes);
    boost::asio::post(loop_, [this, status] { finish(status); });
  });
}

void AgentPackages::finish(const arrow::Status& status) {
  state_ = State::there;
  contents_.clear();
  if (!status.ok()) problem_ = "the run's code did not come to this node: " + status.message();
  done_();
}

void AgentPackages::put_before(rpc::StartProcess& start) const {
  for (const Wanted& one : packages_) {
    switch (one.name.use) {
      case rpc::PackageUse::program:
        if (!start.arguments.empty()) start.arguments.front() = first_file_of(one.folder + "/" + kProgramFolder);
        put_first(start.environment, "LD_LIBRARY_PATH", one.folder + "/" + kLibraryFolder);
        break;
      case rpc::PackageUse::directory:
        start.directory = one.folder;
        break;
      case rpc::PackageUse::modules:
        put_first(start.environment, "PYTHONPATH", one.folder);
        break;
      case rpc::PackageUse::unknown:
        break;
    }
    start.fork_server_key += "package=" + one.folder + "\n";
  }
}

}  // namespace paceline::agent
