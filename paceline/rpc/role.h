// The roles of processes that agents start: what each is for, and how long it lives.
//
// A role is a row here and a function of the program that plays it: in the table kRoles of train/worker/worker.cpp for
// users' programs, in launch/program_worker.cpp for `paceline`, which plays one. The controller asks an agent for the
// process (controller/worker_process.h).
#pragma once

namespace paceline::rpc {

/// Executes the train loop; lives as long as its attempt.
inline constexpr const char* kWorkerRole = "worker";
/// Runs a program of `paceline run` as a rank; lives as long as its attempt.
inline constexpr const char* kProgramRole = "program";
/// Validates one checkpoint and ends; attempts may come and go meanwhile.
inline constexpr const char* kValidationRole = "validation";

}  // namespace paceline::rpc
