// Processes that call functions, for tests: threads of this one that speak the same messages.
#pragma once

#include <arrow/io/memory.h>
#include <arrow/ipc/reader.h>
#include <arrow/ipc/writer.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <atomic>
#include <csignal>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <variant>

#include "paceline/core/posix/sealed_memory.h"
#include "paceline/core/posix/socket_pair.h"
#include "paceline/data/function/block_transfer.h"
#include "paceline/data/function/function_processes.h"
#include "paceline/rpc/blocking_socket.h"

namespace paceline::data {

/// A call as it arrives in a process.
struct FakeCall {
  int process = 0;   ///< from 0, in the order in which they were started
  std::string code;  ///< of the function
  std::shared_ptr<arrow::RecordBatch> block;
  uint64_t key = 0;
};

/// What the process does then: ends by a signal, raises an exception, or gives a block.
struct FakeCrash {
  static constexpr int kNobodyKnows = -1;
  int signal = SIGSEGV;
};
struct FakeRaise {
  std::string text;
};
using FakeReply = std::variant<std::shared_ptr<arrow::RecordBatch>, FakeRaise, FakeCrash>;

/// The process's own side.
class FakeServer {
 public:
  FakeServer(int number, std::function<FakeReply(const FakeCall&)> function, Descriptor socket)
      : number_(number), function_(std::move(function)), socket_(std::move(socket)) {}

  void serve() {
    while (true) {
      auto received = socket_.receive();
      if (!received.ok() || !*received) return;
      rpc::Envelope& message = **received;
      if (message.type == FunctionCode::kType) {
        const int64_t function = rpc::unpack<FunctionCode>(message)->function;
        code_[function] = SealedMemory::open(message.descriptors.at(0))->bytes();
      } else if (message.type == FunctionRegion::kType) {
        auto memory = SharedMemory::open(std::move(message.descriptors.at(0)), 1).ValueOrDie();
        const int64_t region = rpc::unpack<FunctionRegion>(message)->region;
        regions_[region] = std::make_shared<SharedRegion>(region, std::move(memory));
      } else if (!answer(rpc::unpack<FunctionCall>(message).ValueOrDie())) {
        return end(0);
      }
    }
  }
  void end(int signal) {
    int none = 0;
    signal_.compare_exchange_strong(none, signal);
    socket_.shut_down();
  }
  int signal() const { return signal_; }

 private:
  bool answer(const FunctionCall& call) {
    for (const int64_t function : call.gone_functions) code_.erase(function);
    const auto& input = regions_.at(call.input);
    (void)input->reserve(call.input_bytes);
    arrow::io::BufferReader stream(part_of(input, 0, call.input_bytes).ValueOrDie());
    auto block = arrow::ipc::RecordBatchStreamReader::Open(&stream).ValueOrDie()->Next().ValueOrDie();
    const FakeReply reply = function_({number_, code_.at(call.function), std::move(block), call.key});
    if (const auto* const crash = std::get_if<FakeCrash>(&reply)) {
      end(crash->signal);
      return false;
    }
    if (const auto* const raise = std::get_if<FakeRaise>(&reply)) {
      rpc::Envelope envelope = rpc::pack(FunctionRaised{.text = raise->text, .traceback = "a traceback"});
      envelope.bytes = "pickled";
      return socket_.send(std::move(envelope)).ok();
    }
    const auto& made = *std::get<std::shared_ptr<arrow::RecordBatch>>(reply);
    return socket_.send(message_of(made, *regions_.at(call.output))).ok();
  }

  // Each column as a stream of its own, one behind the other.
  static rpc::Envelope message_of(const arrow::RecordBatch& made, SharedRegion& output) {
    FunctionMade message{.rows = made.num_rows()};
    for (int i = 0; i < made.num_columns(); ++i) {
      SharedRegion alone(0, SharedMemory::create("column", 1).ValueOrDie());
      const int64_t bytes = write_block(*made.SelectColumns({i}).ValueOrDie(), alone).ValueOrDie();
      const int64_t first = (message.output_bytes + 63) / 64 * 64;
      (void)output.reserve(first + bytes);
      std::memcpy(output.data() + first, alone.data(), static_cast<size_t>(bytes));
      message.columns.push_back({{"stream", {first, bytes}}});
      message.output_bytes = first + bytes;
    }
    rpc::Envelope envelope = rpc::pack(message);
    envelope.bytes = arrow::ipc::SerializeSchema(*made.schema()).ValueOrDie()->ToString();
    return envelope;
  }

  const int number_;
  const std::function<FakeReply(const FakeCall&)> function_;
  rpc::BlockingSocket socket_;
  std::map<int64_t, std::string> code_;
  std::map<int64_t, std::shared_ptr<SharedRegion>> regions_;
  std::atomic<int> signal_ = 0;
};

class FakeProcess : public FunctionProcess {
 public:
  FakeProcess(pid_t pid, Descriptor socket, std::shared_ptr<FakeServer> server, const std::atomic<int64_t>& memory,
              const std::function<void()>& stack_is_shown)
      : pid_(pid),
        socket_(std::move(socket)),
        server_(std::move(server)),
        memory_(memory),
        stack_is_shown_(stack_is_shown) {}
  ~FakeProcess() override { kill(); }
  pid_t pid() const override { return pid_; }
  Descriptor take_socket() override { return std::move(socket_); }
  void kill() override { server_->end(SIGKILL); }
  void show_stack() override {
    if (stack_is_shown_) stack_is_shown_();
  }
  std::optional<ExitStatus> wait() override {
    if (server_->signal() == FakeCrash::kNobodyKnows) return std::nullopt;
    return ExitStatus{.signal = server_->signal()};
  }
  int64_t memory() const override { return memory_; }

 private:
  const pid_t pid_;
  Descriptor socket_;
  const std::shared_ptr<FakeServer> server_;
  const std::atomic<int64_t>& memory_;
  const std::function<void()>& stack_is_shown_;
};

class FakeProcesses : public FunctionProcesses {
 public:
  explicit FakeProcesses(std::function<FakeReply(const FakeCall&)> function) : function_(std::move(function)) {}
  /// Waits for functions that processes which were killed are still in.
  ~FakeProcesses() override {
    for (std::thread& thread : threads_) thread.join();
  }
  arrow::Result<std::unique_ptr<FunctionProcess>> start(const std::map<std::string, std::string>& given) override {
    const std::lock_guard lock(mutex_);
    const int number = static_cast<int>(variables.size());
    variables.push_back(given);
    ARROW_ASSIGN_OR_RAISE(auto ends, make_socket_pair());
    auto server = std::make_shared<FakeServer>(number, function_, std::move(ends.second));
    threads_.emplace_back([server] { server->serve(); });
    servers_.push_back(server);
    return std::make_unique<FakeProcess>(1000 + number, std::move(ends.first), std::move(server), memory,
                                         stack_is_shown);
  }

  /// A process is killed, from outside.
  void end(int process) {
    const std::lock_guard lock(mutex_);
    servers_.at(static_cast<size_t>(process))->end(SIGKILL);
  }

  std::vector<std::map<std::string, std::string>> variables;  ///< of each that was started
  std::atomic<int64_t> memory = 0;                            ///< that each process seems to hold
  std::function<void()> stack_is_shown;                       ///< called when a process is to show its stack

 private:
  const std::function<FakeReply(const FakeCall&)> function_;
  std::mutex mutex_;
  std::vector<std::thread> threads_;
  std::vector<std::shared_ptr<FakeServer>> servers_;
};

}  // namespace paceline::data
