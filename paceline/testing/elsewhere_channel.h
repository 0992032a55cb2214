// A channel whose ends are on different machines as far as those can tell: no descriptor goes over it.
#pragma once

#include <memory>
#include <utility>

#include "paceline/rpc/memory_channel.h"

namespace paceline::testing {

class ElsewhereChannel final : public rpc::Channel {
 public:
  explicit ElsewhereChannel(std::unique_ptr<rpc::Channel> channel) : channel_(std::move(channel)) {}

  /// Two ends, joined in memory.
  static std::pair<std::unique_ptr<rpc::Channel>, std::unique_ptr<rpc::Channel>> make_pair() {
    auto [left, right] = rpc::make_memory_channels();
    return {std::make_unique<ElsewhereChannel>(std::move(left)), std::make_unique<ElsewhereChannel>(std::move(right))};
  }

  void start(Handlers handlers) override { channel_->start(std::move(handlers)); }
  arrow::Status send(rpc::Envelope envelope) override {
    if (!envelope.descriptors.empty()) {
      return arrow::Status::Invalid("a ", envelope.type, " has descriptors, which cannot leave their machine");
    }
    return channel_->send(std::move(envelope));
  }
  bool carries_descriptors() const override { return false; }
  void close() override { channel_->close(); }

 private:
  std::unique_ptr<rpc::Channel> channel_;
};

}  // namespace paceline::testing
