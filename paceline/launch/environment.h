// The variables that programs written for torchrun expect (torch.distributed.elastic sets the same). Pure.
#pragma once

#include <optional>
#include <string>

#include "paceline/core/ids.h"
#include "paceline/launch/program_plan.h"
#include "paceline/rpc/messages.h"

namespace paceline::launch {

/// Where Python programs find the store: the name of an abstract Unix socket, with '@' for the leading zero byte.
inline constexpr const char* kStoreVariable = "PACELINE_STORE";
/// "ADDRESS:PORT" as it stands in MASTER_ADDR and MASTER_PORT: a program that has set others wants another rendezvous.
inline constexpr const char* kMasterVariable = "PACELINE_MASTER";

/// A rank of an attempt, as far as its environment depends on it.
struct ProgramPlace {
  rpc::Assign assign;
  Attempt attempt;
  int64_t threads = 1;      // the rank's share of the cores
  int64_t master_port = 0;  // that the ranks have agreed on
  std::string store;        // for kStoreVariable
  std::string error_file;   // for what error_file.h reads
};

/// The whole environment of the program: the one it inherits, with torchrun's variables, and with what keeps c10d's
/// backends on loopback unless the user has said otherwise (GLOO_SOCKET_IFNAME, NCCL_SOCKET_IFNAME).
rpc::StringMap program_environment(const ProgramPlan& plan, const ProgramPlace& place, rpc::StringMap inherited);

/// The rank's command line.
rpc::Strings program_command(const ProgramPlan& plan, const rpc::Assign& assign);

/// The entry of a list such as CUDA_VISIBLE_DEVICES="2,3" for the local rank; the rank itself where there is no list,
/// and "-1", which is no device, beyond the end of the list.
std::string visible_device(const std::optional<std::string>& devices, int64_t local_rank);

}  // namespace paceline::launch
