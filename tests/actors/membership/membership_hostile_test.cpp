// Bytes that no node has written, and messages that no node would send (M16).
#include <gtest/gtest.h>

#include "tests/actors/membership/membership_testing.hpp"
#include "tests/messages/hostile_bytes.hpp"
#include "troupe/actors/membership/message_codec.hpp"

namespace troupe::membership_testing {
namespace {

using troupe::testing::survive_everything;

std::vector<membership_message> every_message() {
  const membership_change joined{change_kind::joined, member_of(3, 1), ""};
  return {membership_messages::prepare{1, 2, {6, 1, 0, {joined, removal_of(2)}}, {removal_of(1)}},
          membership_messages::ready{1, 6, 2},
          membership_messages::commit{1, 6, 2},
          membership_messages::suspect{2, 1, loss_kind::left, "it has gone"},
          membership_messages::leave{},
          membership_messages::leave_notice{6},
          membership_messages::fenced{5, "lost to rank 2"},
          membership_messages::ping{1},
          membership_messages::pong{},
          membership_messages::seek{3},
          membership_messages::candidate{3, 0, true},
          membership_messages::follow{
              3, {{2, 0, loss_kind::ended, "gone"}, {1, 4, loss_kind::broken, ""}}}};
}

std::vector<std::byte> written(const membership_message& message) {
  encoder out(nullptr, nullptr);
  write_message(out, message);
  return out.take();
}

membership_message read(std::span<const std::byte> bytes) {
  decoder in(bytes, nullptr, nullptr);
  auto message = read_message(in);
  in.expect_end();
  return message;
}

TEST(membership_messages, are_read_as_they_were_written) {
  ASSERT_EQ(every_message().size(), std::variant_size_v<membership_message>);
  for (const auto& message : every_message())
    EXPECT_EQ(read(written(message)), message) << message.index();
}

TEST(membership_messages, are_read_or_refused) {
  for (const auto& message : every_message())
    survive_everything(
        [](std::span<const std::byte> bytes) {
          EXPECT_TRUE(std::ranges::equal(written(read(bytes)), bytes));
        },
        written(message), "message " + std::to_string(message.index()), 100);
}

TEST(membership_messages, have_limits) {
  const auto refused = [](const membership_message& message) {
    EXPECT_THROW(written(message), encode_error);
  };
  refused(membership_messages::fenced{1, std::string(max_cause + 1, 'x')});
  refused(membership_messages::follow{1, {{1, 1, loss_kind(3), ""}}});
  auto change = removal_of(2);
  change.what = change_kind(3);
  refused(membership_messages::prepare{1, 1, {6, 0, 0, {change}}, {}});
  change = removal_of(2);
  change.who.name.assign(max_member_name + 1, 'x');
  refused(membership_messages::prepare{1, 1, {6, 0, 0, {}}, {change}});
  change = removal_of(2);
  change.who.address.resize(max_member_address + 1);
  refused(membership_messages::prepare{1, 1, {6, 0, 0, {change}}, {}});
  const auto cut = cut_cause(std::string(max_cause - 1, 'x') + "\xe2\x82\xac");
  EXPECT_EQ(cut, std::string(max_cause - 1, 'x'));
}

TEST(membership_views, are_read_or_refused) {
  auto view = view_of(3);
  view.gone[7] = 2;
  encoder out(nullptr, nullptr);
  write_view(out, view);
  const auto bytes = out.take();
  decoder in(bytes, nullptr, nullptr);
  EXPECT_EQ(read_view(in), view);
  survive_everything(
      [](std::span<const std::byte> all) {
        decoder hostile(all, nullptr, nullptr);
        read_view(hostile);
        hostile.expect_end();
      },
      bytes, "view", 100);
}

class note_maker {
public:
  explicit note_maker(std::uint64_t seed) : random_(seed) {}

  std::uint32_t below(std::uint32_t limit) { return static_cast<std::uint32_t>(random_() % limit); }
  std::uint32_t number() {
    return below(8) == 0 ? static_cast<std::uint32_t>(-1) - below(2) : below(9);
  }
  membership_change change() {
    return {change_kind(below(4)), {below(6), below(3), "n" + std::to_string(below(6)), {}}, ""};
  }
  std::vector<membership_change> changes() {
    std::vector<membership_change> out(below(4));
    for (auto& x : out) x = change();
    return out;
  }
  membership_messages::suspect suspect() { return {below(6), below(2), loss_kind(below(4)), "x"}; }

  membership_message make() {
    switch (below(12)) {
      case 0:
      case 1:
        return membership_messages::prepare{
            number(), number(), {number(), number(), below(6), changes()}, changes()};
      case 2: return membership_messages::ready{number(), number(), number()};
      case 3: return membership_messages::commit{number(), number(), number()};
      case 4: return suspect();
      case 5: return membership_messages::leave{};
      case 6: return membership_messages::leave_notice{number()};
      case 7:
        return below(20) == 0 ? membership_message(membership_messages::fenced{})
                              : membership_messages::pong{};
      case 8: return membership_messages::ping{number()};
      case 9: return membership_messages::seek{number()};
      case 10: return membership_messages::candidate{number(), below(6), below(2) == 0};
      default: return membership_messages::follow{number(), {suspect(), suspect()}};
    }
  }

private:
  std::mt19937_64 random_;
};

// Nothing is sent to unknown nodes, and nothing after the end.
void expect_sane(one_node& node, std::uint64_t seed) {
  std::size_t ends = 0;
  for (const auto& line : node.out.log) {
    EXPECT_EQ(ends, 0u) << line << " after the end, seed " << seed;
    ends += line == "ended" || line == "left";
  }
  const auto& view = node.part.view();
  for (const auto& [rank, who] : view.members) {
    EXPECT_EQ(rank, who.rank);
    EXPECT_FALSE(view.gone.contains(rank));
  }
  EXPECT_LT(node.out.sent.size(), 4'000u) << seed;
}

TEST(membership, stays_valid_whatever_messages_come) {
  for (std::uint64_t seed = 1; seed <= 6'000; ++seed) {
    note_maker maker(seed);
    const auto self = maker.below(4);
    one_node node(self, 4, {maker.below(2) == 0 ? 0ns : 1s, maker.below(2) == 0});
    for (int i = 0; i < 60; ++i) switch (maker.below(12)) {
        case 0: node.lose(maker.below(6), loss_kind(maker.below(3)), maker.below(2)); break;
        case 1: node.admit("a" + std::to_string(i)); break;
        case 2: node.part.tick(node.now += 100ms * maker.below(10)); break;
        case 3:
          if (maker.below(10) == 0) node.part.leave(node.now);
          break;
        default: node.receive(maker.below(6), maker.make());
      }
    expect_sane(node, seed);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace troupe::membership_testing
