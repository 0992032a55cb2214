#include "paceline/policy/exit_cause.h"

#include <gmock/gmock.h>

#include <csignal>

namespace paceline::policy {
namespace {

using ::testing::HasSubstr;

// One way to end, and words of the cause and of the advice.
struct Row {
  const char* name;
  ProcessEnd facts;
  const char* what;
  const char* advice;
};

CrashFacts crash_at(uint64_t address, const std::string& place = "") {
  return {.code = SEGV_MAPERR, .address = address, .stack_pointer = 0x7ffe00000000, .place = place};
}

std::vector<Row> rows() {
  return {
      {"returned code", {.status = {.exit_code = 3}}, "exited with code 3", ""},
      {"missing library",
       {.status = {.exit_code = 127},
        .last_lines = {"./train: error while loading shared libraries: libx.so.1: cannot open shared object file"}},
       "a shared library is missing: libx.so.1: cannot open",
       "LD_LIBRARY_PATH"},
      {"not found", {.status = {.exit_code = 127}}, "code 127", "was not found"},
      {"not executable", {.status = {.exit_code = 126}}, "code 126", "may not be executed"},
      {"shell's child", {.status = {.exit_code = 139}}, "code 139", "SIGSEGV"},
      {"out of memory",
       {.status = {.signal = SIGKILL, .out_of_memory = true},
        .memory = {.group = "/job7", .limit_bytes = int64_t{16} << 30, .peak_bytes = 15'247'133'900}},
       "the kernel ran out of memory); its cgroup is /job7, whose limit is 16.0 GiB; the process had used up to 14.2 "
       "GiB",
       "smaller batches"},
      {"killed from outside", {.status = {.signal = SIGKILL}}, "SIGKILL, which Paceline did not send", "a person"},
      {"killed by the host",
       {.status = {.signal = SIGKILL}, .memory = {.host_kill = true}},
       "did not send",
       "out-of-memory killer was at work on this machine"},
      {"cut off",
       {.status = {.signal = SIGKILL}, .cut_off = true},
       "ended itself, because its channel to Paceline was gone",
       "closed file descriptors"},
      {"killed by Paceline", {.status = {.signal = SIGKILL, .ended_by_paceline = true}}, "(sent by Paceline)", ""},
      {"null pointer",
       {.status = {.signal = SIGSEGV}, .crash = crash_at(0x10)},
       "used address 0x10, a null pointer",
       ""},
      {"wild pointer",
       {.status = {.signal = SIGSEGV}, .crash = crash_at(0x5000000)},
       "0x5000000, where nothing is",
       ""},
      {"read-only memory",
       {.status = {.signal = SIGSEGV}, .crash = crash_at(0x5000000, "/opt/train")},
       "in /opt/train, which may not be used so",
       ""},
      {"stack overflow",
       {.status = {.signal = SIGSEGV}, .crash = crash_at(0x7ffe00000000 - 64)},
       "the end of its stack",
       "endless recursion"},
      {"SIGSEGV from outside",
       {.status = {.signal = SIGSEGV}, .crash = CrashFacts{.code = SI_USER}},
       "a process sent the signal",
       ""},
      {"crash without a note", {.status = {.signal = SIGSEGV}}, "crashed with SIGSEGV", ""},
      {"shared memory full",
       {.status = {.signal = SIGBUS}, .crash = crash_at(0x5000000, "/dev/shm/torch_1_2")},
       "no room left for /dev/shm/torch_1_2",
       "--shm-size"},
      {"truncated file",
       {.status = {.signal = SIGBUS}, .crash = crash_at(0x5000000, "/data/train.bin")},
       "the mapped file /data/train.bin became shorter",
       "do not change a file"},
      {"unknown instruction", {.status = {.signal = SIGILL}}, "SIGILL", "build it for this machine"},
      {"division by zero", {.status = {.signal = SIGFPE}}, "divided by zero", ""},
      {"uncaught exception",
       {.status = {.signal = SIGABRT}, .crash = CrashFacts{.what = "no such digit"}},
       "an exception that nobody caught: no such digit",
       "catch it there"},
      {"threads of a process group",
       {.status = {.signal = SIGABRT}, .last_lines = {"terminate called without an active exception"}},
       "crashed with SIGABRT",
       "destroy_process_group"},
      {"abort", {.status = {.signal = SIGABRT}}, "crashed with SIGABRT", ""},
      {"file size limit", {.status = {.signal = SIGXFSZ}}, "larger than the limit", "ulimit -f"},
      {"processor time limit", {.status = {.signal = SIGXCPU}}, "processor time", "ulimit -t"},
      {"ended from outside", {.status = {.signal = SIGTERM}}, "SIGTERM, which Paceline did not send", "paceline stop"},
      {"full disk",
       {.status = {.exit_code = 1}, .last_lines = {"write: No space left on device"}},
       "exited with code 1",
       "a disk is full"},
      {"open files", {.status = {.exit_code = 1}, .last_lines = {"Too many open files"}}, "code 1", "ulimit -n"},
      {"too few GPUs",
       {.status = {.exit_code = 1}, .last_lines = {"CUDA error: invalid device ordinal"}},
       "code 1",
       "fewer GPUs than workers"},
      {"GPU memory", {.status = {.exit_code = 1}, .last_lines = {"CUDA out of memory."}}, "code 1", "smaller batches"},
      {"no memory",
       {.status = {.exit_code = 1}, .last_lines = {"DefaultCPUAllocator: can't allocate memory"}},
       "code 1",
       "memory is full"},
  };
}

TEST(ExitCause, EveryWayToEndHasACauseAndWhatToDo) {
  for (const Row& row : rows()) {
    const ExitCause cause = decode_exit(row.facts);
    EXPECT_THAT(cause.what + cause.detail, HasSubstr(row.what)) << row.name;
    EXPECT_THAT(cause.advice, HasSubstr(row.advice)) << row.name;
    if (*row.advice == '\0') {
      EXPECT_EQ(cause.advice, "") << row.name;
    }
  }
}

}  // namespace
}  // namespace paceline::policy
