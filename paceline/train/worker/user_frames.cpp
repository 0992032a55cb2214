#include "paceline/train/worker/user_frames.h"

#include <backtrace.h>
#include <dlfcn.h>
#include <execinfo.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>

#include "paceline/core/type_name.h"

namespace paceline::train {
namespace {

constexpr int kMaxFrames = 64;

struct Throw {
  const void* exception = nullptr;
  int size = 0;
  std::array<void*, kMaxFrames> frames;
};

// The last throws, the oldest overwritten first.
struct Throws {
  std::atomic<int> recorders{0};
  std::mutex mutex;  // guards what follows
  std::array<Throw, 64> last;
  size_t next = 0;

  Throw* find(const void* exception) {
    for (Throw& one : last) {
      if (one.exception == exception) return &one;
    }
    return nullptr;
  }
};

// Never destroyed: exceptions are thrown until the process's very end.
Throws& throws() {
  static auto* const throws = new Throws;
  return *throws;
}

// An exception_ptr of the C++ library is a pointer to the exception object, as __cxa_throw got it.
const void* object_of(const std::exception_ptr& exception) {
  const void* object = nullptr;
  static_assert(sizeof object == sizeof exception);
  std::memcpy(static_cast<void*>(&object), &exception, sizeof object);  // NOLINT: read, never copied as one
  return object;
}

bool is_library_function(const std::string& function) {
  for (const char* prefix : {"paceline::", "std::", "torch::", "at::", "c10::", "c10d::", "__", "_start",
                             "nlohmann::", "void paceline::", "void std::", "decltype"}) {
    if (function.rfind(prefix, 0) == 0) return true;
  }
  return function.empty();
}

// Where it was written decides, if that is known: an inlined function has but its bare name ("get", "operator()").
bool is_library_file(const std::string& path) {
  static const std::string own = [] {
    const std::string here = __FILE__;  // …/paceline/train/worker/user_frames.cpp
    return here.substr(0, here.rfind("train/worker/user_frames.cpp"));
  }();
  return path.rfind("/usr/", 0) == 0 || path.rfind(own, 0) == 0 || path.find("/torch/include/") != std::string::npos;
}

// Only the program itself is the user's; LibTorch and the C library are other files.
bool in_program(void* address) {
  static const void* program_base = [] {
    Dl_info info{};
    return ::dladdr(reinterpret_cast<void*>(&is_library_function), &info) != 0 ? info.dli_fbase : nullptr;
  }();
  Dl_info info{};
  return ::dladdr(address, &info) != 0 && info.dli_fbase == program_base;
}

void ignore_error(void*, const char*, int) {}

struct Frames {
  std::vector<std::string> of_user;
  bool has_source = false;  // of the address that was looked at last
};

int add_frame(void* data, uintptr_t, const char* file, int line, const char* symbol) {
  auto& frames = *static_cast<Frames*>(data);
  if (file != nullptr) frames.has_source = true;
  if (symbol == nullptr || (file != nullptr && is_library_file(file))) return 0;
  std::string function = demangled(symbol);
  if (is_library_function(function)) return 0;
  if (function.size() > 120) function.replace(117, std::string::npos, "...");
  if (file != nullptr) {
    const std::string path = file;
    function += " (" + path.substr(path.rfind('/') + 1) + ":" + std::to_string(line) + ")";
  }
  frames.of_user.push_back(std::move(function));
  return 0;
}

void add_symbol(void* data, uintptr_t pc, const char* symbol, uintptr_t, uintptr_t) {
  add_frame(data, pc, nullptr, 0, symbol);
}

}  // namespace

ThrowRecorder::ThrowRecorder() {
  Throws& all = throws();
  const std::lock_guard lock(all.mutex);
  for (Throw& one : all.last) one.exception = nullptr;
  ++all.recorders;
}

ThrowRecorder::~ThrowRecorder() {
  --throws().recorders;
}

std::vector<std::string> frames_of(const std::exception_ptr& exception) {
  if (!exception) return {};
  Throw found;
  {
    Throws& all = throws();
    const std::lock_guard lock(all.mutex);
    const Throw* recorded = all.find(object_of(exception));
    if (recorded == nullptr) return {};
    found = *recorded;
  }
  static backtrace_state* state = ::backtrace_create_state(nullptr, /*threaded=*/1, ignore_error, nullptr);
  Frames frames;
  for (int i = 0; i < found.size; ++i) {
    if (!in_program(found.frames[i])) continue;
    const auto address = reinterpret_cast<uintptr_t>(found.frames[i]) - 1;  // the call, not the line after it
    frames.has_source = false;
    ::backtrace_pcinfo(state, address, add_frame, ignore_error, &frames);
    if (!frames.has_source) ::backtrace_syminfo(state, address, add_symbol, ignore_error, &frames);
    if (!frames.of_user.empty() && frames.of_user.back().rfind("main ", 0) == 0) break;
  }
  return std::move(frames.of_user);
}

void note_throw(const void* exception) {
  Throws& all = throws();
  if (all.recorders == 0) return;
  Throw noted{.exception = exception};
  noted.size = ::backtrace(noted.frames.data(), kMaxFrames);
  const std::lock_guard lock(all.mutex);
  // The address of an exception that is gone is used again.
  if (Throw* earlier = all.find(exception)) {
    *earlier = noted;
    return;
  }
  all.last[all.next] = noted;
  all.next = (all.next + 1) % all.last.size();
}

}  // namespace paceline::train

// The program's own __cxa_throw is found before the C++ library's, by LibTorch's throws too. GCC and clang each declare
// it with types of their own, so it has another name here. Weak: a program into which the C++ library's archive is
// linked keeps that one's.
extern "C" [[noreturn, gnu::weak]] void paceline_throw(void* exception, void* type,
                                                       void (*destroy)(void*)) asm("__cxa_throw");

void paceline_throw(void* exception, void* type, void (*destroy)(void*)) {
  using Throw = void (*)(void*, void*, void (*)(void*));
  static const auto original = reinterpret_cast<Throw>(::dlsym(RTLD_NEXT, "__cxa_throw"));
  paceline::train::note_throw(exception);
  original(exception, type, destroy);
  std::abort();
}
