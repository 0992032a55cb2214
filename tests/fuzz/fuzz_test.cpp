// Whatever stands in a file, comes through a socket or is typed: our parsers give a value or an error. They neither
// crash nor hang nor throw, and what they take, they can write and take again. Frames:
// paceline/rpc/frame_fuzz_test.cpp.
#include <gtest/gtest.h>

#include <sstream>

#include "paceline/checkpoint/format/safetensors.h"
#include "paceline/checkpoint/manifest.h"
#include "paceline/cli/commands/doctor_checks.h"
#include "paceline/cli/commands/removal.h"
#include "paceline/cli/commands/run_flags.h"
#include "paceline/cli/table.h"
#include "paceline/core/run_layout.h"
#include "paceline/launch/error_file.h"
#include "paceline/policy/exit_cause.h"
#include "paceline/rpc/envelope.h"
#include "paceline/rpc/messages.h"
#include "paceline/run/journal.h"
#include "paceline/run/reader.h"
#include "paceline/stacks/stack.h"
#include "paceline/storage/checksum.h"
#include "paceline/storage/location.h"
#include "paceline/storage/memory_storage.h"
#include "paceline/storage/objects/file_mirror.h"
#include "paceline/testing/temporary_folder.h"
#include "paceline/track/metrics_history.h"
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
    (void)launch::parse_error_file(text);
    (void)cli::parse_gpus(text);
    EXPECT_EQ(cli::printable(cli::printable(text)), cli::printable(text));
    (void)run_layout::is_reserved(text);
    (void)run_layout::is_checkpoint_folder(text);
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
