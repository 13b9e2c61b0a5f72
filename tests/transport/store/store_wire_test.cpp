// The store's decoders and malformed bytes.
#include "troupe/transport/store/store_wire.hpp"

#include <gtest/gtest.h>

#include <random>

#include "troupe/messages/base/error.hpp"
#include "troupe/transport/rendezvous/join_protocol.hpp"
#include "troupe/transport/rendezvous/wire.hpp"

namespace troupe::transport {
namespace {

using op = store_request::op;

store_request sample() {
  return {.what = op::compare_set,
          .keys = {"a key"},
          .value = to_bytes("a value"),
          .expected = to_bytes("another"),
          .delta = -5,
          .timeout = std::chrono::milliseconds(1234)};
}

TEST(store_wire, requests_survive) {
  const auto out = decode_store_request(encode(sample()));
  EXPECT_EQ(out.what, op::compare_set);
  EXPECT_EQ(out.keys, std::vector<std::string>{"a key"});
  EXPECT_EQ(to_text(out.value), "a value");
  EXPECT_EQ(to_text(out.expected), "another");
  EXPECT_EQ(out.delta, -5);
  EXPECT_EQ(out.timeout, std::chrono::milliseconds(1234));
}

store_request sample_of_many() {
  return {.what = op::multi_set, .keys = {"a", "b"}, .values = {to_bytes("one"), to_bytes("")}};
}

store_reply values_reply() {
  return {.what = store_reply::kind::values, .values = {to_bytes("one"), to_bytes("two")}};
}

TEST(store_wire, many_keys_and_values_survive) {
  const auto set = decode_store_request(encode(sample_of_many()));
  EXPECT_EQ(set.keys, sample_of_many().keys);
  EXPECT_EQ(set.values, sample_of_many().values);
  EXPECT_EQ(decode_store_reply(encode(values_reply())).values, values_reply().values);
  const store_request list{.what = op::list_keys, .value = to_bytes("prefix/")};
  EXPECT_EQ(to_text(decode_store_request(encode(list)).value), "prefix/");
  // All of a store may be listed, but not named in a request.
  store_reply all{.what = store_reply::kind::keys, .keys = {max_store_keys_at_once + 1, "k"}};
  EXPECT_EQ(decode_store_reply(encode(all)).keys.size(), max_store_keys_at_once + 1);
  all.what = store_reply::kind::missing;
  EXPECT_THROW(decode_store_reply(encode(all)), decode_error);
}

TEST(store_wire, replies_survive) {
  const auto out = decode_store_reply(encode(store_reply{.what = store_reply::kind::missing,
                                                         .value = to_bytes("v"),
                                                         .number = -1,
                                                         .keys = {"x", "y"}}));
  EXPECT_EQ(out.what, store_reply::kind::missing);
  EXPECT_EQ(out.number, -1);
  EXPECT_EQ(out.keys, (std::vector<std::string>{"x", "y"}));
}

join_message request() {
  return {.what = join_message::kind::request,
          .visit = 77,
          .name = "late",
          .rank = 3,
          .writer = "process 1 on host x",
          .wait_limit = std::chrono::milliseconds(1500),
          .address = to_bytes("here")};
}

TEST(store_wire, messages_of_joiners_survive) {
  EXPECT_EQ(decode_join_message(encode(request())), request());
  auto any_rank = request();
  any_rank.rank.reset();
  EXPECT_EQ(decode_join_message(encode(any_rank)), any_rank);
  const join_reply answer{"no", 7, 42, to_bytes("who there is")};
  EXPECT_EQ(decode_join_reply(encode(answer)), answer);
}

TEST(store_wire, messages_of_joiners_are_bounded) {
  auto message = request();
  message.address.resize(longest_joiner_address + 1);
  EXPECT_THROW(decode_join_message(encode(message)), decode_error);
  message = request();
  message.name.resize(1025, 'n');
  EXPECT_THROW(decode_join_message(encode(message)), decode_error);
  message = request();
  message.what = static_cast<join_message::kind>(3);
  EXPECT_THROW(decode_join_message(encode(message)), decode_error);
  message = request();
  message.wait_limit = std::chrono::milliseconds::max();
  EXPECT_EQ(decode_join_message(encode(message)).wait_limit, longest_wait_limit);
  EXPECT_THROW(decode_join_message(store::bytes(1 << 20)), decode_error);
}

TEST(store_wire, refuses_what_is_out_of_bounds) {
  auto r = sample();
  r.keys = {};
  EXPECT_THROW(decode_store_request(encode(r)), decode_error);
  r.keys = {"a", "b"};
  EXPECT_THROW(decode_store_request(encode(r)), decode_error);
  r.keys = {std::string(max_store_key + 1, 'k')};
  EXPECT_THROW(decode_store_request(encode(r)), decode_error);
  r.keys = {""};
  EXPECT_THROW(decode_store_request(encode(r)), decode_error);
  r = sample();
  r.what = static_cast<op>(77);
  EXPECT_THROW(decode_store_request(encode(r)), decode_error);
  r = sample();
  r.timeout = std::chrono::milliseconds::max();
  EXPECT_LT(decode_store_request(encode(r)).timeout, std::chrono::hours(24 * 366));
  store_request many{.what = op::check, .keys = {max_store_keys_at_once + 1, "k"}};
  EXPECT_THROW(decode_store_request(encode(many)), decode_error);
  for (const auto one_key : {op::append, op::queue_push, op::queue_pop, op::queue_len}) {
    EXPECT_THROW(decode_store_request(encode(store_request{.what = one_key})), decode_error);
    EXPECT_THROW(decode_store_request(encode(store_request{.what = one_key, .keys = {"a", "b"}})),
                 decode_error);
  }
  const store_request long_prefix{.what = op::list_keys, .value = store::bytes(max_store_key + 1)};
  EXPECT_THROW(decode_store_request(encode(long_prefix)), decode_error);
}

TEST(store_wire, refuses_other_numbers_of_values_than_of_keys) {
  auto r = sample_of_many();
  r.values.pop_back();
  EXPECT_THROW(decode_store_request(encode(r)), decode_error);
  r = sample_of_many();
  r.keys.pop_back();
  EXPECT_THROW(decode_store_request(encode(r)), decode_error);
  r = sample_of_many();
  r.what = op::wait;  // has no values
  EXPECT_THROW(decode_store_request(encode(r)), decode_error);
}

TEST(store_wire, refuses_values_that_are_too_large_together) {
  auto r = sample_of_many();
  for (auto& value : r.values) value.resize(max_store_value / 2 + 1);
  EXPECT_THROW(decode_store_request(encode(r)), decode_error);
  EXPECT_THROW(decode_store_reply(encode(
                   store_reply{.what = store_reply::kind::values, .values = std::move(r.values)})),
               decode_error);
}

// Either a value or a decode_error, whatever comes.
template <class Decode>
int count_refused(const store::bytes& bytes, Decode&& decode) {
  try {
    decode(bytes);
    return 0;
  } catch (const decode_error&) {
    return 1;
  }
}

template <class Decode>
void fuzz(const store::bytes& valid, Decode&& decode) {
  std::mt19937 random(7);
  int refused = 0;
  for (std::size_t length = 0; length < valid.size(); ++length)
    refused += count_refused({valid.begin(), valid.begin() + static_cast<long>(length)}, decode);
  EXPECT_GT(refused, static_cast<int>(valid.size() / 2));
  for (int i = 0; i < 4000; ++i) {
    auto changed = valid;
    for (int n = 1 + static_cast<int>(random() % 4); n > 0; --n)
      changed[random() % changed.size()] = std::byte(random());
    count_refused(changed, decode);
  }
  for (int i = 0; i < 2000; ++i) {
    store::bytes noise(8 * (random() % 64));
    for (auto& b : noise) b = std::byte(random() % (i % 2 ? 256 : 4));
    count_refused(noise, decode);
  }
}

TEST(store_wire, random_and_truncated_bytes_give_a_decode_error_or_a_value) {
  fuzz(encode(sample()), decode_store_request);
  fuzz(encode(sample_of_many()), decode_store_request);
  fuzz(encode(store_reply{.what = store_reply::kind::missing, .keys = {"x", "y", "z"}}),
       decode_store_reply);
  fuzz(encode(values_reply()), decode_store_reply);
  fuzz(encode(job_description{"job", 8, 42, "rank 0"}), decode_job_description);
  fuzz(encode(announcement{"name", "host", "id", 2, 3, 4, 5}), decode_announcement);
  fuzz(encode(verdict{"", {to_bytes("one"), to_bytes("two")}}), decode_verdict);
  fuzz(encode(request()), decode_join_message);
  fuzz(encode(join_reply{"", 7, 42, to_bytes("who there is")}), decode_join_reply);
}

// `bytes` is a message with a list of `count` texts, all of which shall point to one of 1,000
// bytes.
store::bytes sharing_their_target(store::bytes bytes, std::size_t count) {
  // The list's pointers follow the root struct: find the first one and let all point to the last
  // text by filling its words with text and fixing offset and length.
  auto* words = reinterpret_cast<std::uint64_t*>(bytes.data());
  const std::size_t n = bytes.size() / 8;
  std::size_t first = 0;
  while (first < n && (words[first] & 3) != 1) ++first;  // the root's pointer to the list
  ++first;
  while (first < n && ((words[first] & 3) != 1 || (words[first] >> 32 & 7) != 2)) ++first;
  EXPECT_LT(first + count, n);
  const std::size_t target = n - 130;
  for (std::size_t i = 0; i < count && first + i < n; ++i) {
    const auto offset =
        static_cast<std::int64_t>(target) - static_cast<std::int64_t>(first + i) - 1;
    words[first + i] = (static_cast<std::uint64_t>(1000) << 35) | (std::uint64_t{2} << 32) |
                       (static_cast<std::uint64_t>(offset << 2) & 0xfffffffc) | 1;
  }
  return bytes;
}

TEST(store_wire, pointers_that_share_their_target_are_not_read_again_and_again) {
  // 4,000 keys, or values: 36 KB that would become 4 MB.
  constexpr std::size_t count = 4000;
  const store_request keys{.what = op::check, .keys = {count, "k"}};
  EXPECT_THROW(decode_store_request(sharing_their_target(encode(keys), count)), decode_error);
  const store_reply values{.what = store_reply::kind::values, .values = {count, to_bytes("k")}};
  EXPECT_EQ(decode_store_reply(encode(values)).values.size(), count);
  EXPECT_THROW(decode_store_reply(sharing_their_target(encode(values), count)), decode_error);
}

}  // namespace
}  // namespace troupe::transport
