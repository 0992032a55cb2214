// What a rank and the data process say to each other, on a socket pair of their own. A message travels as those of the
// control plane do (rpc/frame.h); batches lie in the arena, whose descriptor comes with ArenaOpened.
//
// A rank asks for streams, each an epoch's batches of a dataset, and for a number of batches of a stream, which come
// one by one. A batch is the rank's until it frees the slot.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "paceline/data/reader/reader.h"
#include "paceline/rpc/messages.h"

namespace paceline::data {

/// A stream's state is one object of numbers, the same as users' checkpoints have.
void to_json(Json& json, const StreamState& state);
void from_json(const Json& json, StreamState& state);

NLOHMANN_JSON_SERIALIZE_ENUM(
    Equal, {{Equal::uneven, "uneven"}, {Equal::drop, "drop"}, {Equal::pad, "pad"}, {Equal::repeat, "repeat"}})

// --- data process → rank -----------------------------------------------------------------------------------------

// The first message, with the descriptor of the arena.
#define PACELINE_ARENA_OPENED_FIELDS(FIELD) FIELD(int64_t, bytes, 0)
PACELINE_MESSAGE(ArenaOpened, "arena_opened", PACELINE_ARENA_OPENED_FIELDS);

// A batch of a stream: the bytes of an Arrow IPC stream in the arena.
#define PACELINE_BATCH_MADE_FIELDS(FIELD)         \
  FIELD(int64_t, stream, 0)                       \
  FIELD(int64_t, offset, 0)                       \
  FIELD(int64_t, bytes, 0)                        \
  FIELD(StreamState, state, {})   /* behind it */ \
  FIELD(bool, is_near_end, false) /* of the epoch: see RankBatches */
PACELINE_MESSAGE(BatchMade, "batch_made", PACELINE_BATCH_MADE_FIELDS);

#define PACELINE_STREAM_ENDED_FIELDS(FIELD) \
  FIELD(int64_t, stream, 0)                 \
  FIELD(StreamState, state, {})
PACELINE_MESSAGE(StreamEnded, "stream_ended", PACELINE_STREAM_ENDED_FIELDS);

// In place of a batch, or of the answer to a request (then `stream` is 0). In the bytes: the exception, as the language
// of the user's function has written it.
#define PACELINE_READ_FAILED_FIELDS(FIELD)           \
  FIELD(int64_t, stream, 0)                          \
  FIELD(int64_t, code, 0) /* of arrow::StatusCode */ \
  FIELD(std::string, text, "")
PACELINE_MESSAGE(ReadFailed, "read_failed", PACELINE_READ_FAILED_FIELDS);

// --- rank → data process -----------------------------------------------------------------------------------------

#define PACELINE_OPEN_STREAM_FIELDS(FIELD)                         \
  FIELD(int64_t, stream, 0) /* the rank's number for it, from 1 */ \
  FIELD(std::string, dataset, "")                                  \
  FIELD(int64_t, epoch, 0)                                         \
  FIELD(std::optional<int64_t>, seed, std::nullopt)                \
  FIELD(StreamState, from, {})                                     \
  FIELD(int64_t, batch_size, 0)                                    \
  FIELD(int64_t, rank, 0)                                          \
  FIELD(int64_t, world_size, 1)                                    \
  FIELD(Equal, equal, Equal::uneven)                               \
  FIELD(bool, drop_last, false)                                    \
  FIELD(int64_t, local_shuffle_seed, 0)                            \
  FIELD(bool, begins_early, false) /* until ReadStream */
PACELINE_MESSAGE(OpenStream, "open_stream", PACELINE_OPEN_STREAM_FIELDS);

// What was begun early is read from now on.
#define PACELINE_READ_STREAM_FIELDS(FIELD) FIELD(int64_t, stream, 0)
PACELINE_MESSAGE(ReadStream, "read_stream", PACELINE_READ_STREAM_FIELDS);

// So many batches more. `waited_s`: how long the train loop has waited since the stream's last message, `open_s`: how
// long ago that was.
#define PACELINE_WANT_BATCHES_FIELDS(FIELD) \
  FIELD(double, waited_s, 0.0)              \
  FIELD(double, open_s, 0.0)                \
  FIELD(int64_t, stream, 0)                 \
  FIELD(int64_t, batches, 1)
PACELINE_MESSAGE(WantBatches, "want_batches", PACELINE_WANT_BATCHES_FIELDS);

#define PACELINE_CLOSE_STREAM_FIELDS(FIELD) \
  FIELD(double, waited_s, 0.0)              \
  FIELD(double, open_s, 0.0)                \
  FIELD(int64_t, stream, 0)
PACELINE_MESSAGE(CloseStream, "close_stream", PACELINE_CLOSE_STREAM_FIELDS);

#define PACELINE_FREE_SLOT_FIELDS(FIELD) FIELD(int64_t, offset, 0)
PACELINE_MESSAGE(FreeSlot, "free_slot", PACELINE_FREE_SLOT_FIELDS);

// Requests about a dataset; each is answered in its order, or with ReadFailed.
#define PACELINE_DATASET_REQUEST_FIELDS(FIELD) FIELD(std::string, dataset, "")
PACELINE_MESSAGE(FactsRequest, "facts_request", PACELINE_DATASET_REQUEST_FIELDS);
PACELINE_MESSAGE(SchemaRequest, "schema_request", PACELINE_DATASET_REQUEST_FIELDS);
PACELINE_MESSAGE(StatisticsRequest, "statistics_request", PACELINE_DATASET_REQUEST_FIELDS);

#define PACELINE_SKIP_REQUEST_FIELDS(FIELD) \
  FIELD(std::string, dataset, "")           \
  FIELD(int64_t, epoch, 0)                  \
  FIELD(std::optional<int64_t>, seed, {})   \
  FIELD(int64_t, rows, 0)                   \
  FIELD(StreamState, from, {})
PACELINE_MESSAGE(SkipRequest, "skip_request", PACELINE_SKIP_REQUEST_FIELDS);

#define PACELINE_FACTS_REPLY_FIELDS(FIELD) FIELD(DatasetFacts, facts, {})
PACELINE_MESSAGE(FactsReply, "facts_reply", PACELINE_FACTS_REPLY_FIELDS);

// The schema is in the bytes, as Arrow's IPC has it.
#define PACELINE_SCHEMA_REPLY_FIELDS(FIELD)
PACELINE_MESSAGE(SchemaReply, "schema_reply", PACELINE_SCHEMA_REPLY_FIELDS);

#define PACELINE_STATISTICS_REPLY_FIELDS(FIELD) FIELD(DatasetFigures, figures, {})
PACELINE_MESSAGE(StatisticsReply, "statistics_reply", PACELINE_STATISTICS_REPLY_FIELDS);

#define PACELINE_SKIP_REPLY_FIELDS(FIELD) FIELD(StreamState, state, {})
PACELINE_MESSAGE(SkipReply, "skip_reply", PACELINE_SKIP_REPLY_FIELDS);

}  // namespace paceline::data
