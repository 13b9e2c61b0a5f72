// The options of TCP as programs write them, and the addresses of nodes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "troupe/messages/base/error.hpp"
#include "troupe/transport/tcp/address.hpp"
#include "troupe/transport/tcp/tcp_factory.hpp"

namespace troupe::transport::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string refusal(const transport_options& given) {
  try {
    read_tcp_options(given, false, "");
  } catch (const invalid_argument& e) {
    return e.fault().text;
  }
  return "it was taken";
}

TEST(tcp_options, are_read) {
  const auto all = read_tcp_options({{"interfaces", "eth0,eth1"},
                                     {"ports", "40000-40010"},
                                     {"encryption", "encrypt"},
                                     {"streams", "4"}},
                                    true, "eth9");
  EXPECT_THAT(all.interfaces, ElementsAre("eth0", "eth1"));
  EXPECT_EQ(all.ports.first, 40000);
  EXPECT_EQ(all.ports.last, 40010);
  EXPECT_EQ(all.protection, stream_protection::encrypt);
  EXPECT_EQ(all.bulk_streams, 4u);
  EXPECT_EQ(read_tcp_options({{"ports", "7"}}, false, "").ports.last, 7);
}

TEST(tcp_options, have_safe_defaults) {
  EXPECT_THAT(read_tcp_options({}, true, "").interfaces, ElementsAre("lo"));
  EXPECT_THAT(read_tcp_options({}, false, "").interfaces, IsEmpty());
  EXPECT_THAT(read_tcp_options({}, true, "eth1").interfaces, ElementsAre("eth1"));
  EXPECT_EQ(read_tcp_options({}, true, "").protection, stream_protection::authenticate);
}

TEST(tcp_options, that_are_wrong_are_named) {
  EXPECT_THAT(refusal({{"interfaces", "eth0,,eth1"}}), HasSubstr("interfaces is 'eth0,,eth1'"));
  for (const auto* ports : {"", "0", "70000", "5-4", "a", "4-", "-4", "1-2-3", " 4"})
    EXPECT_THAT(refusal({{"ports", ports}}), HasSubstr("ports is '")) << ports;
  EXPECT_THAT(refusal({{"encryption", "yes"}}), HasSubstr("off, authenticate or encrypt"));
  EXPECT_THAT(refusal({{"streams", "0"}}), HasSubstr("1 to 16"));
  EXPECT_THAT(refusal({{"colour", "red"}}), HasSubstr("TCP has no option 'colour'"));
}

TEST(tcp_addresses, survive_the_wire_and_nothing_else) {
  const job_secret secret, other;
  tcp::address a{7, {}, stream_protection::authenticate, {}};
  random_bytes(a.id);
  for (const auto& place : tcp::local_places({"lo"})) a.places.push_back(place.where);
  ASSERT_FALSE(a.places.empty());
  const auto bytes = encode(a, secret);
  const auto back = tcp::decode(bytes, secret);
  EXPECT_EQ(back.rank, a.rank);
  EXPECT_EQ(back.id, a.id);
  ASSERT_EQ(back.places.size(), a.places.size());
  for (std::size_t i = 0; i < a.places.size(); ++i)
    EXPECT_EQ(to_string(back.places[i]), to_string(a.places[i]));
  EXPECT_THROW(tcp::decode(bytes, other), decode_error);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    auto bad = bytes;
    bad[i] ^= std::byte{1};
    EXPECT_THROW(tcp::decode(bad, secret), decode_error);
    EXPECT_THROW(tcp::decode(std::span(bytes).first(i), secret), decode_error);
  }
}

TEST(tcp_addresses, are_those_of_interfaces_that_are_here) {
  for (const auto& place : tcp::local_places({})) EXPECT_GT(place.where.length, 0u);
  EXPECT_THROW(tcp::local_places({"no-such-interface"}), transport_error);
}

}  // namespace
}  // namespace troupe::transport::test
