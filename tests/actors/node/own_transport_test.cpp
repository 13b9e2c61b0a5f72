// A job of nodes over a transport that the program has registered.
#include <gmock/gmock.h>
#include <troupe/store.hpp>
#include <troupe/transport.hpp>

#include "tests/actors/node/job.hpp"
#include "tests/actors/node/rank_functions.hpp"
#include "troupe/transport/loopback/loopback.hpp"

namespace troupe::test {
namespace {

using testing::HasSubstr;

/// Memory of this process, by a name and with an option of its own. Registered while it lives.
class own_transport {
public:
  own_transport() {
    register_transport("own-memory", [this](const transport_request& request) {
      for (const auto& [name, value] : request.options) {
        if (name != "lanes") throw invalid_argument("own-memory has no option '" + name + "'");
        lanes_ += std::stoi(value);
      }
      ++made_;
      return transport::make_loopback_transport(network_, request.rank, request.to, request.pool);
    });
  }
  ~own_transport() { unregister_transport("own-memory"); }
  own_transport(const own_transport&) = delete;
  own_transport& operator=(const own_transport&) = delete;

  int made() const { return made_; }
  int lanes() const { return lanes_; }

private:
  const std::shared_ptr<transport::loopback_network> network_ =
      std::make_shared<transport::loopback_network>();
  std::atomic<int> made_{0}, lanes_{0};
};

/// A place for founders to meet, by a scheme that lives as long.
class meeting_place {
public:
  meeting_place() {
    register_rendezvous_handler("own-transport-test",
                                [keys = std::make_shared<hash_store>()](const rendezvous_request&) {
                                  return rendezvous_answer{.place = keys};
                                });
  }
  ~meeting_place() { unregister_rendezvous_handler("own-transport-test"); }
};

std::future<node> join(std::uint32_t rank, rpc_options options) {
  options.init_method = "own-transport-test://";
  options.world_size = 2;
  options.init_timeout = patience;
  options.rank = rank;
  return std::async(std::launch::async, [options] { return init_rpc(options); });
}

TEST(own_transport, carries_a_job_with_its_own_options) {
  const own_transport registered;
  const meeting_place place;
  rpc_options options;
  options.transport_name = "own-memory";
  options.transport_options = {{"lanes", "3"}};
  auto first = join(0, options), second = join(1, options);
  std::vector<node> nodes{first.get(), second.get()};
  EXPECT_EQ(registered.made(), 2);
  EXPECT_EQ(registered.lanes(), 6);
  EXPECT_EQ(nodes[0].rpc_sync<&plus_one>("worker1", 41), 42);
  EXPECT_EQ(nodes[1].rpc_sync<&plus_one>("worker0", 1), 2);
  EXPECT_EQ(nodes[0].routes().at(0).backend, "loopback");
  shut_down(nodes);
}

TEST(own_transport, refuses_options_that_it_does_not_have_for_all_ranks) {
  const own_transport registered;
  const meeting_place place;
  rpc_options options;
  options.transport_name = "own-memory";
  options.transport_options = {{"colour", "red"}};
  auto first = join(0, options), second = join(1, options);
  for (auto* one : {&first, &second}) {
    try {
      one->get();
      ADD_FAILURE() << "it has joined";
    } catch (const error& e) {
      EXPECT_THAT(e.what(), HasSubstr("own-memory has no option 'colour'"));
    }
  }
}

TEST(own_transport, must_be_the_same_on_all_nodes) {
  const own_transport registered;
  register_transport("other-memory", [](const transport_request& request) {
    return transport::make_loopback_transport(std::make_shared<transport::loopback_network>(),
                                              request.rank, request.to, request.pool);
  });
  const meeting_place place;
  rpc_options ours, theirs;
  ours.transport_name = "own-memory";
  theirs.transport_name = "other-memory";
  auto first = join(0, ours), second = join(1, theirs);
  EXPECT_THAT(fault_of<error>([&] { first.get(); }).text, HasSubstr("transport_name"));
  EXPECT_THAT(fault_of<error>([&] { second.get(); }).text, HasSubstr("'other-memory'"));
  unregister_transport("other-memory");
}

TEST(own_transport, must_be_registered) {
  rpc_options options;
  options.transport_name = "none-such";
  EXPECT_THAT(fault_of<invalid_argument>([&] { init_rpc(options); }).text,
              HasSubstr("rpc_options::transport_name is 'none-such'"));
  options.transport_name.clear();
  options.transport_options = {{"lanes", "3"}};
  EXPECT_THAT(fault_of<invalid_argument>([&] { init_rpc(options); }).text,
              HasSubstr("transport_options are for"));
}

}  // namespace
}  // namespace troupe::test
