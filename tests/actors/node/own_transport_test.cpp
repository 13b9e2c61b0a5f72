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
  options.init_timeout = time_limit;
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

namespace net = transport;  // inside of a transport, `transport` is its base class

/// A transport that throws what is no error of Troupe's when rank 2 is added.
class hasty_transport final : public net::transport {
public:
  explicit hasty_transport(std::unique_ptr<net::transport> inner) : inner_(std::move(inner)) {}

  void add_peer(net::rank_t peer, std::span<const std::byte> address) override {
    if (peer == 2) throw std::out_of_range("hasty: no place for rank 2");
    inner_->add_peer(peer, address);
  }

  std::vector<std::byte> address() const override { return inner_->address(); }
  bool send(net::rank_t peer, std::uint64_t order, frame&& envelope,
            std::vector<net::outgoing_payload>&& payloads) override {
    return inner_->send(peer, order, std::move(envelope), std::move(payloads));
  }
  unsigned progress() override { return inner_->progress(); }
  int event_fd() const override { return inner_->event_fd(); }
  bool arm() override { return inner_->arm(); }
  void wake() override { inner_->wake(); }
  bool idle() const override { return inner_->idle(); }
  bool delivered() const override { return inner_->delivered(); }
  void close_peer(net::rank_t peer, bool force) override { inner_->close_peer(peer, force); }
  std::vector<net::route> routes() const override { return inner_->routes(); }
  net::counters count() const override { return inner_->count(); }

private:
  const std::unique_ptr<net::transport> inner_;
};

TEST(own_transport, that_throws_what_it_likes_does_not_end_the_membership) {
  const auto network = std::make_shared<transport::loopback_network>();
  register_transport("hasty", [network](const transport_request& request) {
    return std::make_unique<hasty_transport>(
        transport::make_loopback_transport(network, request.rank, request.to, request.pool));
  });
  const meeting_place place;
  rpc_options options;
  options.transport_name = "hasty";
  options.admits_joiners = true;
  auto first = join(0, options), second = join(1, options);
  std::vector<node> nodes{first.get(), second.get()};
  auto joiner = options;
  joiner.init_method = "own-transport-test://";
  joiner.joins_running = true;
  joiner.name = "joiner";
  joiner.init_timeout = time_limit;
  EXPECT_THROW(init_rpc(joiner), error);
  // The founders are still notified of losses.
  nodes[1].shutdown(false);
  EXPECT_THROW(nodes[0].rpc_sync<&plus_one>("worker1", 1, timeout(time_limit)), peer_lost);
  nodes[0].shutdown(false);
  unregister_transport("hasty");
}

TEST(own_transport, may_not_use_its_pool_before_it_makes_progress) {
  register_transport("early", [](const transport_request& request) {
    request.pool.allocate(64, {});
    return std::unique_ptr<transport::transport>();
  });
  const meeting_place place;
  rpc_options options;
  options.transport_name = "early";
  auto first = join(0, options), second = join(1, options);
  for (auto* one : {&first, &second})
    EXPECT_THAT(fault_of<error>([&] { one->get(); }).text, HasSubstr("once `progress` is called"));
  unregister_transport("early");
}

}  // namespace
}  // namespace troupe::test
