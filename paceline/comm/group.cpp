#include "paceline/comm/group.h"

#include <exception>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <utility>

#include "paceline/comm/backend.h"
#include "paceline/comm/checks_internal.h"
#include "paceline/comm/control_store.h"
#include "paceline/comm/group_internal.h"
#include "paceline/core/error.h"

namespace paceline::comm {
const char* to_string(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return "sum";
    case ReduceOp::mean:
      return "mean";
    case ReduceOp::min:
      return "min";
    case ReduceOp::max:
      return "max";
    case ReduceOp::product:
      return "product";
  }
  return "unknown";
}

GroupOptions checked(GroupOptions options) {
  const c10::DeviceType device = options.device.type();
  if (options.backend.empty()) options.backend = default_backend(device).name;
  const Backend* const backend = find_backend(options.backend);
  if (backend == nullptr || !backend->is_built_in()) {
    throw CollectiveError("the backend \"" + options.backend + "\" is not in this build" +
                          (backend == nullptr ? "" : ", it needs " + std::string(backend->missing)) +
                          "; available=" + backends_for(device));
  }
  if (!backend->takes(device)) {
    throw CollectiveError("the backend \"" + options.backend + "\" does not carry tensors of the device " +
                          options.device.str() + "; available=" + backends_for(device));
  }
  check_place(options.rank, options.world_size);
  return options;
}

std::shared_ptr<Group> Group::create(const GroupOptions& options, std::shared_ptr<rpc::KeyValueClient> store) {
  const GroupOptions settings = checked(options);
  if (settings.world_size == 1) return make_local_group();
  return make_c10d_group(settings, make_control_store(std::move(store), settings.timeout),
                         settings.address.empty() ? kLoopback : settings.address);
}

std::vector<std::shared_ptr<Group>> Group::in_process(int64_t world_size) {
  if (world_size == 1) return {make_local_group()};
  auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::shared_ptr<Group>> groups(world_size);
  std::vector<std::exception_ptr> failures(world_size);
  std::vector<std::thread> ranks;
  for (int64_t rank = 0; rank < world_size; ++rank) {
    ranks.emplace_back([&, rank] {
      try {
        GroupOptions options;
        options.rank = rank;
        options.world_size = world_size;
        options.timeout = std::chrono::minutes(1);
        groups[rank] = make_c10d_group(checked(options), store, kLoopback);
      } catch (...) {
        failures[rank] = std::current_exception();
      }
    });
  }
  for (auto& rank : ranks) rank.join();
  for (const auto& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
  return groups;
}

std::vector<std::string> all_gather_text(Group& group, const std::string& text) {
  std::vector<torch::Tensor> sizes = group.all_gather(torch::tensor({static_cast<int64_t>(text.size())}));
  int64_t longest = 0;
  for (const auto& size : sizes) longest = std::max(longest, size.item<int64_t>());
  torch::Tensor padded = torch::zeros({longest}, torch::kUInt8);
  std::copy(text.begin(), text.end(), padded.data_ptr<uint8_t>());
  std::vector<std::string> texts;
  for (const auto& bytes : group.all_gather(padded)) {
    const auto* begin = reinterpret_cast<const char*>(bytes.data_ptr<uint8_t>());
    texts.emplace_back(begin, begin + sizes[texts.size()].item<int64_t>());
  }
  return texts;
}

}  // namespace paceline::comm
