#include "paceline/stacks/heap_profiler.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string_view>
#include <vector>

#include "paceline/core/posix/kernel_file.h"
#include "paceline/core/posix/sealed_memory.h"

namespace paceline::stacks {
namespace {

constexpr const char* kLibrary = "libjemalloc.so.2";
// 2^19 bytes: jemalloc's own choice.
constexpr const char* kOptions = "prof:true,prof_active:true,lg_prof_sample:19";

using Control = int(const char* name, void* old, size_t* old_size, void* next, size_t next_size);

Control* control() {
  return reinterpret_cast<Control*>(::dlsym(RTLD_DEFAULT, "mallctl"));
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) {
    if (!part.empty()) parts.push_back(part);
  }
  return parts;
}

std::string find_library(const std::string& library_path) {
  std::vector<std::string> folders = split(library_path, ':');
  for (const char* folder : {"/usr/local/lib", "/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64",
                             "/usr/lib64", "/lib", "/usr/lib"}) {
    folders.emplace_back(folder);
  }
  for (const std::string& folder : folders) {
    const std::string file = folder + "/" + kLibrary;
    if (::access(file.c_str(), R_OK) == 0) return std::filesystem::absolute(file);
  }
  return "";
}

}  // namespace

arrow::Status preload_heap_profiler(std::map<std::string, std::string>& environment) {
  const std::string library = find_library(environment["LD_LIBRARY_PATH"]);
  if (environment["LD_LIBRARY_PATH"].empty()) environment.erase("LD_LIBRARY_PATH");
  if (library.empty()) {
    return arrow::Status::Invalid("DebugConfig.heap_profile needs jemalloc, and this machine has no ", kLibrary,
                                  ": install it (apt install libjemalloc2; dnf install jemalloc), or name its folder "
                                  "in LD_LIBRARY_PATH");
  }
  std::string& preloaded = environment["LD_PRELOAD"];
  preloaded = library + (preloaded.empty() ? "" : ":" + preloaded);
  std::string& options = environment["MALLOC_CONF"];  // of several words for one thing the last counts
  options = (options.empty() ? "" : options + ",") + kOptions;
  environment.try_emplace("ARROW_DEFAULT_MEMORY_POOL", "system");  // Arrow brings allocators that nobody profiles
  return arrow::Status::OK();
}

void keep_heap_profiler_from_children() {
  const char* const preloaded = std::getenv("LD_PRELOAD");
  if (preloaded == nullptr) return;
  std::string others;
  for (const std::string& library : split(preloaded, ':')) {
    if (!library.ends_with(kLibrary)) others += (others.empty() ? "" : ":") + library;
  }
  others.empty() ? ::unsetenv("LD_PRELOAD") : ::setenv("LD_PRELOAD", others.c_str(), 1);
}

bool heap_is_profiled() {
  Control* const ask = control();
  bool profiles = false;
  size_t size = sizeof profiles;
  return ask != nullptr && ask("opt.prof", &profiles, &size, nullptr, 0) == 0 && profiles;
}

arrow::Result<Descriptor> dump_heap() {
  if (!heap_is_profiled()) return arrow::Status::Invalid("the process's heap is not profiled");
  const Descriptor file(::memfd_create("paceline_heap", MFD_CLOEXEC));
  if (!file) return errno_status("making memory for the heap's profile");
  const std::string path = "/proc/self/fd/" + std::to_string(file.get());
  const char* name = path.c_str();
  if (control()("prof.dump", nullptr, nullptr, &name, sizeof name) != 0) {
    return arrow::Status::IOError(
        "jemalloc could not write its profile: no memory is left for it, or none may be used");
  }
  return SealedMemory::create("paceline_heap", {read_kernel_file(path)});
}

}  // namespace paceline::stacks
