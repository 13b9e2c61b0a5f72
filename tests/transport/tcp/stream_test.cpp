// What one end of a stream sends, the other one gets, whichever way a record took.
#include "troupe/transport/tcp/stream.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "troupe/transport/system/deadline.hpp"
#include "troupe/transport/system/socket.hpp"

namespace troupe::transport::tcp::test {
namespace {

using namespace std::chrono_literals;

struct received : record_sink {
  std::vector<record_head> heads;
  std::vector<std::vector<std::byte>> bodies;

  void on_record(const record_head& head, std::span<const std::byte> body) override {
    heads.push_back(head);
    bodies.emplace_back(body.begin(), body.end());
  }
  std::byte* place_for(const record_head& head) override {
    heads.push_back(head);
    return bodies.emplace_back(head.attached).data();
  }
  void on_attached(const record_head&) override {}
};

class streams : public testing::TestWithParam<stream_protection> {
protected:
  streams() {
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socket_address where;
    where.length = sizeof any;
    std::memcpy(&where.storage, &any, sizeof any);
    const auto listener = listen_on(where);
    const auto deadline = deadline_after(10s);
    auto dialed = connect_to(local_address(listener.fd.get()), deadline);
    EXPECT_TRUE(wait_readable(listener.fd.get(), deadline));
    unique_fd accepted(::accept4(listener.fd.get(), nullptr, nullptr, SOCK_NONBLOCK));
    set_tcp_options(dialed.fd.get(), {60s, 60s, 3, 60s});
    const int little = 16 * 1024;
    setsockopt(dialed.fd.get(), SOL_SOCKET, SO_SNDBUF, &little, sizeof little);
    keys_.from_dialer.fill(std::byte{1});
    keys_.from_listener.fill(std::byte{2});
    from_ = std::make_unique<stream>(std::move(dialed.fd), stream_kind::messages,
                                     stream::role::dialer, GetParam(), keys_);
    to_ = std::make_unique<stream>(std::move(accepted), stream_kind::messages,
                                   stream::role::listener, GetParam(), keys_);
  }

  static std::vector<std::byte> body_of(std::size_t nth, std::size_t size) {
    std::vector<std::byte> out(size);
    for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<std::byte>(nth * 7 + i);
    return out;
  }

  // As the transport does it. True: at once.
  bool send(std::size_t nth, std::size_t size) {
    auto body = std::make_shared<std::vector<std::byte>>(body_of(nth, size));
    record_head head;
    head.sequence = nth;
    (size > largest_body ? head.attached : head.size) = static_cast<std::uint32_t>(size);
    std::string why;
    const bool small = from_->takes_small(size);
    if (small) {
      EXPECT_TRUE(from_->send_small(head, *body, why, sent_)) << why;
      std::ranges::fill(*body, std::byte{0xee});  // it is the caller's again
    } else {
      from_->add({head, body->data(), body});
      EXPECT_TRUE(from_->flush(why, sent_)) << why;
    }
    return small;
  }

  // Moves on what the kernel had no room for, until `count` records have come.
  void take(std::size_t count) {
    std::string why;
    const auto deadline = deadline_after(10s);
    while (in_.heads.size() < count || !from_->empty()) {
      ASSERT_GT(time_left(deadline), 0ms) << in_.heads.size() << " of " << count;
      unsigned n = 0;
      const auto outcome = to_->receive(in_, 1 << 20, n, why);
      ASSERT_TRUE(outcome == stream::outcome::drained || outcome == stream::outcome::more) << why;
      from_->writable();
      ASSERT_TRUE(from_->flush(why, sent_)) << why;
    }
  }

  stream_keys keys_;
  std::unique_ptr<stream> from_, to_;
  stream::sent_records sent_;
  received in_;
};

INSTANTIATE_TEST_SUITE_P(that_are, streams,
                         testing::Values(stream_protection::off, stream_protection::authenticate,
                                         stream_protection::encrypt),
                         [](const auto& info) -> std::string {
                           if (info.param == stream_protection::off) return "bare";
                           return info.param == stream_protection::encrypt ? "encrypted"
                                                                           : "authenticated";
                         });

TEST_P(streams, keep_records_in_order_whichever_way_they_go) {
  const std::size_t sizes[] = {0, 1, 100, 512, 513, 40, 20'000, 3, 16'384, 200};
  std::vector<std::size_t> sent;
  std::size_t at_once = 0;
  for (std::size_t i = 0; i < 200; ++i) {
    sent.push_back(sizes[i % std::size(sizes)]);
    if (send(i, sent.back())) ++at_once;
    if (i % 3 == 0) take(i);
  }
  take(sent.size());
  EXPECT_GT(at_once, 20u);
  EXPECT_LT(at_once, 180u);
  ASSERT_EQ(in_.heads.size(), sent.size());
  for (std::size_t i = 0; i < sent.size(); ++i) {
    EXPECT_EQ(in_.heads[i].sequence, i);
    EXPECT_TRUE(in_.bodies[i] == body_of(i, sent[i])) << i;
  }
}

// The kernel's room ends inside of one of them, again and again.
TEST_P(streams, keep_small_records_that_the_kernel_has_no_room_for) {
  std::size_t sent = 0;
  for (int round = 0; round < 5; ++round) {
    for (; from_->takes_small(400); ++sent) send(sent, 400 - sent % 7);
    EXPECT_FALSE(from_->empty());
    take(sent);
  }
  ASSERT_EQ(in_.heads.size(), sent);
  for (std::size_t i = 0; i < sent; ++i)
    EXPECT_TRUE(in_.heads[i].sequence == i && in_.bodies[i] == body_of(i, 400 - i % 7)) << i;
}

// The program's memory, unlike a message's.
TEST_P(streams, take_payloads_that_change_while_they_are_sent) {
  const auto bytes = std::make_shared<std::vector<std::byte>>(body_of(0, 1 << 20));
  record_head head;
  head.kind = record_kind::chunk;
  head.attached = static_cast<std::uint32_t>(bytes->size());
  std::string why;
  from_->add({head, bytes->data(), bytes});
  ASSERT_TRUE(from_->flush(why, sent_)) << why;
  ASSERT_FALSE(from_->empty()) << "the kernel has taken all of it";
  EXPECT_TRUE(sent_.empty());
  std::ranges::fill(*bytes, std::byte{0xee});
  send(1, 10);
  take(2);
  ASSERT_EQ(in_.heads.size(), 2u);
  EXPECT_EQ(sent_.at(0), bytes);
  EXPECT_TRUE(GetParam() == stream_protection::off || in_.bodies[0] == body_of(0, 1 << 20));
}

TEST_P(streams, send_frozen_payloads_where_they_lie) {
  const auto bytes = std::make_shared<std::vector<std::byte>>(body_of(0, 1 << 20));
  record_head head;
  head.kind = record_kind::chunk;
  head.attached = static_cast<std::uint32_t>(bytes->size());
  std::string why;
  from_->add({head, bytes->data(), bytes, true});
  ASSERT_TRUE(from_->flush(why, sent_)) << why;
  ASSERT_FALSE(from_->empty()) << "the kernel has taken all of it";
  (*bytes)[bytes->size() - 1] ^= std::byte{1};
  unsigned count = 0;
  auto got = tcp::stream::outcome::more;
  while (got != tcp::stream::outcome::broken && !(from_->empty() && count > 0)) {
    from_->writable();
    ASSERT_TRUE(from_->flush(why, sent_)) << why;
    got = to_->receive(in_, 1 << 20, count, why);
  }
  // The tag is that of the bytes as they were.
  EXPECT_EQ(got == tcp::stream::outcome::broken, GetParam() == stream_protection::authenticate)
      << why;
}

TEST_P(streams, report_that_the_other_end_has_gone) {
  std::string why;
  to_.reset();
  bool fine = true;
  for (std::size_t i = 0; i < 1000 && fine; ++i) {
    std::this_thread::sleep_for(1ms);  // until the other end's kernel has reported it
    fine = from_->takes_small(0) && from_->send_small({}, {}, why, sent_);
  }
  EXPECT_FALSE(fine);
  EXPECT_FALSE(why.empty());
}

}  // namespace
}  // namespace troupe::transport::tcp::test
