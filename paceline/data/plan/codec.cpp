#include "paceline/data/plan/codec.h"

#include <arrow/io/memory.h>
#include <arrow/ipc/reader.h>
#include <arrow/ipc/writer.h>
#include <arrow/record_batch.h>

#include <map>
#include <string_view>

#include "paceline/core/record.h"

namespace paceline::data {
namespace {

using Numbers = std::vector<int64_t>;

// A step, and where its rows are: `rows_size` bytes from `rows_at` of what follows the JSON; none where 0.
#define PACELINE_ENCODED_STEP_FIELDS(FIELD) \
  FIELD(std::string, kind, "")              \
  FIELD(Json, options, Json::object())      \
  FIELD(Numbers, inputs, {})                \
  FIELD(int64_t, rows_at, 0)                \
  FIELD(int64_t, rows_size, 0)
PACELINE_RECORD(EncodedStep, PACELINE_ENCODED_STEP_FIELDS);

using Steps = std::vector<EncodedStep>;
using StepsByName = std::map<std::string, int64_t>;

// Inputs stand before the steps that use them.
#define PACELINE_ENCODED_PLANS_FIELDS(FIELD) \
  FIELD(Steps, steps, {})                    \
  FIELD(StepsByName, plans, {})
PACELINE_RECORD(EncodedPlans, PACELINE_ENCODED_PLANS_FIELDS);

constexpr size_t kAlignment = 64;  // of rows, so that they can be used where they are

std::string padded(std::string text) {
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  return text;
}

class Encoder {
 public:
  arrow::Result<int64_t> add(const Plan& plan) {
    if (const auto known = numbers_.find(&plan); known != numbers_.end()) return known->second;
    if (plan.function != nullptr) {
      return arrow::Status::NotImplemented("the step ", plan.function->name(),
                                           " cannot be sent to another process: its function has no name there");
    }
    if (plan.source != nullptr) {
      return arrow::Status::NotImplemented("a source of the program's own cannot be sent to another process");
    }
    EncodedStep step{.kind = plan.kind, .options = plan.options};
    for (const auto& input : plan.inputs) {
      ARROW_ASSIGN_OR_RAISE(step.inputs.emplace_back(), add(*input));
    }
    if (!plan.rows.empty()) {
      step.rows_at = static_cast<int64_t>(rows_.size());
      ARROW_ASSIGN_OR_RAISE(step.rows_size, add_rows(plan));
    }
    const auto number = static_cast<int64_t>(encoded_.steps.size());
    encoded_.steps.push_back(std::move(step));
    return numbers_[&plan] = number;
  }

  void name(const std::string& plan, int64_t step) { encoded_.plans[plan] = step; }
  std::string bytes() const { return padded(encode_json(Json(encoded_)) + "\n") + rows_; }

 private:
  arrow::Result<int64_t> add_rows(const Plan& plan) {
    ARROW_ASSIGN_OR_RAISE(const auto stream, arrow::io::BufferOutputStream::Create());
    arrow::ipc::IpcWriteOptions options = arrow::ipc::IpcWriteOptions::Defaults();
    options.alignment = kAlignment;
    ARROW_ASSIGN_OR_RAISE(const auto writer,
                          arrow::ipc::MakeStreamWriter(stream, plan.rows.front()->schema(), options));
    for (const auto& batch : plan.rows) ARROW_RETURN_NOT_OK(writer->WriteRecordBatch(*batch));
    ARROW_RETURN_NOT_OK(writer->Close());
    ARROW_ASSIGN_OR_RAISE(const auto buffer, stream->Finish());
    rows_ = padded(std::move(rows_).append(std::string_view(*buffer)));
    return buffer->size();
  }

  EncodedPlans encoded_;
  std::map<const Plan*, int64_t> numbers_;
  std::string rows_;
};

arrow::Result<std::vector<std::shared_ptr<arrow::RecordBatch>>> rows_of(const std::shared_ptr<arrow::Buffer>& bytes,
                                                                        int64_t at, int64_t size) {
  if (size == 0) return std::vector<std::shared_ptr<arrow::RecordBatch>>();
  ARROW_ASSIGN_OR_RAISE(auto slice, arrow::SliceBufferSafe(bytes, at, size));
  const auto stream = std::make_shared<arrow::io::BufferReader>(std::move(slice));
  arrow::ipc::IpcReadOptions options = arrow::ipc::IpcReadOptions::Defaults();
  options.ensure_alignment = arrow::ipc::Alignment::kDataTypeSpecificAlignment;  // where the bytes begin anywhere
  ARROW_ASSIGN_OR_RAISE(const auto reader, arrow::ipc::RecordBatchStreamReader::Open(stream, options));
  ARROW_ASSIGN_OR_RAISE(auto batches, reader->ToRecordBatches());
  for (const auto& batch : batches) ARROW_RETURN_NOT_OK(batch->ValidateFull());
  return batches;
}

arrow::Result<std::map<std::string, Plan>> decoded(const EncodedPlans& encoded,
                                                   const std::shared_ptr<arrow::Buffer>& rows) {
  std::vector<std::shared_ptr<const Plan>> steps;
  const auto step_at = [&](int64_t number) -> arrow::Result<std::shared_ptr<const Plan>> {
    if (number >= 0 && number < static_cast<int64_t>(steps.size())) return steps[static_cast<size_t>(number)];
    return arrow::Status::Invalid("a plan names step ", number, " of ", steps.size());
  };
  for (const EncodedStep& step : encoded.steps) {
    Plan plan{.kind = step.kind, .options = step.options};
    if (!plan.options.is_object()) {
      return arrow::Status::Invalid("the options of step '", plan.kind, "' are no object: ", plan.options.dump());
    }
    for (const int64_t input : step.inputs) {
      ARROW_ASSIGN_OR_RAISE(plan.inputs.emplace_back(), step_at(input));
    }
    ARROW_ASSIGN_OR_RAISE(plan.rows, rows_of(rows, step.rows_at, step.rows_size));
    steps.push_back(std::make_shared<Plan>(std::move(plan)));
  }
  std::map<std::string, Plan> plans;
  for (const auto& [name, number] : encoded.plans) {
    ARROW_ASSIGN_OR_RAISE(const auto plan, step_at(number));
    plans.emplace(name, *plan);
  }
  return plans;
}

}  // namespace

arrow::Result<std::string> encode_plans(const std::map<std::string, Plan>& plans) {
  Encoder encoder;
  for (const auto& [name, plan] : plans) {
    const arrow::Status status = check_depth(plan);
    const arrow::Result<int64_t> step = status.ok() ? encoder.add(plan) : status;
    if (!step.ok()) return step.status().WithMessage("the dataset '", name, "': ", step.status().message());
    encoder.name(name, *step);
  }
  return encoder.bytes();
}

arrow::Result<std::map<std::string, Plan>> decode_plans(const std::shared_ptr<arrow::Buffer>& bytes) {
  const std::string_view text(*bytes);
  const size_t end = text.find('\n');
  if (end == std::string_view::npos) return arrow::Status::Invalid("these bytes are no plans: they have no first line");
  ARROW_ASSIGN_OR_RAISE(const Json json, decode_json(text.substr(0, end)));
  if (!json.is_object()) return arrow::Status::Invalid("these bytes are no plans: their first line is ", json.dump());
  try {
    const size_t rows_at = (end + kAlignment) / kAlignment * kAlignment;
    return decoded(json.get<EncodedPlans>(),
                   arrow::SliceBuffer(bytes, static_cast<int64_t>(std::min(rows_at, text.size()))));
  } catch (const Json::exception& error) {
    return arrow::Status::Invalid("these bytes are no plans: ", error.what());
  }
}

}  // namespace paceline::data
