// What `paceline show --collectives` tells of a run's last collectives: times and bandwidth per kind and size.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "paceline/core/record.h"
#include "paceline/run/collectives.h"

namespace paceline::views {

// Collectives of one kind whose bytes are in one class of size. Of the ranks together.
#define PACELINE_COLLECTIVES_OF_KIND_FIELDS(FIELD)                                        \
  FIELD(std::string, collective, "")                                                      \
  FIELD(int64_t, up_to_bytes, 0) /* of the class: a power of 4; 0: those without bytes */ \
  FIELD(int64_t, count, 0)       /* that have ended well; each rank counts its own */     \
  FIELD(int64_t, bytes, 0)       /* of all of them */                                     \
  FIELD(double, median_s, 0.0)                                                            \
  FIELD(double, p99_s, 0.0)                                                               \
  FIELD(double, bytes_per_s, 0.0) /* the algorithm's: bytes by time */                    \
  FIELD(double, share, 0.0)       /* of the ranks' time from the first of all collectives to the last */
PACELINE_RECORD(CollectivesOfKind, PACELINE_COLLECTIVES_OF_KIND_FIELDS);

// One that has not ended well, or the first of several on a rank.
#define PACELINE_COLLECTIVE_OF_RANK_FIELDS(FIELD)                                               \
  FIELD(int64_t, rank, 0)                                                                       \
  FIELD(bool, ended, false) /* the rank has */                                                  \
  FIELD(int64_t, count, 1)                                                                      \
  FIELD(std::string, collective, "")                                                            \
  FIELD(int64_t, number, 0)                                                                     \
  FIELD(int64_t, group, 0)                                                                      \
  FIELD(std::string, of, "") /* "ranks 0, 2", "group 2" of all ranks; "" for their first */     \
  FIELD(std::string, type, "")                                                                  \
  FIELD(int64_t, bytes, 0)                                                                      \
  FIELD(int64_t, step, 0)     /* of the call */                                                 \
  FIELD(double, since, 0.0)   /* seconds since the Unix epoch, of the wait, else of the call */ \
  FIELD(double, seconds, 0.0) /* until it failed, else until the records were taken */
PACELINE_RECORD(CollectiveOfRank, PACELINE_COLLECTIVE_OF_RANK_FIELDS);

#define PACELINE_COLLECTIVES_SUMMARY_FIELDS(FIELD)                                                \
  FIELD(std::string, folder, "") /* with the records; "" where there are none */                  \
  FIELD(int64_t, attempt, 0)                                                                      \
  FIELD(int64_t, ranks, 0) /* with records */                                                     \
  FIELD(int64_t, world_size, 0)                                                                   \
  FIELD(std::vector<CollectivesOfKind>, kinds, {})                                                \
  FIELD(std::vector<CollectiveOfRank>, under_way, {})   /* each one */                            \
  FIELD(std::vector<CollectiveOfRank>, only_called, {}) /* that nobody waits for, of each rank */ \
  FIELD(std::vector<CollectiveOfRank>, failed, {})      /* of each rank */
PACELINE_RECORD(CollectivesSummary, PACELINE_COLLECTIVES_SUMMARY_FIELDS);

CollectivesSummary summary_of(const std::string& run_folder, const run::CollectivesOfAttempt& kept);

}  // namespace paceline::views
