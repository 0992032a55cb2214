// What groups refuse: CollectiveErrors of this rank, thrown before anything is sent.
#pragma once

#include <cstdint>
#include <vector>

#include "paceline/comm/group.h"

namespace paceline::comm {

/// When a group of that size has no such rank.
void check_place(int64_t rank, int64_t world_size);
/// When `tensor` is sparse.
void check_dense(const char* operation, const torch::Tensor& tensor);
/// When `tensor` cannot be reduced with `op`.
void check_reducible(const char* operation, const torch::Tensor& tensor, ReduceOp op);
/// When `whole` is not as large as a `part` of each rank, or of another type, or elsewhere.
void check_parts(const char* operation, const torch::Tensor& whole, const torch::Tensor& part, int64_t world_size);
/// When the rows do not fit the tensors.
void check_rows(const torch::Tensor& output, const torch::Tensor& input, const std::vector<int64_t>& output_rows,
                const std::vector<int64_t>& input_rows, int64_t world_size);
/// When there is no such rank.
void check_root(int64_t root, int64_t world_size);
/// When there is no such rank to send to, or to receive from, and no such tag.
void check_message(const char* operation, const torch::Tensor& tensor, int64_t other, int tag, int64_t rank,
                   int64_t world_size);
/// When these ranks make no group.
void check_split(const std::vector<int64_t>& ranks, int64_t world_size);
/// When there cannot be so many.
void check_elements(int64_t elements);

}  // namespace paceline::comm
