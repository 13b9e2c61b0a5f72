// What the UCX transport accepts: only members of the job, and only messages that make sense.

#include <gtest/gtest.h>
#include <ucp/api/ucp.h>

#include <cstring>
#include <deque>
#include <random>
#include <vector>

#include "tests/transport/conformance/conformance_backend.hpp"
#include "troupe/messages/base/error.hpp"
#include "troupe/transport/ucx/address.hpp"
#include "troupe/transport/ucx/worker.hpp"

namespace troupe::transport::test {
namespace {

using namespace std::chrono_literals;

// A program that uses UCX but not our protocol, or breaks it.
class raw_sender {
public:
  raw_sender(tested_backend kind, const std::vector<std::byte>& ucx_address)
      : worker_(options_of(kind, 9), ucx::reach::all, ucx::common_shape) {
    ucp_ep_params_t params{};
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
    params.address = reinterpret_cast<const ucp_address_t*>(ucx_address.data());
    params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    ucx::check(ucp_ep_create(worker_.get(), &params, &ep_), "raw endpoint");
  }

  ~raw_sender() {
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = UCP_EP_CLOSE_FLAG_FORCE;
    const auto r = ucp_ep_close_nbx(ep_, &param);
    for (int i = 0; i < 1000; ++i) ucp_worker_progress(worker_.get());
    if (UCS_PTR_IS_PTR(r)) ucp_request_free(r);
  }

  void send(unsigned id, const void* header, std::size_t header_size, const void* data,
            std::size_t size, unsigned flags = UCP_AM_SEND_FLAG_EAGER) {
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = flags | UCP_AM_SEND_FLAG_COPY_HEADER;
    // UCX may read them later.
    const auto* bytes = static_cast<const std::byte*>(data);
    const auto& kept = kept_.emplace_back(bytes, bytes + size);
    const auto r = ucp_am_send_nbx(ep_, id, header, header_size, kept.data(), size, &param);
    ASSERT_FALSE(UCS_PTR_IS_ERR(r));
    if (r) ucp_request_free(r);
    progress();
  }

  void progress() { ucp_worker_progress(worker_.get()); }

private:
  std::deque<std::vector<std::byte>> kept_;
  ucx::worker worker_;
  ucp_ep_h ep_ = nullptr;
};

class ucx_hostile : public testing::Test {
protected:
  explicit ucx_hostile(tested_backend kind = tested_backend::ucx) : kind_(kind), made(kind) {}

  void SetUp() override {
    a = made.make(0);
    b = made.make(1);
    a->net->add_peer(1, b->net->address());
    b->net->add_peer(0, a->net->address());
    where = ucx::decode(a->net->address(), key);
    sender = std::make_unique<raw_sender>(kind_, where.any);
    talk();
  }

  // The members still reach each other.
  void talk() {
    b->net->send(0, 1, patterned_frame(10, 1));
    ASSERT_TRUE(run_until([&] { return !a->received.messages.empty(); }, 100s, *a, *b));
    a->received.messages.clear();
  }

  // Lets what `sender` sent arrive.
  void settle(std::uint64_t strangers) {
    ASSERT_TRUE(run_until(
        [&] {
          sender->progress();
          return a->net->count().strangers >= strangers;
        },
        100s, *a));
    talk();
    EXPECT_TRUE(a->received.messages.empty());
    EXPECT_TRUE(a->received.lost.empty());
  }

  ucx::job_key key = options_of(tested_backend::ucx, 0).key;
  tested_backend kind_;
  job made;
  std::unique_ptr<node> a;
  std::unique_ptr<node> b;
  ucx::address where;
  std::unique_ptr<raw_sender> sender;
};

TEST_F(ucx_hostile, random_headers_are_dropped_and_counted) {
  std::mt19937 random(3);
  std::vector<std::byte> header(200);
  std::vector<std::byte> data(20'000);
  std::uint64_t sent = 0;
  std::uint64_t leave_notices = 0;
  for (int i = 0; i < 3000; ++i) {
    for (auto& byte : header) byte = static_cast<std::byte>(random());
    const unsigned id = 1 + random() % 8;
    const std::size_t header_size = random() % 120;
    if (id == ucx::am_leave_notice && header_size == sizeof(ucx::leave_notice_header))
      ++leave_notices;
    sender->send(id, header.data(), header_size, data.data(), random() % 300);
    ++sent;
    if (i % 100 == 0) a->net->progress();
  }
  settle(sent - leave_notices);
}

TEST_F(ucx_hostile, headers_without_the_token_are_dropped) {
  ucx::message_header m{1, 0, 0, 0, 1, 0};
  ucx::acknowledgement_header k{1, 0, 0, 1, 0};
  ucx::payload_header p{1, 0, 8, 1, 0, 0, 0};
  ucx::chunk_header c{p, 0};
  std::vector<std::byte> data(2 << 20);
  for (std::uint64_t token = 0; token < 100; ++token) {
    m.token = p.token = c.whole.token = k.token = token;
    sender->send(ucx::am_message, &m, sizeof m, data.data(), 100);
    sender->send(ucx::am_payload, &p, sizeof p, data.data(), 8);
    sender->send(ucx::am_chunk, &c, sizeof c, data.data(), 8);
    sender->send(ucx::am_acknowledgement, &k, sizeof k, nullptr, 0);
  }
  p.size = data.size();
  sender->send(ucx::am_payload, &p, sizeof p, data.data(), data.size(), UCP_AM_SEND_FLAG_RNDV);
  settle(401);
  EXPECT_EQ(a->pool.out(), 0);
}

TEST_F(ucx_hostile, a_hello_needs_the_key_and_the_right_listener) {
  const ucx::nonce mine = ucx::make_nonce();
  ucx::job_key wrong = key;
  wrong[0] ^= std::byte{1};
  const auto good = ucx::make_hello(key, 5, mine, 0, where.id);
  auto h = ucx::make_hello(wrong, 5, mine, 0, where.id);
  sender->send(ucx::am_hello, &h, sizeof h, nullptr, 0);
  h = ucx::make_hello(key, 5, mine, 1, where.id);  // for another rank
  sender->send(ucx::am_hello, &h, sizeof h, nullptr, 0);
  h = ucx::make_hello(key, 5, mine, 0, mine);  // for another node that had this rank
  sender->send(ucx::am_hello, &h, sizeof h, nullptr, 0);
  h = good;
  ++h.version;
  sender->send(ucx::am_hello, &h, sizeof h, nullptr, 0);
  h = good;
  h.from = 6;
  sender->send(ucx::am_hello, &h, sizeof h, nullptr, 0);
  sender->send(ucx::am_hello, &good, sizeof good - 1, nullptr, 0);
  settle(6);
  // With none of these the token would do.
  const ucx::message_header m{ucx::token(key, mine, where.id), 0, 0, 0, 5, 0};
  sender->send(ucx::am_message, &m, sizeof m, nullptr, 0);
  settle(7);
  sender->send(ucx::am_hello, &good, sizeof good, nullptr, 0);
  sender->send(ucx::am_message, &m, sizeof m, nullptr, 0);
  for (int i = 0; i < 100; ++i) sender->progress();
  talk();
  EXPECT_EQ(a->net->count().strangers, 7u);
}

// A member that goes mad is given up; the others are not bothered.
class ucx_mad_member : public ucx_hostile {
protected:
  using ucx_hostile::ucx_hostile;

  template <class Header>
  void send(unsigned id, Header header, std::size_t size, unsigned flags = UCP_AM_SEND_FLAG_EAGER) {
    const auto there = ucx::decode(b->net->address(), key);
    const auto token = ucx::token(key, there.id, where.id);
    std::memcpy(&header, &token, sizeof token);  // every header begins with it
    std::vector<std::byte> data(size);
    sender->send(id, &header, sizeof header, data.data(), size, flags);
  }

  template <class Header>
  void expect_given_up(unsigned id, Header header, std::size_t size,
                       unsigned flags = UCP_AM_SEND_FLAG_EAGER) {
    send(id, header, size, flags);
    ASSERT_TRUE(run_until(
        [&] {
          sender->progress();
          return !a->received.lost.empty();
        },
        100s, *a));
    EXPECT_EQ(a->received.lost.size(), 1u);
    EXPECT_EQ(a->received.lost[0].first, 1u);
    EXPECT_THROW(a->net->send(1, 0, patterned_frame(1, 1)), peer_lost);
    EXPECT_TRUE(run_until([&] { return !b->received.lost.empty(); }, 100s, *a, *b));
  }
};

TEST_F(ucx_mad_member, too_far_ahead) {
  expect_given_up(ucx::am_message, ucx::message_header{0, 1u << 30, 0, 0, 1, 0}, 8);
}

TEST_F(ucx_mad_member, too_many_payloads) {
  expect_given_up(ucx::am_message, ucx::message_header{0, 1, 0, 0, 1, 0xffffffff}, 8);
}

TEST_F(ucx_mad_member, an_envelope_by_rendezvous) {
  expect_given_up(ucx::am_message, ucx::message_header{0, 1, 0, 0, 1, 0}, 100'000,
                  UCP_AM_SEND_FLAG_RNDV);
}

TEST_F(ucx_mad_member, a_payload_of_another_size) {
  expect_given_up(ucx::am_payload, ucx::payload_header{0, 1, 1ull << 40, 1, 0, 0, 0}, 8);
}

TEST_F(ucx_mad_member, a_payload_in_unknown_memory) {
  expect_given_up(ucx::am_payload, ucx::payload_header{0, 1, 8, 1, 0, 7, 0}, 8);
}

TEST_F(ucx_mad_member, a_piece_past_the_end) {
  expect_given_up(ucx::am_chunk, ucx::chunk_header{{0, 1, 100, 1, 0, 0, 0}, 96}, 8);
}

TEST_F(ucx_mad_member, a_piece_far_past_the_end) {
  expect_given_up(ucx::am_chunk, ucx::chunk_header{{0, 1, 100, 1, 0, 0, 0}, ~0ull - 3}, 8);
}

TEST_F(ucx_mad_member, a_piece_that_begins_between_others) {
  expect_given_up(ucx::am_chunk, ucx::chunk_header{{0, 1, 100, 1, 0, 0, 0}, 50}, 50);
}

TEST_F(ucx_mad_member, a_piece_that_is_too_short) {
  expect_given_up(ucx::am_chunk, ucx::chunk_header{{0, 1, 40'000, 1, 0, 0, 0}, 0}, 8);
}

// Counted twice, it would end a payload that is not all there.
TEST_F(ucx_mad_member, a_piece_twice) {
  const ucx::chunk_header piece{{0, 1, 2 * ucx::chunk_size, 1, 0, 0, 0}, 0};
  send(ucx::am_chunk, piece, ucx::chunk_size);
  expect_given_up(ucx::am_chunk, piece, ucx::chunk_size);
}

TEST_F(ucx_mad_member, a_piece_of_more_than_there_is_memory) {
  expect_given_up(ucx::am_chunk, ucx::chunk_header{{0, 1, 1ull << 60, 1, 0, 0, 0}, 0}, 8);
}

TEST_F(ucx_mad_member, a_second_way_to_its_queue) {
  expect_given_up(ucx::am_worker_address, ucx::worker_address_header{0, 1, 0, 100, {}}, 0);
}

TEST_F(ucx_mad_member, a_switch_that_was_made_or_cannot_be) {
  for (int i = 0; i < 3; ++i) send(ucx::am_switched, ucx::switched_header{0, 1, 0}, 0);
  for (int i = 0; i < 100; ++i) sender->progress();
  talk();
  a->net->send(1, 0, patterned_frame(8, 1));
  EXPECT_TRUE(run_until([&] { return !b->received.messages.empty(); }, 100s, *a, *b));
  EXPECT_TRUE(a->received.lost.empty());
}

TEST_F(ucx_mad_member, a_way_that_begins_in_the_middle) {
  expect_given_up(ucx::am_worker_address, ucx::worker_address_header{0, 1, 6400, 6500, {}}, 0);
}

// Over a network, where acknowledgements count.
class ucx_mad_network_member : public ucx_mad_member {
protected:
  ucx_mad_network_member() : ucx_mad_member(tested_backend::ucx_tcp) {}
};

TEST_F(ucx_mad_network_member, an_acknowledgement_of_what_was_never_sent) {
  expect_given_up(ucx::am_acknowledgement, ucx::acknowledgement_header{0, 1, 0, 1, 0}, 0);
}

TEST_F(ucx_mad_network_member, a_message_that_acknowledges_what_was_never_sent) {
  expect_given_up(ucx::am_message, ucx::message_header{0, 1, 0, 1, 1, 0}, 8);
}

TEST_F(ucx_mad_network_member, a_connection_of_a_mad_number) {
  expect_given_up(ucx::am_acknowledgement, ucx::acknowledgement_header{0, 0, ~0ull, 1, 0}, 0);
}

TEST_F(ucx_mad_network_member, a_question_about_a_connection_of_a_mad_number) {
  expect_given_up(ucx::am_acknowledgement, ucx::acknowledgement_header{0, 0, 1 << 30, 1, 1}, 0);
}

TEST_F(ucx_mad_network_member, a_way_that_nobody_can_have_made) {
  expect_given_up(ucx::am_worker_address, ucx::worker_address_header{0, 1, 0, 60, {}}, 0);
}

TEST_F(ucx_mad_network_member, a_way_without_anything) {
  expect_given_up(ucx::am_worker_address, ucx::worker_address_header{0, 1, 0, 0, {}}, 0);
}

TEST_F(ucx_mad_network_member, a_way_by_shared_memory) {
  const auto there = ucx::decode(b->net->address(), key);
  const auto way = ucx::sign_worker_address(key, ucx::token(key, there.id, where.id), where.any);
  ucx::worker_address_header h{0, 1, 0, static_cast<std::uint16_t>(way.size()), {}};
  for (std::size_t offset = 0; offset < way.size(); offset += h.bytes.size()) {
    h.offset = static_cast<std::uint16_t>(offset);
    std::copy_n(way.begin() + static_cast<std::ptrdiff_t>(offset),
                std::min(h.bytes.size(), way.size() - offset), h.bytes.begin());
    if (offset + h.bytes.size() < way.size())
      send(ucx::am_worker_address, h, 0);
    else
      expect_given_up(ucx::am_worker_address, h, 0);
  }
}

TEST_F(ucx_mad_network_member, a_connection_that_never_was_is_no_answer) {
  a->net->send(1, 0, patterned_frame(8, 1));
  send(ucx::am_acknowledgement, ucx::acknowledgement_header{0, 0, 7, 1, 0}, 0);
  talk();
  EXPECT_TRUE(a->received.lost.empty());
}

TEST(ucx_address, damaged_and_foreign_ones_are_refused) {
  ucx::start_proofs();
  ucx::job_key key{};
  ucx::address a;
  a.rank = 3;
  a.id = ucx::make_nonce();
  a.process = this_process();
  a.any.resize(200, std::byte{1});
  a.network.resize(100, std::byte{2});
  const auto bytes = ucx::encode(a, key);
  const auto back = ucx::decode(bytes, key);
  EXPECT_EQ(back.rank, a.rank);
  EXPECT_EQ(back.id, a.id);
  EXPECT_EQ(back.process, a.process);
  EXPECT_EQ(back.any, a.any);
  EXPECT_EQ(back.network, a.network);
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_THROW(ucx::decode(std::span(bytes).first(size), key), decode_error);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    auto bad = bytes;
    bad[i] ^= std::byte{0x10};
    EXPECT_THROW(ucx::decode(bad, key), decode_error);
  }
  auto longer = bytes;
  longer.push_back(std::byte{0});
  EXPECT_THROW(ucx::decode(longer, key), decode_error);
  key[31] = std::byte{1};
  EXPECT_THROW(ucx::decode(bytes, key), decode_error);
}

}  // namespace
}  // namespace troupe::transport::test
