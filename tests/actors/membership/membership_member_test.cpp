// A member's half, and elections: docs/membership.md has the rules.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/actors/membership/membership_testing.hpp"

namespace troupe::membership_testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const membership_options electing{0s, true};

membership_change arrival_of(rank_t rank, std::uint64_t incarnation) {
  return {change_kind::joined, member_of(rank, incarnation), ""};
}

TEST(membership_member, fences_at_once_and_applies_at_the_commit) {  // M3, M5
  one_node node(1, 4);
  node.prepare({removal_of(2)});
  EXPECT_THAT(node.out.events(), ElementsAre("fence 2.0"));
  EXPECT_EQ(node.out.all<membership_messages::ready>(),
            (std::vector{std::pair{0u, membership_messages::ready{0, 6, 1}}}));
  node.prepare({removal_of(2), removal_of(3)}, 2);
  EXPECT_THAT(node.out.events(), ElementsAre("fence 3.0"));
  node.receive(0, membership_messages::commit{0, 6, 1});
  EXPECT_THAT(node.out.events(), IsEmpty());
  node.receive(0, membership_messages::commit{0, 6, 2});
  EXPECT_THAT(node.out.events(), ElementsAre("apply 6: -2.0 -3.0"));
  EXPECT_EQ(node.part.view().members.size(), 2u);
}

TEST(membership_member, connects_to_joiners_once) {
  one_node node(1, 3);
  node.prepare({arrival_of(3, 1)});
  node.prepare({arrival_of(3, 1), removal_of(2)}, 2);
  EXPECT_THAT(node.out.events(), ElementsAre("connect 3.1", "fence 2.0"));
  auto lost = removal_of(3);
  lost.who.incarnation = 1;
  node.prepare({arrival_of(3, 1), removal_of(2), lost}, 3);
  EXPECT_THAT(node.out.events(), ElementsAre("fence 3.1"));
}

TEST(membership_member, suspects_whom_it_has_lost_unless_fenced) {  // M6
  one_node node(1, 4);
  node.lose(2, loss_kind::left);
  EXPECT_EQ(
      node.out.all<membership_messages::suspect>(),
      (std::vector{std::pair{0u, membership_messages::suspect{2, 0, loss_kind::left, "gone"}}}));
  node.out.forget();
  node.prepare({removal_of(3)});
  node.lose(3);
  node.lose(2);
  node.lose(2, loss_kind::ended, 8);
  node.lose(9);
  EXPECT_TRUE(node.out.all<membership_messages::suspect>().empty());
}

TEST(membership_member, takes_orders_from_the_leader_alone) {
  one_node node(1, 4);
  node.receive(2, membership_messages::prepare{0, 1, {6, 0, 0, {removal_of(3)}}, {}});
  node.receive(2, membership_messages::prepare{9, 1, {6, 9, 2, {removal_of(3)}}, {}});
  node.receive(2, membership_messages::fenced{5, "get out"});
  node.receive(2, membership_messages::leave_notice{6});
  node.receive(2, membership_messages::candidate{3, 0, true});
  node.receive(2, membership_messages::seek{3});
  EXPECT_THAT(node.out.events(), IsEmpty());
  EXPECT_TRUE(node.out.sent.empty());
}

TEST(membership_member, ignores_steps_that_make_no_sense) {  // M16
  one_node node(1, 4);
  node.prepare({removal_of(1)});
  node.prepare({removal_of(9)});
  node.prepare({arrival_of(2, 1)});
  node.prepare({arrival_of(5, 1), arrival_of(5, 2)});
  node.prepare({removal_of(2), arrival_of(2, 1)});
  node.prepare({removal_of(2)}, 1, 7);
  node.prepare({removal_of(2)}, 1, 0);
  node.prepare({});
  node.receive(0, membership_messages::commit{0, 6, 1});
  EXPECT_THAT(node.out.events(), IsEmpty());
  EXPECT_TRUE(node.out.sent.empty());
}

TEST(membership_member, ends_when_it_is_fenced) {  // M7
  one_node node(1, 3);
  node.receive(0, membership_messages::fenced{5, "lost to rank 2"});
  EXPECT_THAT(node.out.events(), ElementsAre("ended"));
  EXPECT_EQ(node.out.why.code, errc::fenced);
  EXPECT_EQ(node.out.why.text,
            "rank 1 ('n1') was fenced by rank 0 ('n0') in epoch 5: lost to rank 2");
  node.prepare({removal_of(2)});
  node.lose(0);
  EXPECT_THAT(node.out.events(), IsEmpty());
  EXPECT_EQ(node.part.tick(node.now), never);
}

TEST(membership_member, ends_with_its_leader) {
  one_node node(1, 3);
  node.lose(0, loss_kind::ended);
  EXPECT_THAT(node.out.events(), ElementsAre("ended"));
  EXPECT_EQ(node.out.why.code, errc::peer_lost);
  EXPECT_EQ(node.out.why.node, "n0");
  EXPECT_EQ(node.out.why.text,
            "rank 0 ('n0'), which led the job, was lost: gone; the job ends with it");
}

TEST(membership_member, leaves_with_a_leave_notice) {  // M8
  one_node node(1, 3);
  node.receive(0, membership_messages::leave_notice{6});
  EXPECT_FALSE(node.part.leave(node.now));
  EXPECT_FALSE(node.part.leave(node.now));
  EXPECT_EQ(node.out.all<membership_messages::leave>().size(), 1u);
  node.prepare({removal_of(1, change_kind::left)});
  EXPECT_EQ(node.out.all<membership_messages::ready>().size(), 1u);
  EXPECT_THAT(node.out.events(), IsEmpty());
  node.receive(0, membership_messages::leave_notice{6});
  EXPECT_THAT(node.out.events(), ElementsAre("left"));
}

TEST(membership_member, answers_pings_and_misses_them) {  // M13, M14
  one_node node(1, 3, {4s});
  node.receive(0, membership_messages::ping{0});
  EXPECT_EQ(node.out.all<membership_messages::pong>().size(), 1u);
  node.part.tick(node.now);
  node.now += 1h;
  node.part.tick(node.now);
  EXPECT_THAT(node.out.events(), IsEmpty()) << "it was stopped itself";
  for (int i = 0; i < 3; ++i) node.part.tick(node.now += 1s);
  EXPECT_THAT(node.out.events(), ElementsAre("fence 0.0", "ended"));
  EXPECT_THAT(node.out.why.text, HasSubstr("4000 ms"));
}

TEST(membership_election, is_won_by_the_lowest_rank_with_a_deciding_set) {  // M12
  one_node node(1, 5, electing);
  node.lose(0);
  EXPECT_EQ(node.out.all<membership_messages::candidate>().size(), 3u);
  node.receive(2, membership_messages::follow{1, {}});
  EXPECT_FALSE(node.part.leads());
  node.receive(3, membership_messages::follow{1, {{4, 0, loss_kind::broken, "cut"}}});
  EXPECT_TRUE(node.part.leads());
  EXPECT_THAT(node.out.events(), ElementsAre("fence 0.0", "fence 4.0"));
  node.all_ready();
  EXPECT_THAT(node.out.events(), ElementsAre("apply 6: -0.0 -4.0"));
  EXPECT_EQ(node.part.view().leader, 1u);
  EXPECT_EQ(node.part.view().term, 1u);
  const auto answer = node.admit("new", 0);  // M9
  ASSERT_TRUE(std::holds_alternative<member>(answer));
  EXPECT_EQ(std::get<member>(answer).incarnation, std::uint64_t{1} << 32);
}

TEST(membership_election, completes_what_it_inherits_as_it_is) {  // M11
  one_node node(1, 5, electing);
  node.prepare({removal_of(4)});
  node.lose(0);
  node.receive(2, membership_messages::follow{1, {}});
  node.receive(3, membership_messages::follow{1, {}});
  ASSERT_TRUE(node.part.leads());
  const auto asked = node.out.all<membership_messages::prepare>();
  ASSERT_EQ(asked.size(), 2u);
  EXPECT_EQ(asked[0].second.step, (membership_step{6, 0, 0, {removal_of(4)}}));
  EXPECT_EQ(asked[0].second.suspects.at(0).who.rank, 0u);
  node.all_ready();
  node.all_ready();
  EXPECT_THAT(node.out.events(),
              ElementsAre("fence 4.0", "fence 0.0", "apply 6: -4.0", "apply 7: -0.0"));
}

TEST(membership_election, applies_the_last_step_when_the_one_after_is_asked_for) {  // M11
  one_node node(2, 4, electing);
  node.prepare({removal_of(3)});
  node.receive(1, membership_messages::prepare{1, 1, {7, 1, 1, {removal_of(0)}}, {}});
  EXPECT_THAT(node.out.events(), ElementsAre("fence 3.0", "apply 6: -3.0", "fence 0.0"));
  EXPECT_EQ(node.out.all<membership_messages::ready>().back(),
            (std::pair{1u, membership_messages::ready{1, 7, 1}}));
}

TEST(membership_election, needs_more_than_half_unless_the_leader_has_ended) {  // M12
  one_node alone(1, 2, electing);
  alone.lose(0, loss_kind::ended);
  EXPECT_THAT(alone.out.events(), ElementsAre("fence 0.0", "apply 6: -0.0"));
  one_node cut_off(1, 2, electing);
  cut_off.lose(0, loss_kind::broken);
  EXPECT_THAT(cut_off.out.events(), ElementsAre("ended"));
  EXPECT_EQ(cut_off.out.why.code, errc::peer_lost);
  one_node of_three(1, 3, electing);
  of_three.lose(2, loss_kind::ended);
  of_three.lose(0, loss_kind::ended);
  EXPECT_THAT(of_three.out.events(), ElementsAre("ended"));
}

TEST(membership_election, follows_who_has_lost_the_leader_too) {
  one_node node(2, 4, electing);
  node.receive(1, membership_messages::candidate{1, 0, false});
  // Its own leader lives: that one decides.
  EXPECT_EQ(node.out.all<membership_messages::suspect>().size(), 1u);
  EXPECT_EQ(node.out.all<membership_messages::suspect>()[0].first, 0u);
  node.lose(0);
  EXPECT_EQ(node.out.all<membership_messages::seek>(),
            (std::vector{std::pair{1u, membership_messages::seek{0}}}));
  node.receive(1, membership_messages::candidate{1, 0, false});
  ASSERT_EQ(node.out.all<membership_messages::follow>().size(), 1u);
  EXPECT_EQ(node.out.all<membership_messages::follow>()[0].second.lost.at(0).rank, 0u);
  EXPECT_EQ(node.part.leader(), 1u);
  EXPECT_EQ(node.part.term(), 1u);
}

TEST(membership_election, believes_that_a_process_has_ended) {
  one_node node(2, 4, electing);
  node.receive(1, membership_messages::candidate{1, 0, true});
  EXPECT_EQ(node.out.all<membership_messages::follow>().size(), 1u);
  node.receive(0, membership_messages::fenced{5, "late"});
  EXPECT_THAT(node.out.events(), IsEmpty()) << "nothing comes from the lost leader";
}

TEST(membership_election, prefers_the_lower_of_two_candidates) {  // M12
  one_node node(3, 5, electing);
  node.lose(0);
  node.lose(1);
  node.receive(2, membership_messages::candidate{1, 0, false});
  node.receive(4, membership_messages::candidate{2, 0, false});
  ASSERT_EQ(node.out.all<membership_messages::follow>().size(), 1u);
  EXPECT_EQ(node.part.leader(), 2u);
  // Of a term too low it asks for a higher one.
  one_node other(3, 5, electing);
  other.lose(0);
  other.receive(1, membership_messages::candidate{4, 0, false});
  other.lose(1);
  other.out.forget();
  other.receive(2, membership_messages::candidate{4, 0, false});
  EXPECT_EQ(other.out.all<membership_messages::seek>(),
            (std::vector{std::pair{2u, membership_messages::seek{4}}}));
}

TEST(membership_election, refuses_lower_terms) {  // M10
  one_node node(2, 4, electing);
  node.receive(1, membership_messages::prepare{3, 1, {6, 3, 1, {removal_of(3)}}, {}});
  EXPECT_EQ(node.part.leader(), 1u);
  node.out.forget();
  node.receive(0, membership_messages::prepare{0, 1, {6, 0, 0, {removal_of(1)}}, {}});
  node.receive(0, membership_messages::commit{0, 6, 1});
  EXPECT_THAT(node.out.events(), ElementsAre("fence 3.0"));
  EXPECT_TRUE(node.out.all<membership_messages::ready>().empty());
}

TEST(membership_election, never_connects_again_to_whom_it_has_fenced) {  // M3
  one_node node(3, 5, electing);
  node.prepare({arrival_of(7, 1)});
  node.receive(2, membership_messages::prepare{1, 1, {6, 1, 2, {removal_of(0)}}, {}});
  EXPECT_THAT(node.out.events(), ElementsAre("connect 7.1", "fence 7.1", "fence 0.0"));
  node.out.forget();
  node.receive(1, membership_messages::prepare{2, 2, {6, 0, 0, {arrival_of(7, 1)}}, {}});
  EXPECT_THAT(node.out.events(), IsEmpty());
  const auto suspects = node.out.all<membership_messages::suspect>();
  ASSERT_FALSE(suspects.empty());
  EXPECT_EQ(suspects.back().second.rank, 7u);
}

TEST(membership_election, reports_to_a_new_leader_what_the_old_one_had_received) {  // M6
  one_node node(3, 5, electing);
  node.lose(4, loss_kind::left);
  node.prepare({removal_of(2)});
  node.out.forget();
  node.receive(1, membership_messages::prepare{1, 1, {6, 1, 1, {removal_of(0)}}, {}});
  const auto suspects = node.out.all<membership_messages::suspect>();
  ASSERT_EQ(suspects.size(), 2u);
  EXPECT_EQ(suspects[0], (std::pair{1u, membership_messages::suspect{2, 0, loss_kind::broken,
                                                                     "it was fenced before"}}));
  EXPECT_EQ(suspects[1],
            (std::pair{1u, membership_messages::suspect{4, 0, loss_kind::left, "gone"}}));
  EXPECT_TRUE(std::holds_alternative<membership_messages::ready>(node.out.sent.back().second));
}

TEST(membership_election, ends_in_time) {  // M13
  one_node node(1, 5, {4s, true});
  node.part.tick(node.now);
  node.lose(0);
  for (int i = 0; i < 5; ++i) node.part.tick(node.now += 1s);
  EXPECT_THAT(node.out.events(), ElementsAre("ended"));
  EXPECT_THAT(node.out.why.text, HasSubstr("within 4000 ms"));
}

}  // namespace
}  // namespace troupe::membership_testing
