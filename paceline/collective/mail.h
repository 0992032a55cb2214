// Mail: messages between two ranks that share memory (send and receive).
//
// A message goes through the sender's arena, piece by piece where it is long. Messages of one tag between two ranks
// come in the order in which they were sent; a receive takes the first of its tag. What fits is sent by the caller,
// everything else by a thread that is started with the first message. Threading: any thread may call. Errors: PeerLost
// when the other rank is gone, is stopped when patience ends or does not come in time, from then on for every message;
// CollectiveError where the sizes differ, and from then on for every message where one that nobody awaits yet does not
// fit into memory.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "paceline/collective/patience.h"
#include "paceline/collective/peers.h"

namespace paceline::collective {

/// A message that is being sent, or awaited.
struct Letter {
  int rank = -1;  ///< the other one; -1: whoever sends first. Then who that was
  int tag = 0;
  std::byte* memory = nullptr;  ///< the caller's, until the end
  uint64_t bytes = 0;
  Deadline deadline;
  Deadline next_look;           ///< Mail's: when it looks whether the other one is stopped
  std::shared_ptr<void> keeps;  ///< whatever has to live until the end
  /// Called once, by the thread that ends it; null for success. It must not call Mail.
  std::function<void(const std::exception_ptr& failure)> on_end;
};

class Mail {
 public:
  /// `peers` outlives it.
  explicit Mail(Peers& peers);
  /// What is under way fails.
  ~Mail();
  Mail(const Mail&) = delete;
  Mail& operator=(const Mail&) = delete;

  void send(std::shared_ptr<Letter> letter);
  void receive(std::shared_ptr<Letter> letter);
  /// After how long the other rank is looked at, whether it is stopped: of messages that are called from now on.
  void set_patience(Patience::Duration patience);
  /// Wakes the thread, after Peers::abort().
  void look() const { peers_.ring_for_mail(peers_.rank()); }

 private:
  // Stands before each message.
  struct Head {
    uint64_t bytes = 0;
    int64_t tag = 0;
  };
  struct Outgoing {
    std::deque<std::shared_ptr<Letter>> letters;
    uint64_t done = 0;  // bytes of the first, with its head
  };
  // What has come before it was asked for.
  struct Early {
    int64_t tag = 0;
    std::vector<std::byte> content;
  };
  struct Incoming {
    bool has_head = false;
    Head head;
    uint64_t done = 0;               // bytes of the message
    std::shared_ptr<Letter> letter;  // that gets it; null: it is early
    std::list<Early> early;          // the last one may still be coming
  };
  struct Ended {
    std::shared_ptr<Letter> letter;
    std::exception_ptr failure;
  };

  // With the mutex held.
  bool push_out(int rank);
  bool take_in(int rank);
  bool make_room(int rank);
  bool is_wanted(int rank) const;
  std::shared_ptr<Letter> taker_of(int rank, int64_t tag);
  bool serve_early(const std::shared_ptr<Letter>& letter);
  void deliver(const std::shared_ptr<Letter>& letter, int rank, uint64_t bytes);
  std::vector<Loss> losses() const;
  void fail_lost(const std::vector<Loss>& losses);
  void fail_all(const std::exception_ptr& failure);
  Deadline next_deadline() const;
  bool is_idle() const;
  void start_thread_once();

  void tell(std::unique_lock<std::mutex>& lock);
  void work();

  Peers& peers_;
  std::mutex mutex_;
  std::vector<Outgoing> outgoing_;              // by rank
  std::vector<Incoming> incoming_;              // by rank
  uint64_t early_unseen_ = 0;                   // bytes kept of early messages since what is left was looked at
  std::list<std::shared_ptr<Letter>> awaited_;  // in the order of the calls
  std::vector<Ended> ended_;                    // to be told, without the mutex
  std::exception_ptr broken_;                   // part of a message may be missing: nothing goes on
  Patience::Duration patience_ = Patience().least();
  bool is_ending_ = false;
  std::thread thread_;
};

}  // namespace paceline::collective
