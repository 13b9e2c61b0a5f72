#include "troupe/transport/auth/job_secret.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "tests/transport/store/store_fixture.hpp"
#include "troupe/messages/base/error.hpp"
#include "troupe/transport/store/tcp/store_handshake.hpp"

namespace troupe::transport {
namespace {

std::span<const std::byte> bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

TEST(job_secret, is_fresh_by_default) {
  EXPECT_FALSE(job_secret() == job_secret());
  std::set<std::uint64_t> ids;
  for (int i = 0; i < 1000; ++i) ids.insert(random_id());
  EXPECT_EQ(ids.size(), 1000u);
}

TEST(job_secret, survives_its_hex_form) {
  const job_secret a;
  EXPECT_EQ(a.hex().size(), 64u);
  EXPECT_TRUE(job_secret::from_hex(a.hex()) == a);
}

TEST(job_secret, refuses_what_is_no_hex_without_repeating_it) {
  for (const std::string& text : {std::string(), std::string(63, 'a'), std::string(65, 'a'),
                                  std::string(62, 'a') + "zz", std::string(64, ' ')}) {
    try {
      job_secret::from_hex(text);
      FAIL() << text;
    } catch (const invalid_argument& e) {
      EXPECT_NE(std::string(e.what()).find("64 hex digits"), std::string::npos);
      EXPECT_TRUE(text.empty() || std::string(e.what()).find(text) == std::string::npos);
    }
  }
}

TEST(job_secret, is_read_from_a_file_that_nobody_else_can_read) {
  test::temporary_folder folder;
  const auto path = (folder.path / "secret").string();
  const auto refusal = [&] {
    return test::text_of<invalid_argument>([&] { job_secret::from_file(path); });
  };
  EXPECT_CONTAINS(refusal(), path + ", cannot be used: No such file");
  const job_secret secret;
  std::ofstream(path) << secret.hex() << "\nand a note\n";
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  EXPECT_TRUE(job_secret::from_file(path) == secret);
  for (const mode_t mode : {0640, 0604, 0622}) {
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
    EXPECT_CONTAINS(refusal(), "others may use it");
  }
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  std::ofstream(path) << secret.hex().substr(1);
  EXPECT_CONTAINS(refusal(), "must be 64 hex digits");
  std::ofstream(path) << secret.hex() << "0";
  EXPECT_CONTAINS(refusal(), "must be 64 hex digits");
  std::filesystem::remove(path);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_CONTAINS(refusal(), "it is not a regular file");  // opening it did not wait for a writer
}

TEST(job_secret, proves_messages) {
  const job_secret a;
  const auto proof = a.sign(bytes("hello"));
  EXPECT_TRUE(a.verify(bytes("hello"), proof));
  EXPECT_FALSE(a.verify(bytes("hellp"), proof));
  EXPECT_FALSE(job_secret().verify(bytes("hello"), proof));
  EXPECT_FALSE(a.subkey("x").verify(bytes("hello"), proof));
  EXPECT_TRUE(a.subkey("x") == a.subkey("x"));
  EXPECT_FALSE(a.subkey("x") == a.subkey("y"));
}

using verdict = store_handshake::verdict;

TEST(store_handshake, both_sides_prove_the_secret) {
  const job_secret secret;
  store_handshake client(secret);
  store_handshake server(secret);
  store_handshake::challenge challenge;
  store_handshake::answer answer;
  ASSERT_EQ(server.accept(client.greet(), challenge), verdict::accepted);
  ASSERT_EQ(client.meet(challenge, answer), verdict::accepted);
  EXPECT_TRUE(server.admit(answer));
  answer[5] ^= std::byte{1};
  EXPECT_FALSE(server.admit(answer));
}

TEST(store_handshake, another_secret_is_noticed_by_either_side) {
  store_handshake client{job_secret()};
  store_handshake server{job_secret()};
  store_handshake::challenge challenge;
  store_handshake::answer answer{};
  ASSERT_EQ(server.accept(client.greet(), challenge), verdict::accepted);
  EXPECT_EQ(client.meet(challenge, answer), verdict::wrong_secret);
  EXPECT_FALSE(server.admit(answer));
}

TEST(store_handshake, proofs_can_be_neither_reflected_nor_replayed) {
  const job_secret secret;
  store_handshake server(secret);
  store_handshake::challenge challenge;
  // A stranger without the secret greets, and sends the server's own proof back.
  store_handshake stranger(secret);
  ASSERT_EQ(server.accept(stranger.greet(), challenge), verdict::accepted);
  store_handshake::answer reflected;
  std::copy_n(challenge.end() - reflected.size(), reflected.size(), reflected.begin());
  EXPECT_FALSE(server.admit(reflected));
  // An answer that was right on one connection is wrong on the next.
  store_handshake client(secret);
  store_handshake::answer answer;
  ASSERT_EQ(server.accept(client.greet(), challenge), verdict::accepted);
  ASSERT_EQ(client.meet(challenge, answer), verdict::accepted);
  store_handshake next(secret);
  ASSERT_EQ(next.accept(client.greet(), challenge), verdict::accepted);
  EXPECT_FALSE(next.admit(answer));
  EXPECT_TRUE(server.admit(answer));
}

TEST(store_handshake, recognizes_other_protocols_and_versions) {
  const job_secret secret;
  store_handshake server(secret);
  store_handshake::challenge challenge;
  auto greeting = store_handshake(secret).greet();
  greeting[7] = std::byte{9};
  challenge.fill(std::byte{0xee});  // as memory is that was used before
  EXPECT_EQ(server.accept(greeting, challenge), verdict::other_version);
  EXPECT_EQ(std::count(challenge.begin(), challenge.end(), std::byte{0}),
            ssize_t(challenge.size() - store_handshake::magic_size))
      << "nothing but the version is said to a stranger";
  greeting[0] = std::byte{'G'};
  EXPECT_EQ(server.accept(greeting, challenge), verdict::not_troupe);
}

}  // namespace
}  // namespace troupe::transport
