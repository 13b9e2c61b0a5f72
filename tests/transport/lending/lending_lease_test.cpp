// Memory of devices: payloads without bytes, which the receiver has until it drops them.
#include <gmock/gmock.h>

#include <utility>

#include "tests/transport/lending/lending_fixture.hpp"
#include "troupe/messages/base/error.hpp"
#include "troupe/messages/tensor/lease_outcome.hpp"
#include "troupe/transport/lending/lending_address.hpp"
#include "troupe/transport/lending/lending_note.hpp"

namespace troupe::transport::lending::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr memory_place on_device{static_cast<memory_place::kind>(20), 3};

struct lease_test : lending_test {
  // What the sender keeps.
  static outgoing_payload lease(std::weak_ptr<const void>& kept, std::size_t size = 4'000'000) {
    auto keep = std::make_shared<int>(1);
    kept = keep;
    outgoing_payload out;
    out.size = size;
    out.place = on_device;
    out.keep = std::move(keep);
    return out;
  }
};

TEST_F(lease_test, ends_when_the_receiver_drops_it) {
  std::weak_ptr<const void> kept;
  for (int i = 0; i < 5; ++i) {
    send(a, 1, lease(kept));
    auto came = next(b);
    ASSERT_EQ(came.payloads.size(), 1u);
    auto& payload = came.payloads[0];
    EXPECT_EQ(payload.size, 4'000'000u);
    EXPECT_EQ(payload.place, on_device);
    EXPECT_EQ(payload.data.get(), nullptr);
    EXPECT_GT(payload.data.use_count(), 0);
    auto held = std::move(payload.data);
    came = {};
    for (int polls = 0; polls < 300; ++polls) {
      a->progress();
      b->progress();
    }
    EXPECT_FALSE(kept.expired());
    held.reset();
    EXPECT_TRUE(run([&] { return kept.expired(); }));
  }
  // Nothing is limited by it, and no other memory is in use.
  EXPECT_EQ(a->count().lent, 0u);
  EXPECT_EQ(b->count().borrowed, 0u);
}

TEST_F(lease_test, keeps_its_place_among_payloads) {
  std::weak_ptr<const void> first, second;
  std::vector<outgoing_payload> payloads;
  payloads.push_back(patterned_payload(100, 1));
  payloads.push_back(lease(first, 10));
  payloads.push_back(a.payload(100'000, 2));
  payloads.push_back(lease(second, 20));
  a->send(1, 0, patterned_frame(40, 1), std::move(payloads));
  auto came = next(b);
  ASSERT_EQ(came.payloads.size(), 4u);
  EXPECT_TRUE(has_pattern(came.payloads[0].data.get(), 100, 1));
  EXPECT_EQ(came.payloads[1].size, 10u);
  EXPECT_TRUE(has_pattern(came.payloads[2].data.get(), 100'000, 2));
  EXPECT_EQ(came.payloads[3].size, 20u);
  came.payloads[1].data.reset();
  EXPECT_TRUE(run([&] { return first.expired(); }));
  EXPECT_FALSE(second.expired());
  came = {};
  EXPECT_TRUE(run([&] { return second.expired(); }));
}

struct ample_lease_test : lease_test {
  ample_lease_test() {
    a.net.reset();
    b.net.reset();
    most_lent = std::uint64_t{1} << 30;
    begin(a, 0);
    begin(b, 1);
    meet();
  }
};

TEST_F(ample_lease_test, comes_before_what_can_be_sent_in_a_message_of_many_payloads) {
  // As many as a note takes are lent.
  const auto same = a.payload(16 << 10, 1);
  std::vector<outgoing_payload> payloads(most_entries, same);
  std::weak_ptr<const void> kept;
  payloads.push_back(lease(kept));
  a->send(1, 0, patterned_frame(40, 1), std::move(payloads));
  auto came = next(b);
  ASSERT_EQ(came.payloads.size(), most_entries + 1);
  EXPECT_EQ(came.payloads.back().place, on_device);
  came = {};
  EXPECT_TRUE(run([&] { return kept.expired(); }));
}

TEST_F(lease_test, is_held_by_its_owner_until_it_has_ended) {
  EXPECT_FALSE(a->holds_leases());
  std::weak_ptr<const void> kept;
  send(a, 1, lease(kept));
  auto came = next(b);
  for (int polls = 0; polls < 300; ++polls) {
    a->progress();
    b->progress();
  }
  // It may not go: the bytes are being copied.
  EXPECT_TRUE(a->holds_leases());
  EXPECT_FALSE(b->holds_leases());
  came = {};
  EXPECT_TRUE(run([&] { return !a->holds_leases(); }));
  EXPECT_TRUE(kept.expired());
  send(a, 1, lease(kept));
  came = next(b);
  a->close_peer(1, true);
  EXPECT_TRUE(run([&] { return !a->holds_leases(); })) << "it waits for one who is gone";
}

TEST_F(lease_test, is_not_made_once_the_receiver_could_not_open_one) {
  std::weak_ptr<const void> kept;
  send(a, 1, lease(kept));
  auto came = next(b);
  auto* const end = std::get_deleter<lease_deleter>(came.payloads.at(0).data);
  ASSERT_NE(end, nullptr);
  EXPECT_THAT(a->device_way(1, on_device, on_device).reason, Not(HasSubstr("could not open")));
  end->outcome->could_not_open = true;
  came = {};
  EXPECT_TRUE(run([&] { return kept.expired(); }));
  EXPECT_THAT(a->device_way(1, on_device, on_device).reason, HasSubstr("could not open"));
  EXPECT_FALSE(a->leases(1, on_device, on_device, ""));
}

TEST_F(lease_test, is_nobodys_if_it_was_not_sent) {
  std::weak_ptr<const void> kept;
  inner[0]->failures = 1;
  EXPECT_THROW(send(a, 1, lease(kept)), std::bad_alloc);
  EXPECT_TRUE(kept.expired());
  // To one that is not known, or not any more.
  EXPECT_THROW(send(a, 7, lease(kept)), transport_error);
  a->close_peer(1, true);
  EXPECT_THROW(send(a, 1, lease(kept)), peer_lost);
  EXPECT_TRUE(kept.expired());
}

TEST_F(lease_test, outlives_its_connection) {
  std::weak_ptr<const void> kept;
  send(a, 1, lease(kept));
  auto came = next(b);
  a->close_peer(1, true);
  for (int polls = 0; polls < 300; ++polls) {
    a->progress();
    b->progress();
  }
  EXPECT_FALSE(kept.expired());
  came = {};
  EXPECT_TRUE(run([&] { return kept.expired(); }));
}

TEST_F(lease_test, may_not_be_of_host_memory) {
  note_entry entry{.kind = entry_kind::lease, .offset = word_of(on_device), .size = 1};
  EXPECT_EQ(place_of(entry), on_device);
  entry.size = 0;
  EXPECT_THROW(place_of(entry), decode_error);
  entry.size = std::uint64_t{1} << 48;
  EXPECT_THROW(place_of(entry), decode_error);
  entry.size = 1;
  for (const std::uint64_t word : {std::uint64_t{3}, word_of(on_device) | 1u << 16}) {
    entry.offset = word;
    EXPECT_THROW(place_of(entry), decode_error);
  }
}

TEST_F(lease_test, is_not_believed_twice) {
  frame forged(256);
  const note_entry entry{
      .kind = entry_kind::lease, .loan = 5, .offset = word_of(on_device), .size = 1};
  const std::vector<note_entry> both{
      entry,
      {.kind = entry_kind::lease, .index = 1, .loan = 5, .offset = word_of(on_device), .size = 1}};
  append_note(forged, both, 2, false);
  inner[0]->send(1, 0, std::move(forged), {});
  EXPECT_TRUE(run([&] { return !b.received.lost.empty(); }));
  EXPECT_TRUE(b.received.messages.empty());
}

TEST(leased_devices_of_an_address, come_off_as_they_were_put_on) {
  const job_secret secret;
  address where;
  where.devices = {{on_device, "one"}, {{memory_place::kind::cuda, 0}, std::string(64, '\0')}};
  where.inner = {std::byte{1}, std::byte{2}};
  const auto got = decode(encode(where, secret), secret);
  ASSERT_EQ(got.devices.size(), 2u);
  EXPECT_EQ(got.devices[0].place, on_device);
  EXPECT_EQ(got.devices[0].identity, "one");
  EXPECT_EQ(got.devices[1].identity, where.devices[1].identity);
  EXPECT_EQ(got.inner, where.inner);
  const auto bytes = encode(where.devices);
  for (std::size_t size = 1; size < bytes.size(); ++size) {
    if (size == 6) continue;  // the first device alone
    EXPECT_THROW(decode_devices({bytes.data(), size}), decode_error) << size;
  }
  auto longer = bytes;
  longer[2] = std::byte{65};
  EXPECT_THROW(decode_devices(longer), decode_error);
}

}  // namespace
}  // namespace troupe::transport::lending::test
