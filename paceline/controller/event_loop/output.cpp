// What workers write: to the driver's standard output and standard error, or, where both are the terminal, above its
// live line.

#include "paceline/controller/event_loop/run_loop_internal.h"

namespace paceline::controller {

using namespace policy;

// What a process on another machine wrote goes into its log here, before anything else is done with it.
void RunLoop::note_output(const rpc::Envelope& envelope) {
  const auto log = logs_.find(envelope.identity.worker);
  if (log == logs_.end()) return;
  if (envelope.type == rpc::ProcessExited::kType || envelope.type == rpc::ProcessStartFailed::kType) {
    logs_.erase(log);
  } else if (envelope.type == rpc::Output::kType) {
    log->second.append(rpc::unpack<rpc::Output>(envelope).ValueOr(rpc::Output{}).lines);
  }
}

void RunLoop::show_output(WorkerId worker, int64_t rank, const std::string& name, const rpc::Output& output) {
  const Worker* const one = rank < 0 ? nullptr : find(worker);
  const int64_t local_rank = one == nullptr ? -1 : one->local_rank;
  const bool shown = !request_.shows_output || request_.shows_output(local_rank, output.stream);
  const OutputWritten written{worker, {.stream = output.stream, .bytes = rpc::bytes_of(output)}};
  if (shown && standard_output_ && output.stream == "stdout") {
    std::string text;
    for (const std::string& line : output.lines) {
      if (!request_.bare_output) text.append("(").append(name).append(") ");
      text.append(line).push_back('\n');
    }
    if (!text.empty()) standard_output_->write(std::move(text), written);
  } else {
    for (const std::string& line : output.lines) {
      if (shown) books_.terminal().output(name, line);
    }
    if (output.waits) receive(written);
  }
  if (shown && rank == 0 && output.bar) show_bar(name, output);
}

// One bar is shown: the one that was drawn last.
void RunLoop::show_bar(const std::string& name, const rpc::Output& output) {
  if (output.bar->empty() && output.stream != bar_stream_) return;
  bar_stream_ = output.bar->empty() ? "" : output.stream;
  books_.terminal().bar(name, *output.bar);
}

void RunLoop::receive(const OutputWritten& incoming) {
  if (incoming.taken.bytes > 0) send(incoming.worker, rpc::pack(incoming.taken, identity_of(incoming.worker)));
}

void RunLoop::receive(const OutputLeftOut& incoming) {
  books_.log().warning(std::to_string(incoming.lines) +
                       " lines of the workers' output are not shown here: they came faster than they could be written; "
                       "all of them are in logs/");
}

}  // namespace paceline::controller
