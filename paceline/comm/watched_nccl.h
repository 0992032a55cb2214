// Groups over NCCL whose collectives are counted: torch's own ProcessGroupNCCL in all else.
//
// Only builds for CUDA have it, and only comm/ and the Python bindings include it, which must name the class.
// Threading: as ProcessGroupNCCL.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <memory>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#include <vector>

#include "paceline/comm/torch_distributed.h"
#include "paceline/core/progress.h"

namespace paceline::comm {

struct BackendSettings;
class BackendLife;

/// Each collective makes its work in initWork(), whether or not its caller gets to see it. Nothing is known of those of
/// a CUDA graph, which the graph carries out, nor where nobody watches over the works (TORCH_NCCL_BLOCKING_WAIT), nor
/// of messages between two ranks and of groups that c10d splits off. Times are the GPU's own, unless
/// TORCH_NCCL_ENABLE_TIMING=0 forbids that: then a collective ends when c10d's watchdog sees it, up to 100 ms later.
class WatchedNccl final : public c10d::ProcessGroupNCCL {
 public:
  WatchedNccl(const c10::intrusive_ptr<c10d::Store>& store, const BackendSettings& settings,
              c10::intrusive_ptr<Options> options);
  ~WatchedNccl() override;

  void startCoalescing() override {
    parts_.clear();  // of what an exception has ended
    ProcessGroupNCCL::startCoalescing();
  }
  /// `record`: it is carried out by itself, and watched over; else it is a part of one with the title "nccl:coalesced",
  /// which comes last, or of a graph.
  c10::intrusive_ptr<WorkNCCL> initWork(at::Device& device, int rank, c10d::OpType type, bool is_message,
                                        const char* title, const std::vector<at::Tensor>& inputs,
                                        const std::vector<at::Tensor>& outputs, bool record) override;

 private:
  const std::shared_ptr<GroupProgress> progress_;  // null: not counted
  const std::shared_ptr<BackendLife> life_;        // null: nobody asks
  std::vector<CollectiveCall> parts_;              // of what is being coalesced
};

/// For programs that make their process groups themselves (torch_distributed.h). `nccl` has the timeout. Collective.
c10::intrusive_ptr<WatchedNccl> make_nccl(const c10::intrusive_ptr<c10d::Store>& store,
                                          const c10::intrusive_ptr<c10d::ProcessGroupNCCL::Options>& nccl,
                                          const BackendOptions& options);

}  // namespace paceline::comm
