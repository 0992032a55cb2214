// Handshakes: the connections of a meeting. Two ranks that connect show each other that they have read the bulletin,
// and give each other their memory.
//
// A rank connects to those above it and is called by those below. It attends to all of them at a time and waits for
// none in particular, so that no ring of ranks can wait for each other, and strangers cost nothing but a descriptor.
// Threading: one call at a time.
#pragma once

#include <arrow/result.h>

#include <array>
#include <chrono>
#include <set>
#include <string>
#include <vector>

#include "paceline/core/posix/descriptor.h"

namespace paceline::collective {

/// A random text of 32 digits.
std::string random_text();

class Handshakes {
 public:
  /// A rank that has been met.
  struct Met {
    int rank = 0;
    Descriptor connection;
    Descriptor memory;
  };

  /// Listens for the others, as `rank`. `memory`: what they are given; it stays the caller's. CapacityError, here and
  /// below: this process may open no more files; the message says what to do.
  static arrow::Result<Handshakes> listen(int rank, int memory);

  const std::string& socket() const { return socket_; }  ///< where the others find this rank
  const std::string& token() const { return token_; }    ///< what they say to it, and it to them

  /// Begins to connect to `rank`, and does not wait: a rank whose queue is full is tried again later. False where
  /// nobody listens: the other rank is elsewhere.
  arrow::Result<bool> reach(int rank, const std::string& socket, const std::string& token);

  /// `rank` has reached this one.
  void expect(int rank) { expected_.insert(rank); }

  /// Those who have been reached and are expected, once all have been met. IOError, with its rank, when one has ended
  /// or does not come in time.
  arrow::Result<std::vector<Met>> complete(std::chrono::steady_clock::time_point deadline);

 private:
  // What a rank says first: who it is, and what only those know who read the bulletin.
  struct Greeting {
    int32_t rank = 0;
    std::array<char, 32> token{};
  };
  static constexpr int kStranger = -1;  // or a rank that has not said who it is yet
  struct Contact {
    int rank = kStranger;
    Descriptor connection;
    std::string socket, token;  // of whom this rank connects to
    bool is_connected = false, has_greeted = false, has_given = false;
    Greeting heard;
    size_t heard_bytes = 0;
    Descriptor memory;

    bool is_met() const { return has_given && memory; }
  };

  Handshakes(int rank, int memory, Descriptor listener, std::string socket, std::string token);
  Greeting greeting(const std::string& token) const;
  bool is_complete() const;
  std::string missing() const;
  arrow::Status accept_caller();
  void forget_strangers();
  arrow::Result<bool> connect(Contact& contact) const;
  arrow::Status speak(Contact& contact) const;
  arrow::Result<bool> hear(Contact& contact);
  bool recognise(Contact& contact);

  int rank_;
  int memory_;
  Descriptor listener_;
  std::string socket_, token_;
  std::set<int> expected_;  // that have not said who they are yet
  std::vector<Contact> contacts_;
};

}  // namespace paceline::collective
