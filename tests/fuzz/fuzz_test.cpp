// Whatever stands in a file, comes through a socket or is typed: our parsers give a value or an error. They neither
// crash nor hang nor throw, and what they take, they can write and take again. Frames:
// paceline/rpc/frame_fuzz_test.cpp.
#include <gtest/gtest.h>

#include <ranges>
#include <sstream>
#include <utility>

#include "paceline/agent/out_of_memory_internal.h"
#include "paceline/agent/sampling/kernel_texts.h"
#include "paceline/checkpoint/format/safetensors.h"
#include "paceline/checkpoint/manifest.h"
#include "paceline/cli/commands/doctor_checks.h"
#include "paceline/cli/commands/removal.h"
#include "paceline/cli/commands/run_flags.h"
#include "paceline/cli/table.h"
#include "paceline/core/posix/kernel_file.h"
#include "paceline/core/posix/memory_limit.h"
#include "paceline/core/posix/process_stat.h"
#include "paceline/core/run_layout.h"
#include "paceline/launch/error_file.h"
#include "paceline/launch/store_answer.h"
#include "paceline/policy/exit_cause.h"
#include "paceline/rpc/envelope.h"
#include "paceline/rpc/key_value_table.h"
#include "paceline/rpc/memory_key_value.h"
#include "paceline/rpc/messages.h"
#include "paceline/run/journal.h"
#include "paceline/run/reader.h"
#include "paceline/stacks/heap_dump.h"
#include "paceline/stacks/mapping_internal.h"
#include "paceline/stacks/profile.h"
#include "paceline/stacks/stack.h"
#include "paceline/storage/checksum.h"
#include "paceline/storage/local/run_lock.h"
#include "paceline/storage/location.h"
#include "paceline/storage/memory_storage.h"
#include "paceline/storage/objects/file_mirror.h"
#include "paceline/storage/objects/lease.h"
#include "paceline/testing/shown_numbers_texts.h"
#include "paceline/testing/temporary_folder.h"
#include "paceline/track/metrics_history.h"
#include "paceline/track/sample_files.h"
#include "paceline/views/node_samples.h"
#include "tests/fuzz/fuzzer.h"

namespace paceline {
namespace {

using testing::Fuzzer;
using testing::TemporaryFolder;
using testing::write_file;

TEST(Fuzz, Json) {
  Fuzzer("json").run([](std::string_view text) {
    const auto value = decode_json(text);
    if (!value.ok()) return;
    EXPECT_FALSE(is_too_deep(*value));
    EXPECT_TRUE(decode_json(encode_json(*value)).ok());
  });
}

// With the checksum that belongs to it: without that nothing else would be looked at.
TEST(Fuzz, Manifest) {
  Fuzzer("manifest").run([](std::string_view text) {
    EXPECT_FALSE(checkpoint::decode_manifest(text).ok());
    std::string summed(text.substr(0, text.rfind('}')));
    summed += R"(,"checksum":")" + storage::checksum_of(std::as_bytes(std::span(summed))) + "\"}";
    const auto manifest = checkpoint::decode_manifest(summed);
    if (!manifest.ok()) return;
    for (const auto& [name, file] : manifest->files) EXPECT_TRUE(storage::check_name(name).ok()) << name;
    const auto again = checkpoint::decode_manifest(checkpoint::encode_manifest(*manifest));
    EXPECT_TRUE(again.ok()) << again.status();
  });
}

TEST(Fuzz, Safetensors) {
  Fuzzer("safetensors").run([](std::string_view file) {
    const auto size = checkpoint::safetensors_head_size(file.substr(0, 8));
    if (!size.ok() || *size > std::ssize(file)) return;
    const auto head = file.substr(0, static_cast<size_t>(*size));
    for (const auto& entry : checkpoint::decode_safetensors(head, std::ssize(file)).ValueOr({})) {
      EXPECT_GE(entry.offset, *size);
      EXPECT_GE(entry.size, 0);
      EXPECT_LE(entry.size, std::ssize(file) - entry.offset);
    }
  });
}

TEST(Fuzz, Journal) {
  const TemporaryFolder folder;
  Fuzzer("journal").run([&](std::string_view text) {
    write_file(run::journal_path(folder.path()), std::string(text));
    (void)run::replay(folder.path());
    (void)run::read_run_folder(folder.path());
  });
}

TEST(Fuzz, History) {
  const TemporaryFolder folder;
  write_file(run::journal_path(folder.path()), "");
  Fuzzer("history").run([&](std::string_view text) {
    write_file(folder / run_layout::kHistory, std::string(text));
    const auto rows = track::read_history(folder.path());
    if (rows.ok()) (void)track::history_table(*rows);
    (void)run::read_run_folder(folder.path());
  });
}

TEST(Fuzz, ShownNumbers) {
  views::ShownNumbers numbers;
  Fuzzer("history").run([&numbers](std::string_view text) {
    for (const auto line : std::views::split(text, '\n')) {
      const std::string_view whole(line.begin(), line.end());
      EXPECT_EQ(testing::numbers_of(numbers, whole), testing::numbers_of_value(whole)) << whole;
    }
  });
}

// The head of a frame, as JSON, and the body as any message at all.
TEST(Fuzz, Message) {
  Fuzzer("message").run([](std::string_view text) {
    auto envelope = rpc::decode_head(text);
    if (!envelope.ok()) return;
    std::apply(
        [&](const auto&... message) {
          const auto unpack_as = [&](const auto& type) {
            envelope->type = type.kType;
            const auto unpacked = rpc::unpack<std::remove_cvref_t<decltype(type)>>(*envelope);
            EXPECT_TRUE(unpacked.ok() || unpacked.status().IsInvalid()) << unpacked.status();
          };
          (unpack_as(message), ...);
        },
        rpc::Catalogue{});
  });
}

TEST(Fuzz, Location) {
  Fuzzer("location").run([](std::string_view text) {
    const storage::Location written(text);
    EXPECT_EQ(storage::Location(written.text()).text(), written.text()) << "what is left out stays out";
    (void)written.redacted(std::string(text));
    const auto location = storage::resolve_location(text, "/here");
    if (!location.ok()) return;
    const auto below = storage::join(*location, "a b/c");
    EXPECT_EQ(storage::last_part(below), "c");
    EXPECT_EQ(storage::resolve_location(location->with_credentials(), "/")->with_credentials(),
              location->with_credentials());
  });
}

TEST(Fuzz, CommandLine) {
  Fuzzer("command_line").run([](std::string_view text) {
    std::vector<std::string> arguments;
    std::istringstream lines{std::string(text)};
    for (std::string line; std::getline(lines, line);) arguments.push_back(line);
    const auto first = [&](const std::string& name) -> std::optional<std::string> {
      if (name != "PET_NPROC_PER_NODE" || arguments.empty()) return std::nullopt;
      return arguments.front();
    };
    const cli::RunFacts facts{.cores = 8, .gpus = 2, .variables = first};
    (void)cli::parse_run_flags(arguments, facts);
    (void)cli::parse_age(std::string(text));
  });
}

TEST(Fuzz, TextOfOthers) {
  Fuzzer("text").run([](std::string_view view) {
    const std::string text(view);
    for (const auto& worker : stacks::decode_lines(text))
      EXPECT_EQ(stacks::decode_lines(stacks::encode_lines({worker})).size(), 1u);
    for (const auto& profile : stacks::decode_profiles(text)) {
      EXPECT_EQ(stacks::decode_profiles(stacks::encode_lines({profile})).size(), 1u);
      (void)stacks::to_folded({profile});
    }
    stacks::Profile recorded;
    stacks::add_py_spy(text, recorded);
    EXPECT_EQ(stacks::decode_profiles(stacks::encode_lines({recorded})).size(), 1u);
    (void)stacks::to_speedscope({recorded}, "run");
    stacks::Profile waits;
    stacks::add_py_spy_waits(text, text.substr(text.size() / 2), waits);
    EXPECT_EQ(stacks::decode_profiles(stacks::encode_lines({waits})).size(), 1u);
    if (const auto heap = stacks::parse_heap_dump(text); heap.ok()) {
      for (const stacks::HeapStack& stack : heap->stacks) EXPECT_GT(stack.bytes, 0);
    }
    (void)launch::parse_error_file(text);
    (void)cli::parse_gpus(text);
    EXPECT_EQ(cli::printable(cli::printable(text)), cli::printable(text));
    (void)run_layout::is_reserved(text);
    (void)run_layout::is_checkpoint_folder(text);
  });
}

// What the kernel says of processes, in which names are anybody's.
TEST(Fuzz, KernelFiles) {
  Fuzzer("kernel").run([](std::string_view text) {
    (void)parse_process_stat(text);
    for (const char* name : {"SigBlk:", "oom_kill", "MemAvailable:"}) (void)parse_kernel_number(text, name);
    const stacks::Mappings mappings{std::string(text)};
    if (const stacks::Mapping* const mapping = mappings.find(0x7f0000001000)) {
      EXPECT_LE(mapping->start, 0x7f0000001000);
      EXPECT_GT(mapping->end, 0x7f0000001000);
    }
    uint64_t end = 0;
    for (const stacks::Image& image : stacks::images_of(mappings)) {
      EXPECT_LE(std::exchange(end, image.end), image.start);
    }
    (void)agent::out_of_memory_files(text);
    (void)parse_memory_limit(text);
    (void)agent::parse_cpu_ticks(text);
    (void)agent::parse_load(text);
    (void)agent::parse_leading_number(text);
    (void)agent::parse_number_behind(text, "read_bytes:");
    (void)agent::parse_disk_bytes(text, agent::is_real_disk);
    (void)agent::parse_network_bytes(text);
  });
}

// A file of samples, which another version or a torn disk may have written.
TEST(Fuzz, Samples) {
  const TemporaryFolder folder;
  track::RunRecord record;
  record.run.path = folder.path();
  Fuzzer("samples").run([&](std::string_view text) {
    write_file(track::samples_path(folder / "samples/node_here", track::kSampleTiers[0]), std::string(text));
    write_file(track::samples_path(folder / "samples/node_here", track::kSampleTiers[2]), std::string(text));
    (void)views::node_summaries(record, 1e9);
    for (const views::SampledSource& source : views::sampled_sources(folder.path())) {
      const auto curves = views::sample_curves(folder.path(), source, {}, {.points = 50});
      ASSERT_TRUE(curves.ok()) << curves.status();
      for (const auto& [name, curve] : curves->curves) ASSERT_EQ(curve.mean.size(), curves->time.size());
    }
  });
}

// A line of JSON, the request, and its bytes behind it: what any program that a worker has started may send.
TEST(Fuzz, StoreRequest) {
  rpc::MemoryKeyValueStore store;
  const auto client = store.client({.attempt = {1}});
  rpc::KeyValueTable table;
  int64_t sent = 0, answered = 0;
  Fuzzer("store_request").run([&](std::string_view text) {
    const size_t end = std::min(text.find('\n'), text.size());
    auto body = decode_json(text.substr(0, end));
    if (!body.ok()) return;
    rpc::Envelope request{.type = rpc::StoreRequest::kType, .request = ++sent, .body = *std::move(body)};
    request.identity.attempt = {1};
    request.bytes = std::string(text.substr(std::min(end + 1, text.size())));
    answered += std::ssize(table.handle(request, Time{}));
    if (request.body.is_object() && request.body.contains("timeout_s")) request.body["timeout_s"] = 0;  // it would wait
    const auto answer = rpc::unpack<rpc::StoreReply>(launch::answer_store_request(*client, request));
    ASSERT_TRUE(answer.ok()) << answer.status();
  });
  EXPECT_EQ(answered + std::ssize(table.drop({1})), sent) << "each is answered once";
}

// What another driver has written into the lock, which it holds.
TEST(Fuzz, RunLock) {
  const TemporaryFolder folder;
  const auto held = storage::RunLock::acquire(folder.path());
  ASSERT_TRUE(held.ok());
  Fuzzer("lock").run([&](std::string_view text) {
    write_file(folder / run_layout::kLock, std::string(text));
    const auto second = storage::RunLock::acquire(folder.path());
    EXPECT_TRUE(second.status().IsAlreadyExists()) << second.status();
  });
}

// A line with a claim's name, then what stands in it; the second driver finds it dead, and takes over.
TEST(Fuzz, Claim) {
  const TemporaryFolder folder;
  const std::string memory = folder / "remembered";
  const storage::LeaseOptions at_once{.takeover = {}, .look = {}};
  Fuzzer("claim").run([&](std::string_view text) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string content(text.substr(std::min(end + 1, text.size())));
    auto run = std::make_shared<storage::MemoryStorage>();
    (void)run->write(std::string(run_layout::kClaims) + "/" + std::string(text.substr(0, end)), content);
    write_file(memory, content);
    (void)storage::was_held_last_here(*run, memory);
    const auto lease = storage::Lease::acquire(run, memory, at_once);
    if (lease.ok()) {
      EXPECT_GT((*lease)->generation(), 0);
    }
  });
}

// Names of objects are anybody's.
TEST(Fuzz, MirroredFiles) {
  Fuzzer("mirrored").run([](std::string_view text) {
    storage::MemoryStorage objects;
    std::istringstream lines{std::string(text)};
    for (std::string name; std::getline(lines, name);) (void)objects.write(name, "x");
    for (const auto& file : storage::mirrored_files(objects).ValueOr({})) {
      EXPECT_TRUE(storage::check_name(file.name).ok()) << file.name;
      (void)storage::read_mirrored(objects, file.name);
    }
  });
}

}  // namespace
}  // namespace paceline
