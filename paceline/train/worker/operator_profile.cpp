#include <arrow/util/compression.h>
#include <torch/csrc/autograd/profiler_kineto.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <set>
#include <thread>

#include "paceline/core/bytes_text.h"
#include "paceline/core/posix/sealed_memory.h"
#include "paceline/storage/local/durable.h"
#include "paceline/train/worker/operator_profile_internal.h"

namespace paceline::train {
namespace {

namespace profiler = torch::autograd::profiler;
using torch::profiler::impl::ActivityType;
using torch::profiler::impl::ProfilerConfig;

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

ProfilerConfig configuration() {
  torch::profiler::impl::ExperimentalConfig all_threads;
  all_threads.profile_all_threads = true;
  return ProfilerConfig(torch::profiler::impl::ProfilerState::KINETO, /*report_input_shapes=*/false,
                        /*profile_memory=*/false,
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

}  // namespace

arrow::Result<OwnProfile> take_timeline(double seconds, bool with_gpu) {
  std::set<ActivityType> activities{ActivityType::CPU};
  if (with_gpu) activities.insert(ActivityType::CUDA);
  const ProfilerConfig config = configuration();
  OwnProfile taken{.profile = {.pid = ::getpid(), .seconds = seconds, .ways = {"LibTorch"}}, .timeline = ""};
  try {
    profiler::prepareProfiler(config, activities);
    profiler::enableProfiler(config, activities);
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    ARROW_ASSIGN_OR_RAISE(taken.timeline, timeline_of(*profiler::disableProfiler()));
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
