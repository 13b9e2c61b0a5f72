// The options of TCP as programs write them, and the addresses of nodes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cstdint>
#include <map>
#include <numeric>
#include <optional>

#include "troupe/messages/base/error.hpp"
#include "troupe/transport/system/socket.hpp"
#include "troupe/transport/tcp/address.hpp"
#include "troupe/transport/tcp/backend.hpp"
#include "troupe/transport/tcp/tcp_settings.hpp"

namespace troupe::transport::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

variable_lookup variables(std::map<std::string, std::string> environment = {}) {
  return [environment = std::move(environment)](const char* name) -> std::optional<std::string> {
    const auto found = environment.find(name);
    return found == environment.end() ? std::nullopt : std::optional(found->second);
  };
}

std::string refusal(const tcp_settings& given,
                    std::map<std::string, std::string> environment = {}) {
  try {
    read_tcp_settings(given, variables(std::move(environment)));
  } catch (const invalid_argument& e) {
    return e.fault().text;
  }
  return "it was taken";
}

TEST(tcp_settings, are_read_from_the_program_and_then_from_the_environment) {
  const auto environment = variables({{"TROUPE_INTERFACES", "eth9"},
                                      {"TROUPE_PORTS", "7"},
                                      {"TROUPE_ENCRYPTION", "off"},
                                      {"TROUPE_TCP_STREAMS", "4"},
                                      {"TROUPE_TCP_THREADS", "2"}});
  const auto given =
      read_tcp_settings({"eth0,eth1", "40000-40010", stream_protection::encrypt}, environment);
  EXPECT_THAT(given.interfaces, ElementsAre("eth0", "eth1"));
  EXPECT_EQ(given.ports.first, 40000);
  EXPECT_EQ(given.ports.last, 40010);
  EXPECT_EQ(given.protection, stream_protection::encrypt);
  EXPECT_EQ(given.bulk_streams, 4u);
  EXPECT_EQ(given.chunk_threads, 2u);
  const auto found = read_tcp_settings({}, environment);
  EXPECT_THAT(found.interfaces, ElementsAre("eth9"));
  EXPECT_EQ(found.ports.first, 7);
  EXPECT_EQ(found.ports.last, 7);
  EXPECT_EQ(found.protection, stream_protection::off);
}

// The kernel takes 15 bits of seconds, and 31 of milliseconds.
TEST(tcp_settings, of_long_keep_alives_are_cut_to_what_the_kernel_takes) {
  tcp_options options;
  options.keepalive = std::chrono::hours(24 * 365);
  options.limit = options.keepalive * 5 / 2;
  const auto probes = tcp::probes(options);
  const unique_fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  set_tcp_options(socket.get(), probes);
  const auto option = [&](int which) {
    int value = 0;
    socklen_t size = sizeof value;
    EXPECT_EQ(getsockopt(socket.get(), IPPROTO_TCP, which, &value, &size), 0);
    return value;
  };
  EXPECT_EQ(option(TCP_KEEPIDLE), 32'767);
  EXPECT_EQ(option(TCP_KEEPINTVL), 32'767);
  EXPECT_EQ(option(TCP_USER_TIMEOUT), INT32_MAX);
}

TEST(tcp_settings, have_safe_defaults) {
  const auto none = read_tcp_settings({}, variables());
  EXPECT_THAT(none.interfaces, IsEmpty());
  EXPECT_EQ(none.ports.last, 0);
  EXPECT_EQ(none.protection, stream_protection::authenticate);
}

TEST(tcp_settings, that_are_wrong_are_named) {
  EXPECT_THAT(refusal({.interfaces = "eth0,,eth1"}),
              HasSubstr("rpc_options::net_devices is 'eth0,,eth1'"));
  EXPECT_THAT(refusal({}, {{"TROUPE_INTERFACES", ","}}), HasSubstr("TROUPE_INTERFACES is ','"));
  EXPECT_THAT(refusal({.interfaces = "eth0,eth0"}), HasSubstr("each once"));
  for (const auto* ports : {"0", "70000", "5-4", "a", "4-", "-4", "1-2-3", " 4"}) {
    EXPECT_THAT(refusal({.ports = ports}), HasSubstr("rpc_options::ports is '")) << ports;
    EXPECT_THAT(refusal({}, {{"TROUPE_PORTS", ports}}), HasSubstr("TROUPE_PORTS is '")) << ports;
  }
  EXPECT_THAT(refusal({}, {{"TROUPE_ENCRYPTION", "yes"}}),
              HasSubstr("TROUPE_ENCRYPTION is 'yes', but must be off, authenticate or encrypt"));
  for (const auto* streams : {"0", "17", "many"})
    EXPECT_THAT(refusal({}, {{"TROUPE_TCP_STREAMS", streams}}), HasSubstr("from 1 to 16"));
  for (const auto* threads : {"0", "3", "x", "1x"})
    EXPECT_THAT(refusal({}, {{"TROUPE_TCP_THREADS", threads}}), HasSubstr("1 or 2"));
}

TEST(tcp_addresses, survive_the_wire_and_nothing_else) {
  const job_secret secret, other;
  tcp::address a{7, {}, stream_protection::authenticate, 1, {}};
  random_bytes(a.id);
  for (const auto& place : tcp::local_places({"lo"})) a.places.push_back(place.at);
  ASSERT_FALSE(a.places.empty());
  const auto bytes = encode(a, secret);
  const auto back = tcp::decode(bytes, secret);
  EXPECT_EQ(back.rank, a.rank);
  EXPECT_EQ(back.id, a.id);
  ASSERT_EQ(back.places.size(), a.places.size());
  EXPECT_EQ(back.interfaces, 1);
  for (std::size_t i = 0; i < a.places.size(); ++i)
    EXPECT_EQ(to_string(back.places[i].where), to_string(a.places[i].where));
  EXPECT_THROW(tcp::decode(bytes, other), decode_error);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    auto bad = bytes;
    bad[i] ^= std::byte{1};
    EXPECT_THROW(tcp::decode(bad, secret), decode_error);
    EXPECT_THROW(tcp::decode(std::span(bytes).first(i), secret), decode_error);
  }
}

TEST(tcp_addresses, are_those_of_interfaces_that_are_here) {
  for (const auto& place : tcp::local_places({})) EXPECT_GT(place.at.where.length, 0u);
  EXPECT_THROW(tcp::local_places({"no-such-interface"}), transport_error);
}

socket_address at(const std::string& host) {
  return resolve({host, 1}, std::chrono::steady_clock::now() + std::chrono::minutes(1)).at(0);
}

tcp::address listens_at(const std::vector<std::pair<std::string, std::uint8_t>>& places,
                        std::uint8_t interfaces = 0) {
  tcp::address out;
  out.interfaces = interfaces;
  for (const auto& [host, interface] : places) out.places.push_back({at(host), interface});
  return out;
}

TEST(tcp_places, on_a_link_of_this_host_come_first_and_its_own_addresses_last) {
  const auto there = listens_at(
      {{"172.17.0.1", 0}, {"192.168.3.7", 0}, {"10.1.0.7", 0}, {"10.1.2.7", 0}, {"fd00::7", 0}});
  const std::vector<tcp::local_place> here = {
      {"docker0", {at("172.17.0.1")}}, {"eth0", {at("10.1.2.3")}}, {"eth0", {at("fd01::3")}}};
  EXPECT_THAT(tcp::order_of_places(there, 0, here, 5), ElementsAre(3, 2, 1, 4, 0));
}

TEST(tcp_places, of_named_interfaces_take_turns) {
  const auto there =
      listens_at({{"10.0.0.1", 0}, {"fd00::1", 0}, {"10.0.1.1", 1}, {"10.0.2.1", 2}}, 3);
  EXPECT_THAT(tcp::order_of_places(there, 3, {}, 0), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(tcp::order_of_places(there, 3, {}, 1), ElementsAre(2, 3, 0, 1));
  EXPECT_THAT(tcp::order_of_places(there, 3, {}, 5), ElementsAre(3, 0, 1, 2));
}

}  // namespace
}  // namespace troupe::transport::test
