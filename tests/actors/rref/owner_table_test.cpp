// The owner's side of remote references alone, by the rules in rref_table.hpp.

#include "troupe/actors/rref/owner_table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace troupe::detail {
namespace {

class owner_tables : public testing::Test {
protected:
  owner_tables() {
    for (std::uint32_t rank = 0; rank < 4; ++rank)
      peers.add(
          std::make_unique<peer>(worker_info{"w" + std::to_string(rank), rank}, 7, caf::node_id()));
  }

  peer& at(std::uint32_t rank) { return *peers.find(rank); }
  static rref_id id(std::uint32_t creator, std::uint64_t number) {
    return {creator, 0, 7, 7, number};
  }
  bool gone(const rref_id& which) {
    try {
      table.find(which, number);
      return false;
    } catch (const rref_gone&) {
      return true;
    }
  }
  static std::exception_ptr because(const char* text) {
    return std::make_exception_ptr(remote_error(text));
  }

  peer_table peers;
  owner_table table{nullptr, peers};
  const value_type number = value_type::of<int>();
};

TEST_F(owner_tables, a_value_lives_until_its_last_holder_lets_go) {  // rules 1 and 5
  const auto value = table.create(id(1, 1), number, at(1));
  EXPECT_EQ(table.hold(id(1, 1), at(2), 9), owner_table::presence::here);
  EXPECT_EQ(table.drop(id(1, 1), at(1), 0).value, nullptr);
  EXPECT_EQ(table.drop(id(1, 1), at(1), 0).value, nullptr);  // twice
  EXPECT_EQ(table.drop(id(1, 1), at(2), 8).value, nullptr);  // another use
  EXPECT_EQ(table.drop(id(1, 1), at(3), 9).value, nullptr);  // another node's
  EXPECT_EQ(table.size(), 1u);
  EXPECT_EQ(table.drop(id(1, 1), at(2), 9).value, value);
  EXPECT_EQ(table.size(), 0u);
  EXPECT_EQ(table.drop(id(1, 1), at(2), 9).value, nullptr);  // late
  EXPECT_TRUE(gone(id(1, 1)));                               // rule 6
  EXPECT_EQ(table.hold(id(1, 1), at(2), 10), owner_table::presence::gone);
}

TEST_F(owner_tables, what_has_not_come_yet_is_to_come) {  // rule 6
  EXPECT_EQ(table.hold(id(1, 3), at(2), 1), owner_table::presence::to_come);
  const auto early = table.find(id(1, 3), number);
  EXPECT_EQ(table.create(id(1, 3), number, at(1)), early);
  EXPECT_THROW(table.create(id(1, 3), number, at(1)), rref_gone);  // twice
  // 1 and 2 have been overtaken; they come still.
  EXPECT_NO_THROW(table.create(id(1, 2), number, at(1)));
  EXPECT_NO_THROW(table.create(id(1, 1), number, at(1)));
  EXPECT_THROW(table.create(id(1, 2), number, at(1)), rref_gone);
}

TEST_F(owner_tables, waits_for_values_without_references_are_bounded_and_fail) {
  EXPECT_EQ(table.hold(id(1, std::uint64_t{1} << 40), at(2), 1), owner_table::presence::gone);
  EXPECT_TRUE(gone(id(1, std::uint64_t{1} << 40)));
  EXPECT_EQ(table.size(), 0u);
  // Asked for by its number before its owner has made it.
  const auto guessed = table.find(id(0, 1), number);
  const auto made = number.make(nullptr);
  table.reserve(id(0, 1), at(0));
  EXPECT_TRUE(guessed->ready());
  EXPECT_THROW(std::rethrow_exception(guessed->failure()), rref_gone);
  EXPECT_TRUE(gone(id(0, 1)));  // nobody can know of it yet
  table.own(id(0, 1), made, number, at(0), 0);
  EXPECT_EQ(table.find(id(0, 1), number), made);
}

TEST_F(owner_tables, what_its_creator_gives_up_reports_why) {  // rule 8
  EXPECT_EQ(table.hold(id(1, 1), at(2), 1), owner_table::presence::to_come);
  const auto waiting = table.find(id(1, 1), number);
  table.abandon(id(1, 1), at(1), because("too late"));
  EXPECT_TRUE(waiting->ready());
  EXPECT_THROW(table.find(id(1, 1), number), remote_error);
  EXPECT_THROW(table.create(id(1, 1), number, at(1)), rref_gone);
  (void)table.drop(id(1, 1), at(2), 1);
  EXPECT_THROW(table.find(id(1, 1), number), remote_error);  // its creator still has it
  (void)table.drop(id(1, 1), at(1), 0);
  EXPECT_EQ(table.size(), 0u);
  // Nothing is given up that has been created.
  table.create(id(1, 2), number, at(1));
  table.abandon(id(1, 2), at(1), because("too late"));
  EXPECT_NO_THROW(table.find(id(1, 2), number));
}

TEST_F(owner_tables, a_lost_node_holds_nothing_and_creates_nothing) {  // rule 7
  table.create(id(1, 1), number, at(1));
  table.create(id(1, 2), number, at(1));
  EXPECT_EQ(table.hold(id(1, 2), at(2), 1), owner_table::presence::here);
  EXPECT_EQ(table.hold(id(1, 5), at(2), 2), owner_table::presence::to_come);
  const auto waiting = table.find(id(1, 5), number);
  peers.fence(at(1), "killed");
  peers.evict(at(1));
  EXPECT_EQ(table.evict(at(1)).size(), 1u);
  EXPECT_TRUE(gone(id(1, 1)));
  EXPECT_FALSE(gone(id(1, 2)));
  EXPECT_TRUE(waiting->ready());
  EXPECT_THROW(table.find(id(1, 5), number), peer_lost);
  EXPECT_TRUE(gone(id(1, 6)));
  EXPECT_THROW(table.create(id(1, 6), number, at(1)), rref_gone);
  (void)table.drop(id(1, 2), at(2), 1);
  (void)table.drop(id(1, 5), at(2), 2);
  EXPECT_EQ(table.size(), 0u);
}

TEST_F(owner_tables, a_value_has_one_type) {
  table.create(id(1, 1), number, at(1));
  try {
    table.find(id(1, 1), value_type::of<std::string>());
    ADD_FAILURE() << "found as a string";
  } catch (const invalid_argument& e) {
    EXPECT_THAT(e.what(),
                testing::AllOf(testing::HasSubstr("is a int"), testing::HasSubstr("basic_string")));
  }
  // A wait for another type fails, and the creation goes on.
  const auto mistaken = table.find(id(2, 1), value_type::of<std::string>());
  table.create(id(2, 1), number, at(2));
  EXPECT_TRUE(mistaken->ready());
  EXPECT_NO_THROW(table.find(id(2, 1), number));
}

// Random holders against a plain model: the value is there exactly while the model has a holder.
TEST_F(owner_tables, agree_with_a_plain_count) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const auto which = id(3, seed + 1);
    table.create(which, number, at(3));
    std::set<std::pair<std::uint32_t, std::uint64_t>> model{{3, 0}};
    std::uint64_t use = 0;
    while (!model.empty()) {
      if (random() % 5 < 2) {
        const std::uint32_t who = random() % 4;
        EXPECT_EQ(table.hold(which, at(who), ++use), owner_table::presence::here);
        model.emplace(who, use);
      } else {
        const auto one = *std::next(model.begin(), static_cast<long>(random() % model.size()));
        model.erase(one);
        EXPECT_EQ(table.drop(which, at(one.first), one.second).value != nullptr, model.empty());
        EXPECT_EQ(table.drop(which, at(one.first), one.second).value, nullptr);
      }
      EXPECT_EQ(gone(which), model.empty());
    }
  }
  EXPECT_EQ(table.size(), 0u);
}

}  // namespace
}  // namespace troupe::detail
