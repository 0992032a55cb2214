// What datasets read, and what data processes are told: damaged files, plans, messages and states give an error or
// rows, in good time. They neither crash nor hang nor throw.
#include <arrow/filesystem/localfs.h>
#include <arrow/record_batch.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "paceline/core/posix/socket_pair.h"
#include "paceline/data/format/csv_rows_internal.h"
#include "paceline/data/format/csv_source.h"
#include "paceline/data/format/json_source.h"
#include "paceline/data/format/parquet_source.h"
#include "paceline/data/plan/codec.h"
#include "paceline/data/reader/epochs.h"
#include "paceline/data/service/batch_memory_internal.h"
#include "paceline/data/service/data_client.h"
#include "paceline/data/service/data_service.h"
#include "paceline/data/service/messages.h"
#include "paceline/data/source/range_source.h"
#include "paceline/rpc/blocking_socket.h"
#include "paceline/testing/temporary_folder.h"
#include "tests/fuzz/fuzzer.h"

namespace paceline::data {
namespace {

using testing::Fuzzer;
using testing::TemporaryFolder;
using testing::write_file;

constexpr int64_t kMostRows = 1 << 20;  // that are read of what a mutated text describes

// A file, whose first byte says how long its chunks are.
class FuzzedFile : public ::testing::Test {
 protected:
  std::string_view put(std::string_view input, const std::string& name) {
    if (input.empty()) return input;
    chunk_bytes_ = 1 + static_cast<unsigned char>(input.front()) + std::ssize(input) / 256;
    input.remove_prefix(1);
    write_file(folder_ / name, std::string(input));
    file_ = files_->GetFileInfo(folder_ / name).ValueOrDie();
    return input;
  }

  const TemporaryFolder folder_;
  const std::shared_ptr<arrow::fs::FileSystem> files_ = std::make_shared<arrow::fs::LocalFileSystem>();
  arrow::fs::FileInfo file_;
  int64_t chunk_bytes_ = 1;
};

// The rows of a source that could be opened, as far as they can be read.
void read_all(const arrow::Result<std::unique_ptr<Source>>& source) {
  if (!source.ok()) return;
  const auto chunks = static_cast<int64_t>((*source)->chunks().size());
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    const auto batch = (*source)->read(chunk, 0);
    if (!batch.ok()) continue;
    EXPECT_TRUE((*batch)->ValidateFull().ok()) << (*batch)->ValidateFull();
    if (!(*source)->counts_rows()) continue;
    EXPECT_EQ((*batch)->num_rows(), (*source)->chunks()[static_cast<size_t>(chunk)].rows);
  }
}

// Each row is in one range, and the ranges have all of the file.
TEST_F(FuzzedFile, RowsOfLines) {
  Fuzzer("csv").run([&](std::string_view input) {
    const std::string_view text = put(input, "rows.csv");
    if (text.empty()) return;
    CsvPlaces places(files_, file_, arrow::csv::ParseOptions::Defaults());
    std::string rows, lines;
    for (const LineRange& range : line_ranges({file_}, chunk_bytes_)) {
      rows += std::string_view(*places.rows_of(range, chunk_bytes_).ValueOrDie().text);
      lines += std::string_view(*read_lines(*files_, file_, range).ValueOrDie().text);
    }
    EXPECT_EQ(rows, text);
    EXPECT_EQ(lines, text);
  });
}

TEST_F(FuzzedFile, Csv) {
  Fuzzer("csv").run([&](std::string_view input) {
    if (put(input, "rows.csv").empty()) return;
    read_all(csv_source(files_, {file_}, {.chunk_bytes = chunk_bytes_}));
  });
}

TEST_F(FuzzedFile, JsonLines) {
  Fuzzer("json_lines").run([&](std::string_view input) {
    if (put(input, "rows.json").empty()) return;
    read_all(json_source(files_, {file_}, {.chunk_bytes = chunk_bytes_}));
  });
}

TEST_F(FuzzedFile, Parquet) {
  Fuzzer("parquet").run([&](std::string_view input) {
    if (put(input, "rows.parquet").empty()) return;
    read_all(parquet_source(files_, {file_}, {.bytes_of_chunk = 10 * chunk_bytes_}));
  });
}

// Only steps that read no files: their paths would be anywhere.
bool is_harmless(const Plan& plan) {
  static const std::vector<std::string> kinds = {"range",  "repartition", "whole_batches", "shuffle", "union",
                                                 "mix",    "zip",         "numbers",       "rows",    "rename_columns",
                                                 "filter", "with_column"};
  return std::ranges::find(kinds, plan.kind) != kinds.end() &&
         std::ranges::all_of(plan.inputs, [](const auto& input) { return is_harmless(*input); });
}

TEST(Fuzz, DataPlans) {
  Fuzzer("plans").run([](std::string_view bytes) {
    const auto plans = decode_plans(arrow::Buffer::FromString(std::string(bytes)));
    if (!plans.ok()) return;
    EXPECT_TRUE(decode_plans(arrow::Buffer::FromString(encode_plans(*plans).ValueOrDie())).ok());
    for (const auto& [name, plan] : *plans) {
      if (!is_harmless(plan)) continue;
      (void)explain(plan);
      auto opened = open(plan);
      if (!opened.ok()) continue;
      const auto facts = local_reader(*opened)->facts().ValueOrDie();
      if (facts.rows > kMostRows) continue;
      const auto batches = local_reader(*opened)->batches({.options = {.batch_size = 100}});
      while (batches.ok()) {
        const auto batch = (*batches)->next();
        if (!batch.ok() || *batch == nullptr) break;
        EXPECT_TRUE((*batch)->ValidateFull().ok());
      }
    }
  });
}

// What a rank has said, a head of an envelope a line, and what the next rank gets.
TEST(Fuzz, MessagesToADataProcess) {
  const auto service =
      start_data_service({.open = [](const std::string& name) -> arrow::Result<std::shared_ptr<DatasetReader>> {
        if (name != "train") return arrow::Status::KeyError(name);
        ARROW_ASSIGN_OR_RAISE(auto source, range_source(100, std::nullopt, {.chunk_bytes = 80}));
        return local_reader({.source = std::move(source), .order = {.shuffle = Shuffle::rows}, .statistics = {}});
      }});
  const auto connected = [&] {
    auto ends = make_socket_pair().ValueOrDie();
    service->serve(std::move(ends.first));
    return std::move(ends.second);
  };
  Fuzzer("data_messages").run([&](std::string_view text) {
    rpc::BlockingSocket rank(connected());
    std::istringstream lines{std::string(text)};
    for (std::string line; std::getline(lines, line);) {
      auto envelope = rpc::decode_head(line);
      if (envelope.ok()) (void)rank.send(*std::move(envelope));
    }
    (void)rank.send(rpc::pack(FactsRequest{.dataset = "train"}));  // answered, unless the rank has been let go of
    while (true) {
      const auto answer = rank.receive();
      if (!answer.ok() || !*answer || (*answer)->type == FactsReply::kType) break;
    }
  });
  const auto client = make_data_client({.connect = [&]() -> arrow::Result<Descriptor> { return connected(); }});
  EXPECT_EQ(client->reader("train")->facts()->rows, 100);
}

TEST(Fuzz, BatchesInMemory) {
  Fuzzer("batch").run([](std::string_view bytes) {
    const auto batch = batch_in(arrow::Buffer::FromString(std::string(bytes)));
    if (batch.ok()) {
      EXPECT_TRUE((*batch)->Validate().ok());
    }
  });
}

// Of a checkpoint.
TEST(Fuzz, DataStates) {
  std::shared_ptr<const Source> source = range_source(100, std::nullopt, {.chunk_bytes = 80}).ValueOrDie();
  const auto reader = local_reader({.source = source, .order = {.shuffle = Shuffle::rows}, .statistics = {}});
  Epochs own(reader, {.rank = 0, .world_size = 1});
  const Json state = own.state().ValueOrDie();
  Fuzzer("data_state").run([&](std::string_view text) {
    auto json = decode_json(text);
    if (!json.ok() || !json->is_object()) return;
    for (const char* name : {"fingerprint", "seed", "version"}) (*json)[name] = state[name];
    Epochs epochs(reader, {.rank = 0, .world_size = 1});
    if (!epochs.load_state(*json).ok()) return;
    (void)epochs.skip(3);
    const auto batches = epochs.begin({.batch_size = 10, .prefetch_batches = 0, .threads = 0});
    for (int64_t rows = 0; batches.ok() && rows <= 100;) {
      const auto batch = (*batches)->next();
      if (!batch.ok() || *batch == nullptr) break;
      rows += (*batch)->num_rows();
      EXPECT_LE(rows, 100);
    }
    (void)epochs.state();
  });
}

}  // namespace
}  // namespace paceline::data
