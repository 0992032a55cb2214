// The first words of a connection between machines: the agent's hello, the controller's answer. JSON texts, no I/O.
//
// Both come from a peer that has proved that it belongs to the run, and are checked all the same. Unknown fields are
// ignored; another major version is refused by the controller, which names both.
#pragma once

#include <arrow/result.h>

#include <string>
#include <string_view>

#include "paceline/core/record.h"
#include "paceline/rpc/envelope.h"

namespace paceline::transport {

#define PACELINE_HELLO_FIELDS(FIELD)                                                                   \
  FIELD(int64_t, major, rpc::kMajorVersion)                                                            \
  FIELD(int64_t, minor, rpc::kMinorVersion)                                                            \
  FIELD(std::string, run, "")                                                                          \
  FIELD(std::string, peer, "") /* 32 hexadecimal digits; names the agent's end over all connections */ \
  FIELD(std::string, name, "") /* for people: the node's name */                                       \
  FIELD(int64_t, received, 0)  /* so many bytes of the controller's stream the agent has */            \
  FIELD(bool, resumed, false)  /* there was a connection before */
PACELINE_RECORD(Hello, PACELINE_HELLO_FIELDS);

#define PACELINE_HELLO_ANSWER_FIELDS(FIELD)                                                    \
  FIELD(int64_t, received, 0)     /* so many bytes of the agent's stream the controller has */ \
  FIELD(std::string, refused, "") /* not "": why, and that trying again is of no use */
PACELINE_RECORD(HelloAnswer, PACELINE_HELLO_ANSWER_FIELDS);

std::string encode_hello(const Hello& hello);
/// Invalid: anything but a hello of this major version; the message is for the peer, too.
arrow::Result<Hello> decode_hello(std::string_view text);

std::string encode_hello_answer(const HelloAnswer& answer);
/// Invalid: anything else.
arrow::Result<HelloAnswer> decode_hello_answer(std::string_view text);

}  // namespace paceline::transport
