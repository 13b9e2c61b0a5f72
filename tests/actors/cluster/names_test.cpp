// Nodes that go by several names.

#include "tests/actors/node/job.hpp"

namespace troupe::test {
namespace {

class names : public on_networks {};
TROUPE_ON_NETWORKS(names);

std::string own_name() { return this_node().name(); }

TEST_P(names, a_node_is_found_by_each_of_its_own) {
  auto nodes = start({"a,ps,eval-1", "b"});
  EXPECT_EQ(nodes[0].name(), "a");
  for (const char* name : {"a", "ps", "eval-1"}) {
    EXPECT_EQ(nodes[1].rpc_sync<&own_name>(name), "a") << name;
    EXPECT_EQ(nodes[0].rpc_sync<&own_name>(name), "a") << name;
    EXPECT_EQ(nodes[1].get_worker_info(name).id, 0u);
    EXPECT_EQ(nodes[1].get_worker_info(name).name, "a");
  }
  EXPECT_EQ(nodes[1].workers().size(), 2u);
  EXPECT_THROW(nodes[1].get_worker_info("a,ps"), unknown_worker);
  EXPECT_EQ(nodes[1].remote<&own_name>("ps").owner_name(), "a");
  shut_down(nodes);
}

TEST(names_of_nodes, are_given_as_aliases) {
  const temporary_folder folder;
  std::vector<node> nodes;
  std::vector<std::future<node>> joining;
  for (std::uint32_t rank = 0; rank < 2; ++rank)
    joining.push_back(std::async(std::launch::async, [&, rank] {
      rpc_options options;
      options.rank = rank;
      options.world_size = 2;
      options.init_method = "file://" + (folder.path() / "meet").string();
      if (rank == 0) options.aliases = {"ps"};  // beside worker0
      return init_rpc(options);
    }));
  for (auto& one : joining) nodes.push_back(one.get());
  EXPECT_EQ(nodes[1].rpc_sync<&own_name>("ps"), "worker0");
  EXPECT_EQ(nodes[1].rpc_sync<&own_name>("worker0"), "worker0");
  shut_down(nodes);
}

TEST(names_of_nodes, that_two_have_are_refused) {
  EXPECT_THAT(fault_of<invalid_argument>([] {
                local_nodes({"a,ps", "b,ps"});
              }).text,
              testing::HasSubstr("two workers are called 'ps'"));
  EXPECT_THROW(local_nodes({"a,a"}), invalid_argument);
  EXPECT_THROW(local_nodes({"a,"}), invalid_argument);
  EXPECT_THROW(local_nodes({"a,b c"}), invalid_argument);
}

}  // namespace
}  // namespace troupe::test
