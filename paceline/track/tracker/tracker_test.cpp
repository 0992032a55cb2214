// The trackers that write files, read back by other readers than their writers; tensorboard_test.py is TensorBoard's.
#include "paceline/track/tracker/tracker.h"

#include <arrow/csv/api.h>
#include <arrow/io/memory.h>
#include <arrow/scalar.h>
#include <arrow/table.h>
#include <gmock/gmock.h>

#include <cstring>

#include "paceline/storage/local/durable.h"
#include "paceline/testing/temporary_folder.h"
#include "paceline/testing/tracker_conformance.h"

namespace paceline::track {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::KeptRow;
using testing::tracked_row;

Json loop_config() {
  return {{"lr", 0.5}, {"model", {{"layers", 12}, {"name", "vit"}}}, {"amp", true}, {"none", nullptr}};
}

// The run folder, and a tracker of one kind for it.
struct Place {
  testing::TemporaryFolder folder;
  TrackerConfig config;

  std::unique_ptr<Tracker> make(const Json& memory = nullptr) {
    return make_tracker({.config = config,
                         .run = {.name = "sample", .folder = folder.path(), .train_loop_config = loop_config()},
                         .memory = memory,
                         .abandoned = {}})
        .ValueOrDie();
  }
};

struct MemoryPlace {
  std::shared_ptr<testing::MemoryTracker::Kept> memory = std::make_shared<testing::MemoryTracker::Kept>();
  std::unique_ptr<Tracker> make(const Json& = nullptr) { return std::make_unique<testing::MemoryTracker>(memory); }
  std::vector<KeptRow> kept() { return memory->rows; }
};

struct JsonLinesPlace : Place {
  JsonLinesPlace() { config.kind = "json_lines"; }
  std::vector<KeptRow> kept() {
    std::vector<KeptRow> rows;
    std::istringstream lines(storage::read_file(folder / "metrics_flat.jsonl").ValueOr(""));
    for (std::string line; std::getline(lines, line);) {
      const Json row = Json::parse(line);
      KeptRow kept{.step = row["step"]};
      for (const auto& [name, value] : row.items()) {
        const bool is_own = name == "step" || name == "report" || name == "attempt" || name == "time";
        if (const auto number = number_of(value); number && !is_own) kept.numbers[name] = *number;
      }
      rows.push_back(std::move(kept));
    }
    return rows;
  }
};

// Read by Arrow.
struct CsvPlace : Place {
  CsvPlace() { config.kind = "csv"; }
  std::vector<KeptRow> kept() {
    const auto content = storage::read_file(folder / "metrics.csv");
    if (!content.ok()) return {};
    auto convert = arrow::csv::ConvertOptions::Defaults();
    convert.null_values = {""};
    const auto reader = arrow::csv::TableReader::Make(
        arrow::io::default_io_context(), std::make_shared<arrow::io::BufferReader>(arrow::Buffer::FromString(*content)),
        arrow::csv::ReadOptions::Defaults(), arrow::csv::ParseOptions::Defaults(), convert);
    const auto table = reader.ValueOrDie()->Read().ValueOrDie();
    std::vector<KeptRow> rows(static_cast<size_t>(table->num_rows()));
    for (int column = 0; column < table->num_columns(); ++column) {
      const std::string& name = table->field(column)->name();
      for (int64_t row = 0; row < table->num_rows(); ++row) {
        const auto cell = table->column(column)->GetScalar(row).ValueOrDie();
        const auto number = cell->is_valid ? cell->CastTo(arrow::float64()) : arrow::Status::Invalid("empty");
        if (!number.ok()) continue;
        const double value = std::static_pointer_cast<arrow::DoubleScalar>(*number)->value;
        if (name == "step") rows[static_cast<size_t>(row)].step = static_cast<int64_t>(value);
        if (column >= 5) rows[static_cast<size_t>(row)].numbers[name] = value;
      }
    }
    return rows;
  }
};

// The fields of a protocol-buffers message, by number: integers and the bytes of everything else.
std::vector<std::pair<int, std::string>> fields_of(std::string_view bytes) {
  const auto varint = [&bytes] {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes.front());
      bytes.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
  };
  std::vector<std::pair<int, std::string>> fields;
  while (!bytes.empty()) {
    const uint64_t tag = varint();
    const int field = static_cast<int>(tag >> 3);
    if ((tag & 7) == 0) {
      fields.emplace_back(field, std::to_string(varint()));
      continue;
    }
    const size_t size = (tag & 7) == 1 ? 8 : (tag & 7) == 5 ? 4 : varint();
    fields.emplace_back(field, bytes.substr(0, size));
    bytes.remove_prefix(size);
  }
  return fields;
}

struct TensorBoardPlace : Place {
  TensorBoardPlace() { config.kind = "tensorboard"; }
  std::vector<KeptRow> kept() {
    std::vector<KeptRow> rows;
    if (!std::filesystem::exists(folder / "tensorboard")) return rows;
    for (const std::string& name : testing::names_in(folder / "tensorboard")) {
      const std::string file = storage::read_file(folder / "tensorboard/" + name).ValueOrDie();
      for (size_t at = 0; at < file.size();) {
        uint64_t size = 0;
        std::memcpy(&size, file.data() + at, sizeof size);
        add_event(fields_of(std::string_view(file).substr(at + 12, size)), rows);
        at += 12 + size + 4;
      }
    }
    return rows;
  }
  static void add_event(const std::vector<std::pair<int, std::string>>& event, std::vector<KeptRow>& rows) {
    KeptRow row;
    for (const auto& [field, content] : event) {
      if (field == 2) row.step = std::stoll(content);
      if (field != 5) continue;
      for (const auto& [one, value] : fields_of(content)) add_value(fields_of(value), row);
    }
    if (!row.numbers.empty()) rows.push_back(std::move(row));
  }
  static void add_value(const std::vector<std::pair<int, std::string>>& value, KeptRow& row) {
    if (value.size() != 2 || value[1].first != 2) return;
    float number = 0;
    std::memcpy(&number, value[1].second.data(), sizeof number);
    row.numbers[value[0].second] = number;
  }
};

TEST(Tracker, EveryKindThatTheConfigurationAllowsIsThere) {
  const Constraint kinds = one_of({"tensorboard", "csv", "json_lines", "mlflow", "wandb"});
  for (const FieldInfo& field : TrackerConfig::fields()) {
    if (field.name != "kind") continue;
    EXPECT_EQ(field.allowed, kinds.words);
  }
  for (const char* kind : {"tensorboard", "csv", "json_lines", "wandb"}) {
    EXPECT_TRUE(check_tracker({.kind = kind}).ok()) << kind;
  }
  EXPECT_TRUE(check_tracker({.kind = "mlflow", .uri = "http://127.0.0.1:1"}).ok());
  EXPECT_THAT(check_tracker({.kind = "abacus"}).message(), HasSubstr("abacus"));
}

TEST(Tracker, SettingsThatMakeNoSenseAreRefused) {
  EXPECT_THAT(check_tracker({.kind = "csv", .uri = "http://server"}).message(),
              HasSubstr("TrackerConfig.uri is \"http://server\", but means nothing to the tracker \"csv\""));
  EXPECT_THAT(check_tracker({.kind = "mlflow", .uri = "sqlite:///x"}).message(), HasSubstr("MLFLOW_TRACKING_URI"));
  EXPECT_THAT(check_tracker({.kind = "mlflow"}).message(), HasSubstr("allowed: the address of an MLflow server"));
}

TEST(Tracker, StepsAreReportsOrTheUsersOwn) {
  const Json metrics = {{"epoch", 3}, {"at", {{"sample", 1.5e3}}}, {"text", "7"}, {"nan", std::nan("")}};
  EXPECT_EQ(step_of("", metrics, 9), 9);
  EXPECT_EQ(step_of("epoch", metrics, 9), 3);
  EXPECT_EQ(step_of("at/sample", metrics, 9), 1500);
  for (const char* name : {"text", "nan", "missing", "at"}) EXPECT_EQ(step_of(name, metrics, 9), 9) << name;
}

TEST(Tracker, AFolderOfOnesOwnHasAFolderForEachRun) {
  testing::TemporaryFolder elsewhere;
  JsonLinesPlace place;
  place.config.path = elsewhere.path();
  ASSERT_TRUE(place.make()->write(std::vector{tracked_row(1, {{"loss", 1}})}).ok());
  EXPECT_THAT(testing::names_in(elsewhere / "sample"), ElementsAre("metrics_flat.jsonl"));
}

// A crash between a row and the note of it.
// A checkpoint's line behind later reports does not make these come again.
TEST(Tracker, FilesSkipRowsThatTheyHaveBehindACheckpoint) {
  const auto write = [](auto& place, const std::vector<TrackedRow>& rows) {
    auto tracker = place.make();
    ASSERT_TRUE(tracker->write(rows).ok());
    ASSERT_TRUE(tracker->finish({}).ok());
  };
  const std::vector<TrackedRow> first = {
      tracked_row(1, {{"loss", 1}}), tracked_row(2, {{"loss", 2}}), {.step = 1, .report = 1, .checkpoint = "best"}};
  const std::vector<TrackedRow> again = {tracked_row(2, {{"loss", 2}}), tracked_row(3, {{"loss", 3}})};
  JsonLinesPlace lines;
  write(lines, first);
  write(lines, again);
  EXPECT_EQ(lines.kept().size(), 4u);
  CsvPlace csv;
  write(csv, first);
  write(csv, again);
  EXPECT_EQ(csv.kept().size(), 4u);
}

TEST(Tracker, FilesSkipRowsThatTheyHave) {
  const auto write_twice = [](auto& place) {
    ASSERT_TRUE(place.make()->write(std::vector{tracked_row(1, {{"x", 1}}), tracked_row(2, {{"x", 2}})}).ok());
    ASSERT_TRUE(place.make()->write(std::vector{tracked_row(2, {{"x", 2}}), tracked_row(3, {{"x", 3}})}).ok());
    const auto kept = place.kept();
    ASSERT_EQ(kept.size(), 3u);
    EXPECT_EQ(kept[2].step, 3);
  };
  CsvPlace csv;
  write_twice(csv);
  JsonLinesPlace json_lines;
  write_twice(json_lines);
}

TEST(Tracker, ACsvFileOfAnotherIsLeftAlone) {
  CsvPlace place;
  testing::write_file(place.folder / "metrics.csv", "name,age\nada,36\n");
  const arrow::Status status = place.make()->write(std::vector{tracked_row(1, {{"x", 1}})});
  EXPECT_TRUE(status.IsInvalid()) << status;
  EXPECT_EQ(storage::read_file(place.folder / "metrics.csv").ValueOrDie(), "name,age\nada,36\n");
}

TEST(Tracker, AFolderThatCannotBeMadeIsTriedAgain) {
  for (const char* kind : {"csv", "json_lines", "tensorboard"}) {
    Place place;
    place.config = {.kind = kind, .path = place.folder / "blocked"};
    testing::write_file(place.folder / "blocked", "a file stands here");
    const auto tracker = place.make();
    const auto rows = std::vector{tracked_row(1, {{"x", 1}})};
    EXPECT_TRUE(tracker->write(rows).IsIOError()) << kind;
    std::filesystem::remove(place.folder / "blocked");
    EXPECT_TRUE(tracker->write(rows).ok()) << kind;
  }
}

}  // namespace
}  // namespace paceline::track

namespace paceline::testing {
INSTANTIATE_TYPED_TEST_SUITE_P(Memory, TrackerConformance, track::MemoryPlace);
INSTANTIATE_TYPED_TEST_SUITE_P(Csv, TrackerConformance, track::CsvPlace);
INSTANTIATE_TYPED_TEST_SUITE_P(JsonLines, TrackerConformance, track::JsonLinesPlace);
INSTANTIATE_TYPED_TEST_SUITE_P(TensorBoard, TrackerConformance, track::TensorBoardPlace);
}  // namespace paceline::testing
