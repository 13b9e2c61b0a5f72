// Records can be read at their place in their stream alone.
#include "troupe/transport/auth/record_cipher.hpp"

#include <gtest/gtest.h>
#include <sodium.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
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
  for (const std::size_t size : {0, 1, 100, 900, 3000}) {
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

// Whichever library does it: the sizes at which they change are among these.
TEST_P(records, of_every_size_are_what_the_standard_specifies) {
  const bool encrypts = GetParam() == stream_protection::encrypt;
  const auto key = some_key(1);
  record_cipher ours(GetParam(), key), theirs(GetParam(), key);
  ASSERT_GE(sodium_init(), 0);
  if (!crypto_aead_aes256gcm_is_available()) GTEST_SKIP() << "no AES instructions here";
  const auto raw = [](const auto& bytes) {
    return reinterpret_cast<const unsigned char*>(bytes.data());
  };
  std::uint64_t number = 0;
  for (std::size_t size = 0; size < 2'000; size += size < 64 ? 1 : 31, ++number) {
    auto one = seal(ours, std::string(40, 'h'), std::string(size, 'b'));
    std::array<unsigned char, 12> nonce{};
    std::memcpy(nonce.data() + 4, &number, sizeof number);
    const auto text = bytes_of(std::string(40, 'h') + (encrypts ? "" : std::string(size, 'b')));
    const auto plain = bytes_of(encrypts ? std::string(size, 'b') : "");
    std::vector<std::byte> hidden(plain.size() + 1);
    std::array<unsigned char, 16> tag{};
    crypto_aead_aes256gcm_encrypt_detached(reinterpret_cast<unsigned char*>(hidden.data()),
                                           tag.data(), nullptr, raw(plain), plain.size(), raw(text),
                                           text.size(), nullptr, nonce.data(), raw(key));
    EXPECT_EQ(std::memcmp(one.tag.data(), tag.data(), tag.size()), 0) << size;
    if (encrypts) {
      EXPECT_TRUE(std::equal(one.body.begin(), one.body.end(), hidden.begin())) << size;
    }
    EXPECT_TRUE(theirs.open(one.head, one.body, one.tag)) << size;
    EXPECT_EQ(one.body, bytes_of(std::string(size, 'b')));
  }
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
