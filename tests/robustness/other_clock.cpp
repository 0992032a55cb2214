// A wall clock that is wrong, for programs that are started with this library in LD_PRELOAD. PACELINE_TEST_CLOCK is how
// many seconds it is fast (slow, if negative); or "jumps": five times a second it is set, a day ahead, a day back, and
// right again. The monotonic clock is not touched.
#include <dlfcn.h>
#include <sys/time.h>

#include <cstdlib>
#include <cstring>
#include <ctime>

namespace {

using GetTime = int (*)(clockid_t, timespec*);

GetTime real_clock() {
  static const auto function = reinterpret_cast<GetTime>(::dlsym(RTLD_NEXT, "clock_gettime"));
  return function;
}

time_t seconds_fast() {
  static const char* const wanted = std::getenv("PACELINE_TEST_CLOCK");
  if (wanted == nullptr) return 0;
  if (std::strcmp(wanted, "jumps") != 0) return std::strtol(wanted, nullptr, 10);
  timespec now{};
  real_clock()(CLOCK_MONOTONIC, &now);
  constexpr time_t kDay = 86'400;
  constexpr long kPiece = 200'000'000;
  switch ((now.tv_sec * 5 + now.tv_nsec / kPiece) % 3) {
    case 0:
      return kDay;
    case 1:
      return -kDay;
    default:
      return 0;
  }
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const int result = real_clock()(clock, time);
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) time->tv_sec += seconds_fast();
  return result;
}

int gettimeofday(timeval* time, void*) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  *time = {.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
  return 0;
}

time_t time(time_t* place) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (place != nullptr) *place = now.tv_sec;
  return now.tv_sec;
}
}
