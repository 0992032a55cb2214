// How a failure of c10d becomes a CollectiveError: operation, rank, world size and what the backend said.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace paceline::comm {

/// The message of `failure` without LibTorch's C++ stack, on one line.
std::string cause_of(const std::exception& failure);

/// The cause of failures that this rank has brought about itself, because its run ends.
constexpr const char* kToldToStop = "aborted: this rank was told to stop";

/// Throws CollectiveError("all_reduce failed on rank 1 of 4: …"), with advice unless the cause is kToldToStop.
[[noreturn]] void throw_failure(const std::string& operation, int64_t rank, int64_t world_size,
                                const std::string& cause);

/// Whether `text` has in it what throw_failure() has thrown last in this process.
bool tells_last_failure(const std::string& text);

/// Runs `body`; its exceptions become CollectiveErrors. Those that already are pass unchanged.
void report_failures(const std::string& operation, int64_t rank, int64_t world_size, const std::function<void()>& body);

}  // namespace paceline::comm
