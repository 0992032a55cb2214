#include "paceline/cli/commands/doctor_checks.h"

#include <gmock/gmock.h>

#include "paceline/core/bytes_text.h"

namespace paceline::cli {
namespace {

using ::testing::HasSubstr;

// A machine on which everything is as it should be.
Facts good() {
  Facts facts{.compiler = "g++ 12.2.0",
              .compiler_major = 12,
              .torch = "2.13.0",
              .arrow = "21.0.0",
              .object_stores = {"S3"},
              .shared_memory_bytes = int64_t{8} << 30,
              .shared_memory_free_bytes = int64_t{8} << 30,
              .ptrace_scope = 1,
              .perf_event_paranoid = 2,
              .open_files = 1024,
              .open_files_most = 65536,
              .clock_synchronised = true,
              .storage = "/data",
              .run_store = "/state/runs.sqlite",
              .cores = 2,
              .memory_bytes = int64_t{8} << 30};
  return facts;
}

Finding finding(const Facts& facts, const std::string& subject) {
  for (const Finding& one : examine(facts)) {
    if (one.subject == subject) return one;
  }
  ADD_FAILURE() << "no finding about " << subject;
  return {};
}

TEST(Doctor, HasNothingToSayAboutAGoodMachine) {
  for (const Finding& one : examine(good())) {
    EXPECT_EQ(one.verdict, Verdict::fine) << one.subject;
    EXPECT_EQ(one.advice, "") << one.subject;
    EXPECT_NE(one.text, "") << one.subject;
  }
}

TEST(Doctor, ShowsGpusWithTheirMemory) {
  const GpuQuery query =
      parse_gpus("NVIDIA H200, 143771, 143000, 580.159.04\nAn odd, name, [N/A], [N/A], 580.159.04\n");
  EXPECT_THAT(query.gpus, ::testing::ElementsAre(Gpu{"NVIDIA H200", int64_t{143'771} << 20, int64_t{143'000} << 20},
                                                 Gpu{"An odd, name", 0, 0}));
  Facts facts = good();
  facts.gpus = query.gpus;
  facts.gpu_driver = query.driver;
  EXPECT_EQ(finding(facts, "gpu").text, "NVIDIA H200 with " + bytes_text(int64_t{143'771} << 20) + " (" +
                                            bytes_text(int64_t{143'000} << 20) +
                                            " free), An odd, name; driver 580.159.04");
  EXPECT_TRUE(parse_gpus("No devices were found\n").gpus.empty());
}

TEST(Doctor, KnowsWhatIsWrongAndWhatToDo) {
  struct Case {
    const char* subject;
    void (*spoil)(Facts& facts);
    Verdict verdict;
    const char* advice;
  };
  const std::vector<Case> cases = {
      {"compiler", [](Facts& f) { f.compiler = ""; }, Verdict::note, "apt-get install g++"},
      {"compiler", [](Facts& f) { f.compiler_major = 9; }, Verdict::note, "g++ 12"},
      {"torch", [](Facts& f) { f.torch = ""; }, Verdict::note, "pip install torch"},
      {"gpu", [](Facts& f) { f.gpu_driver = "550.1"; }, Verdict::broken, "--gpus all"},
      {"gpu", [](Facts& f) { f.gpus.push_back({"nvidia0"}); }, Verdict::broken, "modprobe nvidia"},
      {"shared memory", [](Facts& f) { f.shared_memory_bytes.reset(); }, Verdict::broken, "/dev/shm"},
      {"shared memory", [](Facts& f) { f.shared_memory_free_bytes = 1000; }, Verdict::broken, "--shm-size"},
      {"shared memory", [](Facts& f) { f.shared_memory_bytes = f.shared_memory_free_bytes = int64_t{512} << 20; },
       Verdict::note, "--shm-size"},
      {"ptrace", [](Facts& f) { f.ptrace_scope = 2; }, Verdict::note, "ptrace_scope=1"},
      {"ptrace", [](Facts& f) { f.ptrace_scope = 3; }, Verdict::note, "restart"},
      {"perf", [](Facts& f) { f.perf_event_paranoid = 4; }, Verdict::note, "perf_event_paranoid=2"},
      {"perf", [](Facts& f) { f.perf_event_paranoid.reset(); }, Verdict::note, "perf"},
      {"open files", [](Facts& f) { f.open_files_most = 1024; }, Verdict::note, "65536"},
      {"time", [](Facts& f) { f.clock_synchronised = false; }, Verdict::note, "NTP"},
      {"time", [](Facts& f) { f.clock_synchronised.reset(); }, Verdict::note, "NTP"},
      {"arrow", [](Facts& f) { f.missing_object_stores = {"S3"}; }, Verdict::note, "Arrow that has it"},
      {"storage", [](Facts& f) { f.storage_problem = "read-only"; }, Verdict::broken, "storage_path"},
      {"run store", [](Facts& f) { f.run_store_problem = "damaged"; }, Verdict::broken, "paceline index"},
  };
  for (const Case& one : cases) {
    Facts facts = good();
    one.spoil(facts);
    const Finding found = finding(facts, one.subject);
    EXPECT_EQ(found.verdict, one.verdict) << found.text;
    EXPECT_THAT(found.advice, HasSubstr(one.advice)) << found.text;
  }
}

}  // namespace
}  // namespace paceline::cli
