// Frames: from a message to bytes of a stream, and back.
#include <benchmark/benchmark.h>

#include "paceline/rpc/frame.h"
#include "paceline/rpc/messages.h"

namespace paceline::rpc {
namespace {

Envelope report_envelope() {
  Report report;
  report.metrics = Json{{"loss", 0.125}, {"step", 1234}};
  return pack(report);
}

void encode_report(benchmark::State& state) {
  for (auto _ : state) {
    const Envelope envelope = report_envelope();
    benchmark::DoNotOptimize(encode_frame_start(envelope).ValueOrDie());
  }
}
BENCHMARK(encode_report);

void decode_report(benchmark::State& state) {
  const std::string frame = encode_frame_start(report_envelope()).ValueOrDie();
  FrameReader reader;
  for (auto _ : state) {
    if (!reader.feed(std::as_bytes(std::span(frame))).ok()) state.SkipWithError("the frame is refused");
    const Envelope envelope = std::move(*reader.next().ValueOrDie());
    benchmark::DoNotOptimize(unpack<Report>(envelope).ValueOrDie());
  }
}
BENCHMARK(decode_report);

}  // namespace
}  // namespace paceline::rpc
