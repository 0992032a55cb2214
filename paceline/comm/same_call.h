// Whether all ranks make the same call: Gloo and NCCL do not look. Where shapes differ, one rank gets a wrong answer
// and another hangs or aborts; where types differ, all get garbage. The backend "paceline" compares kind, size and type
// of what it is called for, but not shapes.
//
// For collectives that users ask for; those that Paceline makes by itself know their tensors.
#pragma once

#include <torch/torch.h>

#include <string>

#include "paceline/comm/group.h"

namespace paceline::comm {

/// Throws the same CollectiveError on every rank unless all ranks say the same `operation` ("all_reduce (sum)") of
/// tensors of one shape, type and kind of device. Collective, before what it is for; costs a message of 256 bytes a
/// rank over the CPU's backend.
void check_same_call(Group& group, const std::string& operation, const torch::Tensor& tensor);

}  // namespace paceline::comm
