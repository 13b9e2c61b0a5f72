// Only a holder of the job's secret passes the handshake.
#include "troupe/transport/tcp/handshake.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

namespace troupe::transport::tcp::test {
namespace {

stream_claim some_claim() {
  stream_claim out;
  out.from = 3;
  out.to = 5;
  out.from_id.fill(std::byte{1});
  out.to_id.fill(std::byte{2});
  out.kind = stream_kind::bulk;
  out.protection = stream_protection::encrypt;
  return out;
}

TEST(tcp_handshake, proves_both_ends_and_gives_both_the_same_keys) {
  const job_secret secret;
  handshake dialer(secret), listener(secret);
  const auto hello = dialer.greet(some_claim());
  const auto claim = listener.read(hello);
  ASSERT_TRUE(claim);
  EXPECT_EQ(*claim, some_claim());
  const auto challenge = listener.respond();
  handshake::answer answer;
  ASSERT_TRUE(dialer.meet(challenge, answer));
  ASSERT_TRUE(listener.admit(answer));
  EXPECT_EQ(dialer.keys().from_dialer, listener.keys().from_dialer);
  EXPECT_EQ(dialer.keys().from_listener, listener.keys().from_listener);
  EXPECT_NE(dialer.keys().from_dialer, dialer.keys().from_listener);
}

TEST(tcp_handshake, refuses_another_secret_on_either_side) {
  const job_secret ours, theirs;
  handshake stranger(theirs), listener(ours);
  EXPECT_FALSE(listener.read(stranger.greet(some_claim())));

  handshake dialer(ours), impostor(theirs);
  const auto hello = dialer.greet(some_claim());
  impostor.read(hello);
  handshake::answer answer;
  EXPECT_FALSE(dialer.meet(impostor.respond(), answer));
}

// Each byte counts: of what is claimed, challenged and proved.
TEST(tcp_handshake, refuses_whatever_was_altered) {
  const job_secret secret;
  for (std::size_t i = 0; i < sizeof(handshake::hello); ++i) {
    handshake dialer(secret), listener(secret);
    auto hello = dialer.greet(some_claim());
    hello[i] ^= std::byte{1};
    EXPECT_FALSE(listener.read(hello)) << i;
  }
  for (std::size_t i = 0; i < sizeof(handshake::challenge); ++i) {
    handshake dialer(secret), listener(secret);
    listener.read(dialer.greet(some_claim()));
    auto challenge = listener.respond();
    challenge[i] ^= std::byte{128};
    handshake::answer answer;
    EXPECT_FALSE(dialer.meet(challenge, answer)) << i;
  }
  for (std::size_t i = 0; i < sizeof(handshake::answer); ++i) {
    handshake dialer(secret), listener(secret);
    listener.read(dialer.greet(some_claim()));
    handshake::answer answer;
    ASSERT_TRUE(dialer.meet(listener.respond(), answer));
    answer[i] ^= std::byte{4};
    EXPECT_FALSE(listener.admit(answer)) << i;
  }
}

// All of an earlier connection's bytes, sent to a listener again: its challenge is another one.
TEST(tcp_handshake, refuses_a_replay) {
  const job_secret secret;
  handshake dialer(secret), listener(secret);
  const auto hello = dialer.greet(some_claim());
  listener.read(hello);
  handshake::answer answer;
  ASSERT_TRUE(dialer.meet(listener.respond(), answer));
  ASSERT_TRUE(listener.admit(answer));

  handshake later(secret);
  ASSERT_TRUE(later.read(hello)) << "a hello proves the secret, not that it is new";
  later.respond();
  EXPECT_FALSE(later.admit(answer));
}

// A listener's own words are no proof of anybody else.
TEST(tcp_handshake, refuses_a_reflection) {
  const job_secret secret;
  handshake dialer(secret), listener(secret);
  const auto hello = dialer.greet(some_claim());
  listener.read(hello);
  const auto challenge = listener.respond();
  handshake::answer reflected;
  std::memcpy(reflected.data(), challenge.data() + handshake::challenge_size, reflected.size());
  EXPECT_FALSE(listener.admit(reflected));
  // And to a dialer its own proof, behind its own challenge.
  handshake::challenge back;
  std::memcpy(back.data(), hello.data() + handshake::claim_size, back.size());
  handshake::answer answer;
  EXPECT_FALSE(dialer.meet(back, answer));
}

TEST(tcp_handshake, has_new_keys_on_each_connection) {
  const job_secret secret;
  stream_keys first, second;
  for (auto* keys : {&first, &second}) {
    handshake dialer(secret), listener(secret);
    listener.read(dialer.greet(some_claim()));
    handshake::answer answer;
    ASSERT_TRUE(dialer.meet(listener.respond(), answer));
    *keys = dialer.keys();
  }
  EXPECT_NE(first.from_dialer, second.from_dialer);
  EXPECT_NE(first.from_listener, second.from_listener);
}

// Who has recorded all that was said and learns the secret afterwards: the secret's MACs are no
// keys.
TEST(tcp_handshake, has_keys_that_the_secret_alone_does_not_give) {
  const job_secret secret;
  handshake dialer(secret), listener(secret);
  const auto hello = dialer.greet(some_claim());
  listener.read(hello);
  const auto challenge = listener.respond();
  handshake::answer answer;
  ASSERT_TRUE(dialer.meet(challenge, answer));

  std::vector<std::byte> said{std::byte{0}};
  said.insert(said.end(), hello.begin(), hello.end() - handshake::proof_size);
  said.insert(said.end(), challenge.begin(), challenge.begin() + handshake::challenge_size);
  const auto leaked = secret.subkey("troupe tcp handshake");
  ASSERT_TRUE(leaked.verify((said[0] = std::byte{3}, said), answer)) << "it is what is proved";
  for (int role = 0; role < 256; ++role) {
    said[0] = static_cast<std::byte>(role);
    EXPECT_NE(leaked.sign(said), dialer.keys().from_dialer);
    EXPECT_NE(leaked.sign(said), dialer.keys().from_listener);
  }
}

TEST(tcp_handshake, survives_garbage) {
  const job_secret secret;
  std::mt19937 random(7);
  for (int i = 0; i < 2000; ++i) {
    handshake::hello hello;
    for (auto& byte : hello) byte = static_cast<std::byte>(random());
    handshake listener(secret);
    EXPECT_FALSE(listener.read(hello));
  }
}

}  // namespace
}  // namespace troupe::transport::tcp::test
