#include "paceline/rpc/memory_channel.h"

#include "paceline/testing/channel_conformance.h"

namespace paceline::testing {
namespace {

struct MemoryChannels {
  static constexpr ChannelCapabilities kCapabilities{};
  ChannelPair make() {
    auto [left, right] = rpc::make_memory_channels();
    return {std::move(left), std::move(right)};
  }
};

INSTANTIATE_TYPED_TEST_SUITE_P(Memory, ChannelConformance, MemoryChannels);

}  // namespace
}  // namespace paceline::testing
