// Records can be read at their place in their stream alone.
#include "troupe/transport/auth/record_cipher.hpp"

#include <gtest/gtest.h>
#include <sodium.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace troupe::transport::test {
namespace {

std::vector<std::byte> bytes_of(const std::string& text) {
  std::vector<std::byte> out(text.size());
  if (!text.empty()) std::memcpy(out.data(), text.data(), text.size());
  return out;
}

record_cipher::key some_key(int seed) {
  record_cipher::key out;
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::byte>(seed + 3 * i);
  return out;
}

struct sealed {
  std::vector<std::byte> head, body;
  record_cipher::tag tag{};
};

sealed seal(record_cipher& by, const std::string& head, const std::string& body) {
  sealed out{bytes_of(head), bytes_of(body), {}};
  by.seal(out.head, out.body, out.body.data(), out.tag);
  return out;
}

class records : public testing::TestWithParam<stream_protection> {};
INSTANTIATE_TEST_SUITE_P(that_are, records,
                         testing::Values(stream_protection::authenticate,
                                         stream_protection::encrypt),
                         [](const auto& info) {
                           return info.param == stream_protection::encrypt ? "encrypted"
                                                                           : "authenticated";
                         });

TEST_P(records, open_in_order) {
  record_cipher ours(GetParam(), some_key(1)), theirs(GetParam(), some_key(1));
  for (const auto* text : {"", "one", "a little more of it, longer than a block", "x"}) {
    auto one = seal(ours, "head", text);
    EXPECT_TRUE(theirs.open(one.head, one.body, one.tag));
    EXPECT_EQ(one.body, bytes_of(text));
  }
}

// Where head and body lie does not matter.
TEST_P(records, are_the_same_in_one_piece_and_in_two) {
  record_cipher ours(GetParam(), some_key(1)), again(GetParam(), some_key(1)),
      theirs(GetParam(), some_key(1));
  for (const std::size_t size : {0, 1, 100, 508, 509, 900, 3000}) {
    const std::string text(size, 'x');
    auto apart = seal(ours, "head", text);
    auto together = bytes_of("head" + text);
    const std::span head = std::span(together).first(4), body = std::span(together).subspan(4);
    record_cipher::tag tag{};
    again.seal(head, body, body.data(), tag);
    EXPECT_EQ(tag, apart.tag);
    EXPECT_TRUE(std::ranges::equal(body, apart.body));
    EXPECT_TRUE(theirs.open(head, body, apart.tag));
    EXPECT_TRUE(std::ranges::equal(body, bytes_of(text)));
  }
}

// Of every length of a last block, and of several pieces that are copied at once.
TEST_P(records, are_the_same_whether_their_body_is_copied_or_not) {
  record_cipher ours(GetParam(), some_key(1)), copying(GetParam(), some_key(1)),
      theirs(GetParam(), some_key(1));
  const std::string head(40, 'h');
  for (std::size_t size = 0; size < 40'000; size += size < 300 ? 1 : 4'099) {
    const std::string text(size, 'b');
    const auto one = seal(ours, head, text);
    std::vector<std::byte> copy(size);
    record_cipher::tag tag{};
    copying.seal_copy(bytes_of(head), bytes_of(text), copy.data(), tag);
    EXPECT_EQ(tag, one.tag) << size;
    EXPECT_EQ(copy, one.body) << size;
    EXPECT_TRUE(theirs.open(one.head, copy, tag)) << size;
    EXPECT_EQ(copy, bytes_of(text)) << size;
  }
}

std::string hex_of(std::span<const std::byte> bytes) {
  std::string out(2 * bytes.size() + 1, '\0');
  sodium_bin2hex(out.data(), out.size(), reinterpret_cast<const unsigned char*>(bytes.data()),
                 bytes.size());
  out.pop_back();
  return out;
}

record_cipher::key key_of(const std::string& key, const std::string& nonce) {
  record_cipher::key out;
  const auto hex = key + nonce;
  EXPECT_EQ(sodium_hex2bin(reinterpret_cast<unsigned char*>(out.data()), out.size(), hex.data(),
                           hex.size(), nullptr, nullptr, nullptr),
            0);
  return out;
}

// A program may write a tensor while it is sent. Each byte is read once: bytes and tag agree.
TEST_P(records, open_though_their_body_changes_while_it_is_copied) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the two threads race on purpose";
#endif
  record_cipher ours(GetParam(), some_key(1)), theirs(GetParam(), some_key(1));
  std::vector<std::byte> body(8 * 1024 + 100), copy(body.size());
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    auto* const all = static_cast<volatile std::byte*>(body.data());
    for (unsigned round = 0; !stop; ++round)
      for (std::size_t i = 0; i < body.size(); ++i) all[i] = static_cast<std::byte>(round + i);
  });
  int bad = 0;
  for (int i = 0; i < 20'000; ++i) {
    record_cipher::tag tag{};
    ours.seal_copy(bytes_of("head"), body, copy.data(), tag);
    if (!theirs.open(bytes_of("head"), copy, tag)) ++bad;
  }
  stop = true;
  writer.join();
  EXPECT_EQ(bad, 0);
}

// draft-irtf-cfrg-aegis-aead, appendix "Test Vectors", AEGIS-128X2 and AEGIS-128L: record 0, whose
// nonce is the second half of the key.
TEST(ciphers_of_records, are_those_of_the_draft) {
  const auto key = key_of("000102030405060708090a0b0c0d0e0f", "101112131415161718191a1b1c1d1e1f");
  record_cipher empty(stream_protection::encrypt, key);
  EXPECT_EQ(hex_of(seal(empty, "", "").tag), "63117dc57756e402819a82e13eca8379");
  record_cipher some(stream_protection::encrypt, key);
  std::string body;
  for (int i = 0; i < 30; ++i) body += "\x04\x05\x06\x07";
  const auto one = seal(some, "\x01\x02\x03\x04\x01\x02\x03\x04", body);
  EXPECT_EQ(hex_of(std::span(one.body).first(16)), "5795544301997f93621b278809d6331b");
  EXPECT_EQ(hex_of(one.tag), "1aebc200804f405cab637f2adebb6d77");

  // AEGIS-128L's second one, and what its implementation says of data alone.
  const auto other = key_of("10010000000000000000000000000000", "10000200000000000000000000000000");
  const auto tag_of = [&](std::size_t size) {
    record_cipher by(stream_protection::authenticate, other);
    std::string data(size, '\0');
    for (std::size_t i = 0; i < size; ++i) data[i] = static_cast<char>(i);
    const auto head = std::min<std::size_t>(size, 20);
    return hex_of(seal(by, data.substr(0, head), data.substr(head)).tag);
  };
  EXPECT_EQ(tag_of(0), "c2b879a67def9d74e6c14f708bbcc9b4");
  EXPECT_EQ(tag_of(35), "3982e98c66fa9232e9190ec57b120725");
  EXPECT_EQ(tag_of(600), "9254f1c3a46188d0443dada96c63d8ed") << "AEGISMAC-128X2";
}

TEST_P(records, hide_their_body_if_asked_to) {
  record_cipher ours(GetParam(), some_key(1));
  const std::string text(100, 'a');
  const auto one = seal(ours, "head", text);
  EXPECT_EQ(one.body != bytes_of(text), GetParam() == stream_protection::encrypt);
  const auto two = seal(ours, "head", text);
  EXPECT_NE(one.tag, two.tag) << "the number of a record is in its tag";
}

TEST_P(records, do_not_open_when_anything_was_altered) {
  for (int what = 0; what < 3; ++what) {
    record_cipher ours(GetParam(), some_key(1)), theirs(GetParam(), some_key(1));
    auto one = seal(ours, "head", "body");
    (what == 0 ? one.head[1] : what == 1 ? one.body[3] : one.tag[15]) ^= std::byte{1};
    EXPECT_FALSE(theirs.open(one.head, one.body, one.tag)) << what;
  }
}

TEST_P(records, do_not_open_twice_or_out_of_order_or_with_another_key) {
  record_cipher ours(GetParam(), some_key(1));
  const auto first = seal(ours, "h", "first"), second = seal(ours, "h", "second");
  const auto opens = [](record_cipher& by, sealed one) {
    return by.open(one.head, one.body, one.tag);
  };
  record_cipher repeated(GetParam(), some_key(1));
  EXPECT_TRUE(opens(repeated, first));
  EXPECT_FALSE(opens(repeated, first));
  record_cipher left_out(GetParam(), some_key(1));
  EXPECT_FALSE(opens(left_out, second));
  record_cipher other(GetParam(), some_key(2));
  EXPECT_FALSE(opens(other, first));
}

TEST(records_without_protection, cost_no_byte) {
  record_cipher ours(stream_protection::off, some_key(1));
  EXPECT_EQ(ours.overhead(), 0u);
  auto one = seal(ours, "head", "body");
  EXPECT_TRUE(ours.open(one.head, one.body, one.tag));
  EXPECT_EQ(one.body, bytes_of("body"));
}

}  // namespace
}  // namespace troupe::transport::test
