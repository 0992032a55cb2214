// A run that listens on loopback, with its trust and the channels of the agents that come to it.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>

#include "paceline/testing/channel_conformance.h"
#include "paceline/transport/connector.h"
#include "paceline/transport/flight_link.h"
#include "paceline/transport/listener.h"

namespace paceline::testing {

class ListeningRun {
 public:
  explicit ListeningRun(Duration lease = std::chrono::seconds(30), const std::string& address = "127.0.0.1:0",
                        const std::string& name = "run-1")
      : trust_(transport::make_trust().ValueOrDie()), lease_(lease), name_(name) {
    open(address);
  }

  void open(const std::string& address) {
    auto listener = transport::Listener::open(
        {.address = address,
         .run = name_,
         .credentials = trust_.controller,
         .lease = lease_,
         .on_peer = [this](std::unique_ptr<rpc::Channel> channel, transport::Listener::Peer peer) {
           add(std::move(channel), std::move(peer));
         }});
    ASSERT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
  }
  void close() { listener_.reset(); }

  transport::ConnectOptions options() const {
    return {.addresses = {listener_->address()},
            .run = name_,
            .name = "node-7",
            .credentials = trust_.agent,
            .lease = lease_,
            .patience = std::chrono::seconds(30)};
  }
  std::string address() const { return listener_->address(); }
  int port() const { return transport::parse_address(address()).ValueOrDie().second; }
  const transport::Trust& trust() const { return trust_; }

  /// The channel of the next agent that comes.
  std::unique_ptr<rpc::Channel> next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !arrived_.empty(); });
    auto channel = std::move(arrived_.front());
    arrived_.pop_front();
    return channel;
  }
  int arrivals() {
    const std::lock_guard lock(mutex_);
    return arrivals_;
  }
  transport::Listener::Peer last_peer() {
    const std::lock_guard lock(mutex_);
    return last_;
  }

  ChannelPair join(transport::ConnectOptions options) {
    auto left = transport::connect(std::move(options));
    EXPECT_TRUE(left.ok()) << left.status();
    return {left.ok() ? *std::move(left) : nullptr, next()};
  }
  ChannelPair join() { return join(options()); }

 private:
  void add(std::unique_ptr<rpc::Channel> channel, transport::Listener::Peer peer) {
    const std::lock_guard lock(mutex_);
    arrived_.push_back(std::move(channel));
    last_ = std::move(peer);
    ++arrivals_;
    changed_.notify_all();
  }

  const transport::Trust trust_;
  const Duration lease_;
  const std::string name_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<rpc::Channel>> arrived_;
  transport::Listener::Peer last_;
  int arrivals_ = 0;
  std::unique_ptr<transport::Listener> listener_;
};

}  // namespace paceline::testing
