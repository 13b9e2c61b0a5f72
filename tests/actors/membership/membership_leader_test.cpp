// The leader's half: docs/membership.md has the rules.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/actors/membership/membership_testing.hpp"

namespace troupe::membership_testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

fault fault_in(const std::variant<member, fault>& answer) {
  const auto* why = std::get_if<fault>(&answer);
  EXPECT_TRUE(why) << "it was admitted";
  return why ? *why : fault{};
}

TEST(membership_leader, drops_a_lost_member_only_when_all_others_have_fenced_it) {  // M3, M4
  one_node leader(0, 4);
  leader.lose(2);
  EXPECT_THAT(leader.out.events(), ElementsAre("fence 2.0"));
  const auto asked = leader.out.all<membership_messages::prepare>();
  ASSERT_EQ(asked.size(), 2u);
  EXPECT_EQ(asked[0].first, 1u);
  EXPECT_EQ(asked[1].first, 3u);
  EXPECT_EQ(asked[0].second.step.epoch, 6u);
  leader.receive(1, membership_messages::ready{0, 6, 1});
  leader.receive(1, membership_messages::ready{0, 6, 1});
  EXPECT_THAT(leader.out.events(), IsEmpty());
  leader.receive(3, membership_messages::ready{0, 6, 1});
  EXPECT_THAT(leader.out.events(), ElementsAre("apply 6: -2.0"));
  EXPECT_EQ(leader.out.all<membership_messages::commit>().size(), 2u);
  EXPECT_EQ(leader.part.view().epoch, 6u);
  EXPECT_EQ(leader.part.view().gone.at(2), 0u);
}

TEST(membership_leader, asks_anew_when_another_is_lost_meanwhile) {  // M4
  one_node leader(0, 5);
  leader.lose(2);
  leader.receive(1, membership_messages::ready{0, 6, 1});
  leader.receive(3, membership_messages::ready{0, 6, 1});
  leader.lose(4);
  leader.receive(1, membership_messages::ready{0, 6, 1});
  leader.receive(3, membership_messages::ready{0, 6, 1});
  EXPECT_THAT(leader.out.events(), ElementsAre("fence 2.0", "fence 4.0"));
  leader.receive(1, membership_messages::ready{0, 6, 2});
  leader.receive(3, membership_messages::ready{0, 6, 2});
  EXPECT_THAT(leader.out.events(), ElementsAre("apply 6: -2.0 -4.0"));
}

TEST(membership_leader, takes_the_first_suspicion_of_a_pair) {  // M6
  one_node leader(0, 4);
  leader.receive(1, membership_messages::suspect{2, 0, loss_kind::broken, "cut"});
  leader.receive(2, membership_messages::suspect{1, 0, loss_kind::broken, "cut"});
  leader.receive(3, membership_messages::suspect{2, 0, loss_kind::ended, "ended"});
  EXPECT_THAT(leader.out.events(), ElementsAre("fence 2.0"));
  EXPECT_EQ(leader.out.all<membership_messages::prepare>().size(), 2u);
  const auto notices = leader.out.all<membership_messages::fenced>();  // M7
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_EQ(notices[0].first, 2u);
  EXPECT_EQ(notices[0].second.cause, "cut (as rank 1 ('n1') has found)");
}

TEST(membership_leader, ignores_suspicions_of_strangers_itself_and_other_incarnations) {  // M6
  one_node leader(0, 3);
  leader.receive(1, membership_messages::suspect{2, 1, loss_kind::broken, ""});
  leader.receive(1, membership_messages::suspect{0, 0, loss_kind::broken, ""});
  leader.receive(1, membership_messages::suspect{9, 0, loss_kind::broken, ""});
  leader.receive(9, membership_messages::suspect{2, 0, loss_kind::broken, ""});
  leader.lose(2, loss_kind::ended, 7);
  EXPECT_THAT(leader.out.events(), IsEmpty());
  EXPECT_TRUE(leader.out.sent.empty());
}

TEST(membership_leader, sends_leave_notices_after_the_commit) {  // M8
  one_node leader(0, 3);
  leader.receive(2, membership_messages::leave{});
  leader.receive(2, membership_messages::leave{});
  leader.receive(1, membership_messages::ready{0, 6, 1});
  EXPECT_THAT(leader.out.events(), IsEmpty());
  EXPECT_TRUE(leader.out.all<membership_messages::leave_notice>().empty());
  // It has lost the leaver, as it should have.
  leader.receive(1, membership_messages::suspect{2, 0, loss_kind::left, ""});
  leader.receive(2, membership_messages::suspect{1, 0, loss_kind::left, ""});
  leader.receive(2, membership_messages::ready{0, 6, 1});
  EXPECT_THAT(leader.out.events(), ElementsAre("fence 2.0", "apply 6: -2.0"));
  ASSERT_EQ(leader.out.all<membership_messages::leave_notice>().size(), 1u);
  EXPECT_EQ(leader.out.all<membership_messages::leave_notice>()[0].first, 2u);
  EXPECT_EQ(leader.out.all<membership_messages::prepare>()[0].second.step.changes,
            std::vector{removal_of(2, change_kind::left)});
}

TEST(membership_leader, does_not_wait_for_a_leaver_that_dies) {  // M8
  one_node leader(0, 3);
  leader.receive(2, membership_messages::leave{});
  leader.lose(2);
  EXPECT_THAT(leader.out.events(), ElementsAre("fence 2.0"));
  leader.out.forget();
  leader.receive(1, membership_messages::ready{0, 6, 2});
  EXPECT_THAT(leader.out.events(), ElementsAre("apply 6: -2.0"));
}

TEST(membership_leader, leaves_last) {  // M8
  one_node leader(0, 2);
  const auto why = leader.part.leave(leader.now);
  ASSERT_TRUE(why);
  EXPECT_EQ(why->code, errc::invalid_argument);
  EXPECT_THAT(why->text, HasSubstr("rank 0 ('n0')"));
  leader.lose(1);
  EXPECT_FALSE(leader.part.leave(leader.now));
  EXPECT_THAT(leader.out.events(), ElementsAre("fence 1.0", "apply 6: -1.0", "left"));
}

TEST(membership_leader, welcomes_a_joiner_when_all_are_connected_to_it) {  // M5
  one_node leader(0, 3);
  const auto answer = leader.admit("new");
  ASSERT_TRUE(std::holds_alternative<member>(answer));
  EXPECT_EQ(std::get<member>(answer).rank, 3u);
  EXPECT_EQ(std::get<member>(answer).incarnation, 1u);
  EXPECT_THAT(leader.out.events(), ElementsAre("connect 3.1"));
  leader.all_ready();
  EXPECT_THAT(leader.out.events(), ElementsAre("apply 6: +3.1", "welcome 3.1"));
  EXPECT_EQ(leader.part.view().members.at(3).address, std::vector{std::byte(77)});
  // Now it is waited for.
  leader.out.forget();
  leader.lose(1);
  leader.receive(2, membership_messages::ready{0, 7, 1});
  EXPECT_EQ(leader.part.view().epoch, 6u);
  leader.receive(3, membership_messages::ready{0, 7, 1});
  EXPECT_EQ(leader.part.view().epoch, 7u);
}

TEST(membership_leader, refuses_a_joiner_that_is_lost_on_the_way) {
  one_node leader(0, 2);
  leader.admit("new");
  leader.receive(1, membership_messages::suspect{2, 1, loss_kind::broken, "cannot be reached"});
  leader.all_ready();
  EXPECT_THAT(leader.out.events(),
              ElementsAre("connect 2.1", "fence 2.1", "apply 6: +2.1 -2.1", "refuse 2.1"));
  EXPECT_THAT(leader.out.why.text, HasSubstr("cannot be reached"));
}

TEST(membership_leader, batches_what_comes_during_a_step) {  // M4
  one_node leader(0, 3);
  leader.lose(2);
  leader.admit("a");
  leader.admit("b", 2);
  const auto dropped = leader.admit("c");
  leader.part.lost(std::get<member>(dropped).rank, 1, {loss_kind::ended, "gone"}, leader.now);
  EXPECT_THAT(leader.out.events(), ElementsAre("fence 2.0", "refuse 4.1"));
  leader.all_ready();
  leader.all_ready();
  EXPECT_THAT(leader.out.events(), ElementsAre("apply 6: -2.0", "connect 3.1", "connect 2.1",
                                               "apply 7: +3.1 +2.1", "welcome 3.1", "welcome 2.1"));
}

TEST(membership_leader, gives_no_incarnation_twice) {  // M9
  one_node leader(0, 2);
  leader.lose(1);
  for (const std::uint64_t incarnation : {1u, 2u, 3u}) {
    const auto answer = leader.admit("n1", 1);
    ASSERT_TRUE(std::holds_alternative<member>(answer));
    EXPECT_EQ(std::get<member>(answer).incarnation, incarnation);
    leader.lose(1, loss_kind::ended, incarnation);
  }
}

TEST(membership_leader, reports_why_nobody_is_admitted) {
  one_node leader(0, 2);
  auto why = fault_in(leader.admit("new", 1));
  EXPECT_EQ(why.code, errc::rendezvous_error);
  EXPECT_EQ(why.text, "rank 1 ('n1') is alive: nobody else can have its rank");
  why = fault_in(leader.admit("n1"));
  EXPECT_EQ(why.code, errc::rendezvous_error);
  EXPECT_EQ(why.text, "rank 1 ('n1') is alive: nobody else can have its name");
  leader.admit("new", 7);
  EXPECT_THAT(fault_in(leader.admit("other", 7)).text, HasSubstr("about to have this rank"));
  EXPECT_THAT(fault_in(leader.admit("new")).text, HasSubstr("about to have this name"));
  EXPECT_EQ(fault_in(leader.admit("")).code, errc::invalid_argument);
  EXPECT_EQ(fault_in(leader.admit(std::string(256, 'x'))).code, errc::invalid_argument);
  why = fault_in(leader.part.admit({{}, "big", std::vector<std::byte>(70'000)}, leader.now));
  EXPECT_EQ(why.code, errc::invalid_argument);
  EXPECT_THAT(why.text, HasSubstr("'big'"));
  one_node other(1, 2);
  why = fault_in(other.admit("new"));
  EXPECT_EQ(why.code, errc::invalid_argument);
  EXPECT_THAT(why.text, HasSubstr("ask rank 0 ('n0')"));
}

TEST(membership_leader, fences_who_does_not_answer) {  // M13
  one_node leader(0, 3, {4s});
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(leader.part.tick(leader.now), leader.now + 1s);
    leader.now += 1s;
    leader.receive(1, membership_messages::pong{});
  }
  EXPECT_EQ(leader.out.all<membership_messages::ping>().size(), 6u);
  EXPECT_EQ(leader.part.tick(leader.now - 500ms), leader.now) << "early: nothing is due";
  leader.part.tick(leader.now);
  EXPECT_THAT(leader.out.events(), IsEmpty());
  leader.now += 1s;
  leader.part.tick(leader.now);
  EXPECT_THAT(leader.out.events(), ElementsAre("fence 2.0"));
  EXPECT_EQ(leader.out.all<membership_messages::fenced>()[0].second.cause,
            "it has not answered for 4000 ms though its connection lives");
}

TEST(membership_leader, does_not_take_its_own_pause_for_silence) {  // M14
  one_node leader(0, 3, {4s});
  leader.part.tick(leader.now);
  leader.now += 1h;
  leader.part.tick(leader.now);
  EXPECT_THAT(leader.out.events(), IsEmpty());
}

TEST(membership_leader, wants_no_time_without_a_limit) {  // M13
  one_node leader(0, 2);
  EXPECT_EQ(leader.part.tick(leader.now), never);
  EXPECT_TRUE(leader.out.sent.empty());
  one_node fast(0, 2, {100ms});
  EXPECT_EQ(fast.part.tick(fast.now), fast.now + 25ms);
  one_node slow(0, 2, {1h});
  EXPECT_EQ(slow.part.tick(slow.now), slow.now + 5s);
  EXPECT_EQ(slow.part.tick(never), never);
}

TEST(membership_leader, ends_without_a_deciding_set_where_others_may_be_elected) {  // M12
  one_node leader(0, 4, {0s, true});
  leader.lose(3);
  EXPECT_THAT(leader.out.events(), ElementsAre("fence 3.0"));
  leader.lose(2);
  EXPECT_THAT(leader.out.events(), ElementsAre("fence 2.0", "ended"));
  EXPECT_EQ(leader.out.why.code, errc::peer_lost);
  EXPECT_THAT(leader.out.why.text, HasSubstr("2 of 4"));
}

TEST(membership_leader, goes_on_with_half_when_the_others_have_ended) {  // M12
  one_node leader(0, 2, {0s, true});
  leader.lose(1, loss_kind::ended);
  EXPECT_THAT(leader.out.events(), ElementsAre("fence 1.0", "apply 6: -1.0"));
}

}  // namespace
}  // namespace troupe::membership_testing
