// What a node keeps of actors that were members of groups.

#include "troupe/actors/groups/process_group/actor_watch.hpp"

#include "tests/actors/groups/group_actors.hpp"
#include "tests/actors/groups/group_testing.hpp"
#include "troupe/actors/groups/process_group/group_service.hpp"
#include "troupe/actors/node/node_core.hpp"

namespace troupe::test {
namespace {

TEST(actor_watch, forgets_actors_that_have_ended) {
  auto nodes = local_nodes(rank_names(1));
  auto& here = nodes[0].core();
  const auto watch = std::make_shared<groups::actor_watch>();
  const auto living = nodes[0].spawn_on<be_a_member>(0);
  const auto watch_over = [&](const group_actor& one) {
    const auto who = caf::actor_cast<caf::strong_actor_ptr>(one);
    watch->watch(groups::home_of(here, who), who);
  };
  watch_over(living);
  for (int i = 0; i < 300; ++i) {
    const auto member = nodes[0].spawn_on<be_a_member>(0);
    watch_over(member);
    EXPECT_THROW(request(member, throw_this{"over"}).get(), error);
  }
  EXPECT_GE(watch->size(), 1u);
  EXPECT_TRUE(eventually([&] {
    watch_over(nodes[0].spawn_on<be_a_member>(0));
    return watch->size() < 130;
  }));
}

}  // namespace
}  // namespace troupe::test
