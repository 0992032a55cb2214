#include <algorithm>
#include <chrono>

#include "paceline/data/function/function_connection_internal.h"

namespace paceline::data {
namespace {

constexpr std::chrono::milliseconds kBetweenLooks{100};

}  // namespace

FunctionConnection::FunctionConnection(std::unique_ptr<FunctionProcess> process)
    : process_(std::move(process)), socket_(process_->take_socket()) {}

template <class M>
arrow::Status FunctionConnection::introduce(std::set<int64_t>& known, int64_t id, M message,
                                            const Descriptor& descriptor) {
  if (known.contains(id)) return arrow::Status::OK();
  rpc::Envelope envelope = rpc::pack(message);
  ARROW_ASSIGN_OR_RAISE(Descriptor same, descriptor.duplicate());
  envelope.descriptors.push_back(std::move(same));
  ARROW_RETURN_NOT_OK(socket_.send(std::move(envelope)));
  known.insert(id);
  return arrow::Status::OK();
}

arrow::Status FunctionConnection::send(FunctionCall call, const Descriptor& code, const SharedRegion& input,
                                       const SharedRegion& output) {
  for (const int64_t gone : call.gone_functions) functions_.erase(gone);
  for (const int64_t gone : call.gone_regions) regions_.erase(gone);
  call.input = input.id();
  call.output = output.id();
  ARROW_RETURN_NOT_OK(introduce(functions_, call.function, FunctionCode{call.function}, code));
  ARROW_RETURN_NOT_OK(introduce(regions_, call.input, FunctionRegion{call.input}, input.descriptor()));
  ARROW_RETURN_NOT_OK(introduce(regions_, call.output, FunctionRegion{call.output}, output.descriptor()));
  return socket_.send(rpc::pack(call));
}

FunctionAnswer FunctionConnection::died(int64_t memory) {
  process_->kill();  // where it lives, and speaks nonsense
  return {.what = FunctionAnswer::Died{process_->wait(), memory}, .bytes = {}};
}

bool FunctionConnection::has_ended() {
  const auto waited = socket_.wait(std::chrono::milliseconds(0));  // nothing comes unasked but the end
  return !waited.ok() || *waited;
}

// Until something is there for receive(), which also tells errors; or what the process holds, if that is too much.
arrow::Result<std::optional<int64_t>> FunctionConnection::wait_for_answer(const FunctionWatch& watch) {
  using std::chrono::milliseconds;
  const auto slow_at = std::chrono::steady_clock::now() + watch.slow_after;
  bool is_slow = false, is_there = false;
  while (!is_there) {
    if (watch.memory == 0 && is_slow) return std::nullopt;
    const auto left = std::chrono::ceil<milliseconds>(slow_at - std::chrono::steady_clock::now());
    if (!is_slow && left <= milliseconds(0)) {
      is_slow = true;
      watch.is_slow();
      continue;
    }
    auto waited = socket_.wait(watch.memory > 0 ? std::min(kBetweenLooks, is_slow ? kBetweenLooks : left) : left);
    is_there = !waited.ok() || *waited;
    if (watch.memory == 0) continue;
    const int64_t used = process_->memory();
    if (used > watch.memory) return used;
  }
  return std::nullopt;
}

arrow::Result<FunctionAnswer> FunctionConnection::call(FunctionCall call, const Descriptor& code,
                                                       const SharedRegion& input, const SharedRegion& output,
                                                       const FunctionWatch& watch) {
  if (!send(std::move(call), code, input, output).ok()) return died(0);
  ARROW_ASSIGN_OR_RAISE(const std::optional<int64_t> too_much, wait_for_answer(watch));
  if (too_much) return died(*too_much);
  auto received = socket_.receive();
  if (!received.ok() || !*received) return died(0);
  FunctionAnswer answer;
  answer.bytes = std::move((*received)->bytes);
  if ((*received)->type == FunctionMade::kType) {
    ARROW_ASSIGN_OR_RAISE(answer.what, rpc::unpack<FunctionMade>(**received));
  } else {
    ARROW_ASSIGN_OR_RAISE(answer.what, rpc::unpack<FunctionRaised>(**received));
  }
  return answer;
}

}  // namespace paceline::data
