// Transports that a program registers by name, with options of their own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <troupe/transport.hpp>

#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include "tests/transport/conformance/conformance_node.hpp"
#include "troupe/transport/loopback/loopback.hpp"

namespace troupe::transport::test {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

/// Takes a name back at the end of a test.
class registered {
public:
  registered(std::string name, transport_factory factory) : name_(std::move(name)) {
    register_transport(name_, std::move(factory));
  }
  ~registered() { unregister_transport(name_); }
  registered(const registered&) = delete;
  registered& operator=(const registered&) = delete;

private:
  const std::string name_;
};

/// A transport as a program outside of Troupe could have one: memory of the process, whose routes
/// name its option "label".
class labelled_transport final : public transport {
public:
  labelled_transport(std::unique_ptr<transport> base, std::string label)
      : base_(std::move(base)), label_(std::move(label)) {}

  std::vector<std::byte> address() const override { return base_->address(); }
  void add_peer(rank_t peer, std::span<const std::byte> address) override {
    base_->add_peer(peer, address);
  }
  bool send(rank_t peer, std::uint64_t order, frame&& envelope,
            std::vector<outgoing_payload>&& payloads) override {
    return base_->send(peer, order, std::move(envelope), std::move(payloads));
  }
  unsigned progress() override { return base_->progress(); }
  int event_fd() const override { return base_->event_fd(); }
  bool arm() override { return base_->arm(); }
  void wake() override { base_->wake(); }
  bool idle() const override { return base_->idle(); }
  void close_peer(rank_t peer, bool force) override { base_->close_peer(peer, force); }
  std::vector<route> routes() const override {
    auto out = base_->routes();
    for (auto& one : out) one.backend = label_;
    return out;
  }
  counters count() const override { return base_->count(); }

private:
  const std::unique_ptr<transport> base_;
  const std::string label_;
};

/// Knows one option.
transport_factory labelled(std::shared_ptr<loopback_network> network) {
  return [network = std::move(network)](const transport_request& request) {
    std::string label = "memory";
    for (const auto& [name, value] : request.options) {
      if (name != "label") throw invalid_argument("there is no option '" + name + "'");
      label = value;
    }
    auto base = make_loopback_transport(network, request.rank, request.to, request.pool);
    return std::make_unique<labelled_transport>(std::move(base), label);
  };
}

std::unique_ptr<node> make(const std::string& name, rank_t rank, const job_secret& secret,
                           const transport_options& options) {
  auto n = std::make_unique<node>();
  n->net = make_transport(name, {.rank = rank,
                                 .world_size = 2,
                                 .secret = secret,
                                 .options = options,
                                 .to = n->received,
                                 .pool = n->pool});
  return n;
}

template <class F>
std::string refusal(F&& f) {
  try {
    f();
    return "";
  } catch (const invalid_argument& e) {
    return e.what();
  }
}

std::unique_ptr<transport> none(const transport_request&) { return nullptr; }

TEST(transport_registry, is_made_by_name_with_its_options) {
  const registered kind("labelled", labelled(std::make_shared<loopback_network>()));
  const job_secret secret;
  auto a = make("labelled", 0, secret, {{"label", "ours"}});
  auto b = make("labelled", 1, secret, {});
  a->net->add_peer(1, b->net->address());
  b->net->add_peer(0, a->net->address());
  EXPECT_EQ(a->net->routes().at(0).backend, "ours");
  EXPECT_EQ(b->net->routes().at(0).backend, "memory");
  a->net->send(1, 1, patterned_frame(100, 7));
  ASSERT_TRUE(run_until([&] { return !b->received.messages.empty(); }, 100s, *a, *b));
  EXPECT_EQ(b->received.messages[0].envelope.size(), 100u);
  EXPECT_THAT(refusal([&] {
                make("labelled", 2, secret, {{"colour", "red"}});
              }),
              HasSubstr("there is no option 'colour'"));
}

TEST(transport_registry, factories_get_what_the_job_is_about) {
  const job_secret secret;
  const transport_options options{{"a", "1"}};
  recorder to;
  counting_pool pool;
  bool called = false;
  const registered kind("curious", [&](const transport_request& request) {
    called = true;
    EXPECT_EQ(request.rank, 3u);
    EXPECT_EQ(request.world_size, 8u);
    EXPECT_EQ(request.secret, secret);
    EXPECT_TRUE(request.trusted_network);
    EXPECT_FALSE(request.one_host);
    EXPECT_EQ(request.keepalive, 700ms);
    EXPECT_EQ(&request.options, &options);
    EXPECT_EQ(&request.to, &to);
    EXPECT_EQ(&request.pool, &pool);
    return make_loopback_transport(std::make_shared<loopback_network>(), request.rank, request.to,
                                   request.pool);
  });
  EXPECT_TRUE(make_transport("curious", {3, 8, secret, true, false, 700ms, options, to, pool}));
  EXPECT_TRUE(called);
}

TEST(transport_registry, names_are_checked) {
  for (const std::string name : {"", "Mine", "1st", "my transport", "my/own", "-x"})
    EXPECT_THAT(refusal([&] { register_transport(name, none); }),
                HasSubstr("cannot be the name of a transport"))
        << name;
  for (const std::string name : {"ucx", "ucx_tcp", "tcp", "loopback", "virtual"})
    EXPECT_THAT(refusal([&] { register_transport(name, none); }), HasSubstr("is Troupe's own"));
  EXPECT_THAT(refusal([] { register_transport("empty", {}); }), HasSubstr("an empty function"));
  const registered kind("my-own_2", none);
  EXPECT_THAT(refusal([] { register_transport("my-own_2", none); }),
              HasSubstr("is registered already"));
}

TEST(transport_registry, is_found_until_it_is_unregistered) {
  EXPECT_FALSE(find_transport("mine"));
  register_transport("mine", none);
  register_transport("another", none);
  EXPECT_TRUE(find_transport("mine"));
  EXPECT_THAT(transport_names(), ElementsAre("another", "mine"));
  EXPECT_TRUE(unregister_transport("mine"));
  EXPECT_FALSE(unregister_transport("mine"));
  EXPECT_FALSE(find_transport("mine"));
  const job_secret secret;
  EXPECT_THAT(refusal([&] { make("mine", 0, secret, {}); }),
              HasSubstr("no transport 'mine' is registered in this process (there is: another)"));
  EXPECT_THROW(make("another", 0, secret, {}), transport_error);  // its factory makes none
  EXPECT_TRUE(unregister_transport("another"));
  EXPECT_THAT(refusal([&] { make("mine", 0, secret, {}); }), HasSubstr("(there is: none)"));
}

TEST(transport_registry, a_factory_may_register_others) {
  const registered outer("outer", [](const transport_request& request) {
    const registered inner("inner", none);
    EXPECT_TRUE(find_transport("inner"));
    return make_loopback_transport(std::make_shared<loopback_network>(), request.rank, request.to,
                                   request.pool);
  });
  const job_secret secret;
  EXPECT_TRUE(make("outer", 0, secret, {})->net);
  EXPECT_FALSE(find_transport("inner"));
}

TEST(transport_registry, threads_register_and_look_up_at_the_same_time) {
  const registered shared("shared", none);
  std::atomic<int> found{0};
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&found, name = "thread-" + std::to_string(t)] {
      for (int i = 0; i < 1000; ++i) {
        register_transport(name, none);
        if (find_transport("shared") && find_transport(name)) ++found;
        unregister_transport(name);
      }
    });
  threads.clear();
  EXPECT_EQ(found, 4000);
  EXPECT_THAT(transport_names(), ElementsAre("shared"));
}

}  // namespace
}  // namespace troupe::transport::test
