// What a pool and a process that calls functions say to each other, in frames (rpc/frame.h) over a Unix socket.
//
// A block travels in a region of memory that both have mapped (shared_regions.h): the call names one that holds the
// block, as an IPC stream of Arrow, and one for what the function makes of it. The process maps the first for reading
// only, and lets the second grow as it needs. Functions and regions are introduced by a message of their own, before
// the first call that names them.
//
// Each column of what a function made is one of
//   {"input": 2}             the rows of the block's column 2, untouched
//   {"flat": 4096}           values of fixed width without nulls, from this byte of the second region on
//   {"stream": [4096, 512]}  an IPC stream of one batch with this column alone: where it begins, and its bytes
#pragma once

#include <vector>

#include "paceline/rpc/messages.h"

namespace paceline::data {

using Numbers = std::vector<int64_t>;

// --- to the process ----------------------------------------------------------------------------------------------

// A function; with the descriptor of sealed memory (core/posix/sealed_memory.h) that holds it, pickled.
#define PACELINE_FUNCTION_CODE_FIELDS(FIELD) FIELD(int64_t, function, 0)
PACELINE_MESSAGE(FunctionCode, "function", PACELINE_FUNCTION_CODE_FIELDS);

// A region, with its descriptor.
#define PACELINE_FUNCTION_REGION_FIELDS(FIELD) FIELD(int64_t, region, 0)
PACELINE_MESSAGE(FunctionRegion, "region", PACELINE_FUNCTION_REGION_FIELDS);

// Asks for what a function makes of a block.
#define PACELINE_FUNCTION_CALL_FIELDS(FIELD)                             \
  FIELD(int64_t, function, 0)                                            \
  FIELD(uint64_t, key, 0)  /* what is done by chance is of it */         \
  FIELD(int64_t, input, 0) /* the region with the block */               \
  FIELD(int64_t, input_bytes, 0)                                         \
  FIELD(int64_t, output, 0)          /* the region for the answer */     \
  FIELD(Numbers, gone_functions, {}) /* that will not be called again */ \
  FIELD(Numbers, gone_regions, {})   /* that will not be named again */
PACELINE_MESSAGE(FunctionCall, "call", PACELINE_FUNCTION_CALL_FIELDS);

// --- from the process --------------------------------------------------------------------------------------------

// What the function made; the bytes are the schema, as Arrow's IPC has it.
#define PACELINE_FUNCTION_MADE_FIELDS(FIELD)                                                   \
  FIELD(int64_t, rows, 0)                                                                      \
  FIELD(Json, columns, Json::array())                                                          \
  FIELD(int64_t, output_bytes, 0) /* of the second region, from its beginning, that hold it */ \
  FIELD(bool, keeps_input, false) /* the function has kept some of the block: nobody is to write there */
PACELINE_MESSAGE(FunctionMade, "made", PACELINE_FUNCTION_MADE_FIELDS);

// The function raised an exception; the bytes are that and its traceback, pickled, or none where that cannot be.
#define PACELINE_FUNCTION_RAISED_FIELDS(FIELD)                      \
  FIELD(std::string, text, "") /* kind and text of the exception */ \
  FIELD(std::string, traceback, "")                                 \
  FIELD(bool, keeps_input, false)
PACELINE_MESSAGE(FunctionRaised, "raised", PACELINE_FUNCTION_RAISED_FIELDS);

}  // namespace paceline::data
