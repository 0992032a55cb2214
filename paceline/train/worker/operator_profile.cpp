#include <arrow/util/compression.h>
#include <torch/csrc/autograd/profiler_kineto.h>
#include <torch/csrc/profiler/collection.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <set>
#include <thread>

#include "paceline/core/bytes_text.h"
#include "paceline/core/error.h"
#include "paceline/core/posix/kernel_file.h"
#include "paceline/core/posix/sealed_memory.h"
#include "paceline/storage/local/durable.h"
#include "paceline/train/worker/operator_profile_internal.h"

namespace paceline::train {
namespace {

namespace profiler = torch::autograd::profiler;
using torch::profiler::impl::ActivityType;
using torch::profiler::impl::EventType;
using torch::profiler::impl::ExtraFields;
using torch::profiler::impl::ProfilerConfig;
using torch::profiler::impl::Result;

// Deleted with what is in it.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = std::filesystem::temp_directory_path() / "paceline_timeline_XXXXXX";
    if (::mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ~ScratchFolder() {
    std::error_code problem;
    if (!path_.empty()) std::filesystem::remove_all(path_, problem);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

ProfilerConfig configuration(bool with_memory) {
  torch::profiler::impl::ExperimentalConfig all_threads;
  all_threads.profile_all_threads = true;
  return ProfilerConfig(torch::profiler::impl::ProfilerState::KINETO, /*report_input_shapes=*/false, with_memory,
                        /*with_stack=*/false, /*with_flops=*/false, /*with_modules=*/false, all_threads);
}

arrow::Result<std::string> compressed(const std::string& text) {
  ARROW_ASSIGN_OR_RAISE(const auto codec, arrow::util::Codec::Create(arrow::Compression::GZIP));
  const auto* const bytes = reinterpret_cast<const uint8_t*>(text.data());
  std::string result(static_cast<size_t>(codec->MaxCompressedLen(std::ssize(text), bytes)), '\0');
  ARROW_ASSIGN_OR_RAISE(const int64_t size, codec->Compress(std::ssize(text), bytes, std::ssize(result),
                                                            reinterpret_cast<uint8_t*>(result.data())));
  result.resize(static_cast<size_t>(size));
  return result;
}

arrow::Result<std::string> timeline_of(profiler::ProfilerResult& result) {
  const ScratchFolder folder;
  if (folder.path().empty()) return errno_status("making a folder for the timeline");
  const std::string path = folder.path() + "/timeline.json";
  result.save(path);
  ARROW_ASSIGN_OR_RAISE(const std::string text, storage::read_file(path));
  ARROW_ASSIGN_OR_RAISE(std::string timeline, compressed(text));
  if (timeline.size() <= kMostTimelineBytes) return timeline;
  return arrow::Status::Invalid("the timeline has ", bytes_text(std::ssize(timeline)), ", of which ",
                                bytes_text(static_cast<int64_t>(kMostTimelineBytes)),
                                " are allowed: ask for fewer seconds");
}

std::string name_of_thread(uint64_t tid) {
  std::string name = read_kernel_file("/proc/self/task/" + std::to_string(tid) + "/comm");
  if (name.ends_with('\n')) name.pop_back();
  return name;
}

// What was allocated by whom: operators that others have called stand behind them.
class Allocations {
 public:
  explicit Allocations(stacks::Profile& profile) : builder_(profile) {}

  void add(const std::vector<std::shared_ptr<Result>>& events) {
    for (const auto& event : events) {
      if (const auto* const allocation = std::get_if<ExtraFields<EventType::Allocation>>(&event->extra_fields_)) {
        if (allocation->alloc_size_ > 0) add(*event, allocation->alloc_size_);
        continue;
      }
      callers_.push_back({.function = event->name()});
      add(event->children_);
      callers_.pop_back();
    }
  }

 private:
  void add(const Result& event, int64_t bytes) {
    const auto [name, is_new] = names_.try_emplace(event.start_tid_);
    if (is_new) name->second = name_of_thread(event.start_tid_);
    const stacks::StackFrames outside{{.function = "outside of operators"}};
    builder_.add({.tid = static_cast<int64_t>(event.start_tid_), .name = name->second, .language = stacks::kOperators},
                 callers_.empty() ? outside : callers_, bytes);
  }

  stacks::ProfileBuilder builder_;
  stacks::StackFrames callers_;
  std::map<uint64_t, std::string> names_;
};

}  // namespace

arrow::Result<OwnProfile> profile_operators(const rpc::Sample& wanted, bool with_gpu) {
  const bool is_memory = wanted.kind == rpc::kMemoryProfile;
  std::set<ActivityType> activities{ActivityType::CPU};
  if (with_gpu) activities.insert(ActivityType::CUDA);
  const ProfilerConfig config = configuration(is_memory);
  OwnProfile taken{.profile = {.pid = ::getpid(), .seconds = wanted.seconds}, .timeline = ""};
  try {
    profiler::prepareProfiler(config, activities);
    profiler::enableProfiler(config, activities);
    std::this_thread::sleep_for(std::chrono::duration<double>(wanted.seconds));
    const auto result = profiler::disableProfiler();
    taken.profile.ways = {"LibTorch"};
    if (is_memory) {
      taken.profile.unit = stacks::kBytes;
      Allocations(taken.profile).add(result->event_tree());
    } else {
      ARROW_ASSIGN_OR_RAISE(taken.timeline, timeline_of(*result));
    }
  } catch (const std::exception& error) {
    return arrow::Status::Invalid("LibTorch's profiler could not be used (does the program use it itself?): ",
                                  error.what());
  }
  return taken;
}

arrow::Result<Descriptor> memory_with(const OwnProfile& taken) {
  return SealedMemory::create("paceline_profile", {stacks::encode_lines({taken.profile}), taken.timeline});
}

}  // namespace paceline::train
