// A job of nodes that meet where the program chooses.
#include <troupe/store.hpp>

#include "tests/actors/node/job.hpp"
#include "tests/actors/node/rank_functions.hpp"

namespace troupe::test {
namespace {

TEST(own_scheme, founds_a_job_of_nodes) {
  const auto place = std::make_shared<hash_store>();
  register_rendezvous_handler("own-scheme-test", [&](const rendezvous_request& request) {
    EXPECT_EQ(request.rest, "place");
    return rendezvous_answer{.place = place};
  });
  rpc_options options;
  options.init_method = "own-scheme-test://place";
  options.world_size = 2;
  options.init_timeout = time_limit;
  std::vector<std::future<node>> joining;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    options.rank = rank;
    joining.push_back(std::async(std::launch::async, [options] { return init_rpc(options); }));
  }
  std::vector<node> nodes;
  for (auto& one : joining) nodes.push_back(one.get());
  EXPECT_TRUE(unregister_rendezvous_handler("own-scheme-test"));
  EXPECT_EQ(nodes[0].rpc_sync<&plus_one>("worker1", 41), 42);
  EXPECT_EQ(nodes[1].rpc_sync<&plus_one>("worker0", 1), 2);
  EXPECT_GT(place->num_keys(), 0u);
  shut_down(nodes);
}

}  // namespace
}  // namespace troupe::test
