// The strategy "none": the model stays this rank's own affair, and a checkpoint holds that of every rank.
#pragma once

#include <memory>

#include "paceline/parallel/parallel_model.h"

namespace paceline::parallel {

std::shared_ptr<ParallelModel> keep_local(std::shared_ptr<torch::nn::Module> module,
                                          std::shared_ptr<comm::Group> group);

}  // namespace paceline::parallel
