// What comes to a listener from those who do not belong to its run: they learn nothing, and the others go on.
#include "paceline/transport/listener.h"

#include <arrow/flight/client.h>
#include <gmock/gmock.h>
#include <netdb.h>

#include <fstream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "paceline/testing/breaking_proxy.h"
#include "paceline/testing/listening_run.h"
#include "paceline/transport/hello.h"
#include "paceline/transport/resumable_channel.h"

namespace paceline::testing {
namespace {

namespace flight = arrow::flight;
using ::testing::HasSubstr;
using ::testing::Not;

int64_t resident_bytes() {
  int64_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

class ListenerAndOthers : public ::testing::Test {
 protected:
  void expect_goes_on() {
    auto [agent, controller] = run_.join();
    ChannelRecorder at_controller;
    controller->start(at_controller.handlers());
    ASSERT_TRUE(agent->send(make_envelope("a", 7)).ok());
    const auto received = at_controller.take(1);
    ASSERT_EQ(received.size(), 1u);
    EXPECT_EQ(number_in(received[0]), 7);
  }

  // What a Flight client of its own making is told.
  arrow::Status call(const transport::Credentials& credentials, const std::string& hello, bool with_token = true) {
    const auto [host, port] = transport::parse_address(run_.address()).ValueOrDie();
    auto options = flight::FlightClientOptions::Defaults();
    options.tls_root_certs = credentials.authority;
    options.cert_chain = credentials.certificate;
    options.private_key = credentials.key;
    options.override_hostname = transport::kControllerName;
    ARROW_ASSIGN_OR_RAISE(auto location, flight::Location::ForGrpcTls(host, port));
    ARROW_ASSIGN_OR_RAISE(client_, flight::FlightClient::Connect(location, options));
    flight::FlightCallOptions with;
    with.timeout = std::chrono::seconds(20);
    if (with_token) with.headers.emplace_back(transport::kTokenHeader, credentials.token);
    ARROW_ASSIGN_OR_RAISE(auto stream, client_->DoExchange(with, flight::FlightDescriptor::Command(hello)));
    auto first = stream.reader->Next();
    stream.reader->Cancel();
    (void)stream.writer->Close();
    ARROW_RETURN_NOT_OK(first);
    if (!first->app_metadata) return arrow::Status::IOError("nothing came");
    ARROW_ASSIGN_OR_RAISE(const auto answer, transport::decode_hello_answer(std::string_view(*first->app_metadata)));
    return answer.refused.empty() ? arrow::Status::OK() : arrow::Status::Invalid(answer.refused);
  }

  transport::Hello hello() const {
    return {.run = "run-1", .peer = transport::random_id().ValueOrDie(), .name = "node-7"};
  }

  ListeningRun run_;
  std::unique_ptr<flight::FlightClient> client_;
};

TEST_F(ListenerAndOthers, AWrongTokenIsRefusedWithoutAWord) {
  auto options = run_.options();
  options.credentials.token.back() = options.credentials.token.back() == 'A' ? 'E' : 'A';
  const auto channel = transport::connect(options);
  EXPECT_THAT(channel.status().message(), HasSubstr("did not accept the token"));
  for (const bool with_token : {true, false}) {
    const arrow::Status told = call(options.credentials, encode_hello(hello()), with_token);
    EXPECT_THAT(told.message(), HasSubstr("refused"));
    EXPECT_THAT(told.message(), Not(HasSubstr("token")));
    EXPECT_THAT(told.ToString(), Not(HasSubstr(options.credentials.token)));
  }
  EXPECT_EQ(run_.arrivals(), 0);
  expect_goes_on();
}

TEST_F(ListenerAndOthers, NothingButTheStreamIsThere) {
  EXPECT_TRUE(call(run_.trust().agent, encode_hello(hello())).ok());
  flight::FlightCallOptions with;
  with.headers.emplace_back(transport::kTokenHeader, run_.trust().agent.token);
  EXPECT_THAT(client_->ListActions(with).status().message(), HasSubstr("refused"));
  EXPECT_THAT(client_->GetFlightInfo(with, flight::FlightDescriptor::Command("x")).status().message(),
              HasSubstr("refused"));
}

TEST_F(ListenerAndOthers, NobodyComesInWithoutACertificateOfTheRun) {
  const transport::Trust other = transport::make_trust().ValueOrDie();
  transport::Credentials none = run_.trust().agent, others = run_.trust().agent;
  none.certificate = none.key = "";
  others.certificate = other.agent.certificate;
  others.key = other.agent.key;
  EXPECT_FALSE(call(none, encode_hello(hello())).ok());
  EXPECT_FALSE(call(others, encode_hello(hello())).ok());
  EXPECT_FALSE(call(other.agent, encode_hello(hello())).ok());
  EXPECT_EQ(run_.arrivals(), 0);
  expect_goes_on();
}

// gRPC would not say why.
TEST_F(ListenerAndOthers, WhereItCannotListenItSaysWhy) {
  for (const auto& [address, why] : std::vector<std::pair<std::string, std::string>>{
           {run_.address(), "another process listens there"},
           {"192.0.2.1:0", "this machine has no such address"},  // nobody has: it is for examples
           {"no.such.host.invalid:0", ::gai_strerror(EAI_NONAME)}}) {
    const auto second = transport::Listener::open(
        {.address = address, .run = "run-2", .credentials = run_.trust().controller, .on_peer = [](auto, const auto&) {
         }});
    EXPECT_EQ(second.status().message(), "cannot listen at " + address + ": " + why);
  }
  expect_goes_on();
}

// Whose driver has ended, and another has its port: nobody waits for what cannot come.
TEST_F(ListenerAndOthers, AnAgentOfAnEarlierRunIsToldSoAtOnce) {
  auto options = run_.options();
  options.credentials = transport::make_trust().ValueOrDie().agent;
  options.patience = std::chrono::hours(1);
  const auto channel = transport::connect(options);
  EXPECT_TRUE(channel.status().IsIOError());
  EXPECT_THAT(channel.status().message(),
              HasSubstr("who answers at " + run_.address() + " has no certificate of run run-1"));
  expect_goes_on();
}

TEST_F(ListenerAndOthers, AnotherRunAtOneOfTheAddressesHoldsNobodyUp) {
  const ListeningRun other;
  auto options = run_.options();
  options.addresses = {other.address(), run_.address()};
  EXPECT_TRUE(transport::connect(options).ok());
}

// With the agent's certificate, which whoever has a trust file has.
TEST_F(ListenerAndOthers, AnAgentCannotPlayTheController) {
  auto impostor = transport::Listener::open(
      {.address = "127.0.0.1:0", .run = "run-1", .credentials = run_.trust().agent, .on_peer = [](auto, const auto&) {
       }});
  ASSERT_TRUE(impostor.ok()) << impostor.status();
  auto options = run_.options();
  options.addresses = {(*impostor)->address()};
  options.patience = std::chrono::seconds(1);
  EXPECT_TRUE(transport::connect(options).status().IsIOError());
}

TEST_F(ListenerAndOthers, GarbageAndSilenceCostLittle) {
  expect_goes_on();
  const int64_t before = resident_bytes();
  std::mt19937 random(1);
  std::vector<Descriptor> sockets;
  for (int i = 0; i < 300; ++i) {
    sockets.push_back(loopback_socket(run_.port()));
    std::string bytes(i % 3 == 0 ? 0 : random() % 20'000, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    // The beginning of TLS, of a size that never comes.
    if (i % 3 == 1) bytes.insert(0, "\x16\x03\x01\xff\xff\x01", 6);
    if (i % 7 == 2) bytes = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    (void)::send(sockets.back().get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  expect_goes_on();
  EXPECT_LT(resident_bytes() - before, int64_t{100} << 20) << "for 300 connections, of which none is ever anybody";
  EXPECT_EQ(run_.arrivals(), 2);
}

TEST_F(ListenerAndOthers, WhatAnAgentSaysIsChecked) {
  const transport::Credentials& own = run_.trust().agent;
  transport::Hello other_run = hello(), other_version = hello(), resumed = hello();
  other_run.run = "run-2";
  other_version.major = 99;
  resumed.resumed = true;
  EXPECT_THAT(call(own, encode_hello(other_run)).message(), HasSubstr("another run"));
  EXPECT_THAT(call(own, encode_hello(other_version)).message(), HasSubstr("the controller speaks 1.0, the agent 99.0"));
  EXPECT_THAT(call(own, encode_hello(resumed)).message(), HasSubstr("does not know the agent node-7"));
  EXPECT_TRUE(call(own, "").IsInvalid());
  EXPECT_TRUE(call(own, "{").IsInvalid());
  EXPECT_THAT(call(own, std::string(8'000'000, 'x')).message(), HasSubstr("too large"));
  EXPECT_EQ(run_.arrivals(), 0);
  expect_goes_on();
}

TEST_F(ListenerAndOthers, FramesOfAnAgentAreChecked) {
  auto link =
      transport::open_flight_link(run_.address(), run_.trust().agent, encode_hello(hello()), std::chrono::seconds(20));
  ASSERT_TRUE(link.ok()) << link.status();
  ASSERT_TRUE((*link)->read().ok());
  auto channel = run_.next();
  ChannelRecorder recorder;
  channel->start(recorder.handlers());
  // Much larger than any frame.
  ASSERT_TRUE((*link)->write(std::string(8'000'000, 'x')).ok());
  const auto reason = recorder.wait_closed();
  ASSERT_TRUE(reason.has_value());
  EXPECT_TRUE(reason->IsInvalid()) << *reason;
  (*link)->close();
  expect_goes_on();
}

TEST_F(ListenerAndOthers, TheSecondConnectionOfAnAgentTakesOver) {
  const transport::Hello first = hello();
  transport::Hello second = first;
  second.resumed = true;
  const auto open = [&](const transport::Hello& hello) {
    return transport::open_flight_link(run_.address(), run_.trust().agent, encode_hello(hello),
                                       std::chrono::seconds(20))
        .ValueOrDie();
  };
  const auto one = open(first);
  ASSERT_TRUE(one->read().ok());
  auto channel = run_.next();
  const auto two = open(second);
  ASSERT_TRUE(two->read().ok());
  ASSERT_TRUE(channel->send(make_envelope("a")).ok());
  EXPECT_TRUE(two->read().ok());
  one->close();
  two->close();
  EXPECT_EQ(run_.arrivals(), 1);
}

// Its connection may break between its admission and the answer: it comes again then, as one that is known.
TEST_F(ListenerAndOthers, WhoeverIsAdmittedIsToldOf) {
  const auto open = [&](const transport::Hello& hello) {
    return transport::open_flight_link(run_.address(), run_.trust().agent, encode_hello(hello),
                                       std::chrono::seconds(20))
        .ValueOrDie();
  };
  constexpr int kAgents = 50;
  for (int i = 0; i < kAgents; ++i) {
    const transport::Hello agent = hello();
    open(agent)->close();
    EXPECT_TRUE(open(agent)->read().ok());
  }
  run_.close();  // no call goes on
  EXPECT_EQ(run_.arrivals(), kAgents);
}

}  // namespace
}  // namespace paceline::testing
