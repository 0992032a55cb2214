#include "paceline/comm/same_call.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <sstream>
#include <vector>

#include "paceline/core/error.h"

namespace paceline::comm {
namespace {

constexpr size_t kBytes = 256;  // of one length on all ranks, so that one message says it all

std::string describe(const std::string& operation, const torch::Tensor& tensor) {
  std::ostringstream call;
  call << operation << " of " << c10::toString(tensor.scalar_type()) << ' ' << tensor.sizes();
  if (tensor.layout() != torch::kStrided) call << ' ' << tensor.layout();
  if (!tensor.is_cpu()) call << " on " << tensor.device().type();
  std::string text = call.str();
  text.resize(std::min(text.size(), kBytes - 1));
  return text;
}

std::vector<std::string> calls_by_rank(Group& group, const std::string& own) {
  torch::Tensor bytes = torch::zeros({static_cast<int64_t>(kBytes)}, torch::kUInt8);
  std::memcpy(bytes.data_ptr(), own.data(), own.size());
  std::vector<std::string> calls;
  for (const torch::Tensor& said : group.all_gather(bytes)) {
    calls.emplace_back(reinterpret_cast<const char*>(said.const_data_ptr<uint8_t>()));
  }
  return calls;
}

}  // namespace

void check_same_call(Group& group, const std::string& operation, const torch::Tensor& tensor) {
  if (group.size() == 1) return;
  const std::vector<std::string> calls = calls_by_rank(group, describe(operation, tensor));
  std::map<std::string, std::string> ranks;
  for (size_t rank = 0; rank < calls.size(); ++rank) {
    std::string& with_this = ranks[calls[rank]];
    with_this += (with_this.empty() ? "" : ", ") + std::to_string(rank);
  }
  if (ranks.size() == 1) return;
  std::string differences;
  for (const auto& [call, who] : ranks) {
    differences += (differences.empty() ? "" : "; ") + call + " on rank " + who;
  }
  throw CollectiveError("the ranks' collectives do not fit together: " + differences +
                        ". Every rank must make the same call with tensors of one shape and type; pad or gather what "
                        "differs in size");
}

}  // namespace paceline::comm
