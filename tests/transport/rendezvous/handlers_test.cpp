// Places to meet at that a program knows by a scheme of its own.
#include "troupe/transport/rendezvous/handlers.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/transport/rendezvous/rendezvous_fixture.hpp"
#include "troupe/transport/rendezvous/join_client.hpp"
#include "troupe/transport/rendezvous/open_store.hpp"
#include "troupe/transport/store/hash_store.hpp"

namespace troupe::transport::test {
namespace {

// A scheme that has a handler for as long as this lives.
class scheme {
public:
  scheme(std::string name, rendezvous_handler handler) : name_(std::move(name)) {
    register_rendezvous_handler(name_, std::move(handler));
  }
  ~scheme() { unregister_rendezvous_handler(name_); }

private:
  std::string name_;
};

std::vector<outcome> meet(crowd& c, std::uint32_t size,
                          const std::function<void(rendezvous_options&)>& change = {}) {
  for (std::uint32_t rank = 0; rank < size; ++rank) c.start(rank, change);
  return c.finish();
}

TEST(handlers, found_a_job_where_they_choose) {
  const auto place = std::make_shared<hash_store>();
  const scheme mine("memory", [&](const rendezvous_request& request) {
    EXPECT_EQ(request.url, "memory://here/there?colour=red&world_size=3");
    EXPECT_EQ(request.scheme, "memory");
    EXPECT_EQ(request.rest, "here/there");
    EXPECT_EQ(request.query, (decltype(request.query){{"colour", "red"}}));
    EXPECT_EQ(request.world_size, 3u);
    EXPECT_FALSE(request.joins_running);
    EXPECT_EQ(request.timeout, wait_limit);
    return rendezvous_answer{.place = place};
  });
  crowd c(3);
  c.method = "memory://here/there?colour=red&world_size=3";
  auto outcomes = meet(c, 3, [](rendezvous_options& o) { o.world_size.reset(); });
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    ASSERT_TRUE(outcomes[rank].joined) << outcomes[rank].error << outcomes[rank].other_error;
    EXPECT_EQ(outcomes[rank].joined->rank, rank);
    EXPECT_EQ(outcomes[rank].joined->world_size, 3u);
  }
  outcomes[1].joined->store->set("k", "1");
  EXPECT_EQ(to_text(outcomes[2].joined->store->get("k", wait_limit)), "1");
  EXPECT_GT(place->num_keys(), 0u);
  close_all(outcomes);
}

TEST(handlers, may_give_out_the_ranks) {
  const auto place = std::make_shared<hash_store>();
  const scheme mine("lottery", [&](const rendezvous_request&) {
    return rendezvous_answer{.place = place,
                             .rank = static_cast<std::uint32_t>(place->add("ranks", 1) - 1),
                             .world_size = 3};
  });
  crowd c(3);
  c.method = "lottery://";
  auto outcomes = meet(c, 3, [](rendezvous_options& o) {
    o.rank = 7;  // the handler knows better
    o.world_size.reset();
  });
  std::vector<bool> seen(3);
  for (auto& o : outcomes) {
    ASSERT_TRUE(o.joined) << o.error << o.other_error;
    seen.at(o.joined->rank) = true;
  }
  EXPECT_EQ(seen, std::vector<bool>(3, true));
  close_all(outcomes);
}

TEST(handlers, are_asked_for_joiners_too) {
  const auto place = std::make_shared<hash_store>();
  std::optional<bool> joiner;
  const scheme mine("memory", [&](const rendezvous_request& request) {
    joiner = request.joins_running;
    return rendezvous_answer{.place = place};
  });
  rendezvous_options options;
  options.init_method = "memory://";
  options.timeout = 100ms;
  options.variables = variables({});
  const auto message = text_of<rendezvous_error>(
      [&] { join_job(options, [](std::uint32_t, const job_secret&) { return store::bytes(); }); });
  EXPECT_CONTAINS(message, "for a job to meet here");
  EXPECT_EQ(joiner, true);
  EXPECT_FALSE(joiner_meets_on_this_host_alone(options));
}

// As where no handler is needed.
TEST(handlers, let_the_others_learn_who_cannot_come) {
  const std::map<std::string, std::shared_ptr<store>> places = {
      {"notified", std::make_shared<hash_store>()}, {"beyond", std::make_shared<hash_store>()}};
  const scheme mine("memory", [&](const rendezvous_request& request) {
    return rendezvous_answer{.place = places.at(request.rest)};
  });
  crowd c(2);
  c.method = "memory://notified";
  c.start(0);
  decline_rendezvous(c.options(1), "max_threads is 0");
  const auto outcome = c.finish()[0];
  EXPECT_CONTAINS(outcome.error, "has invalid options: max_threads is 0");
  EXPECT_LT(outcome.took, soon_enough);

  crowd d(2);
  d.method = "memory://beyond";
  d.start(0);
  d.start(2);
  for (const auto& one : d.finish()) {
    EXPECT_CONTAINS(one.error, "there is no rank 2 in a job of 2 ranks");
    EXPECT_LT(one.took, soon_enough);
  }
}

// A rank that keeps the store and cannot come stays a moment for ranks that come late.
TEST(handlers, let_latecomers_get_the_reason) {
  const auto port = free_port();
  const job_secret secret;
  const auto board = [&](bool serves) {
    return open_tcp_store(
        {.port = port, .serves = serves, .timeout = wait_limit, .secret = secret});
  };
  const auto one_has_left = [&] {
    const auto keys = board(false)->list_keys("troupe/");
    return std::any_of(keys.begin(), keys.end(),
                       [](const std::string& key) { return key.ends_with("/left"); });
  };
  const scheme mine("board", [&](const rendezvous_request& request) {
    if (request.rank != 0u) {
      EXPECT_TRUE(eventually(one_has_left));
    }
    return rendezvous_answer{.place = board(request.rank == 0u)};
  });
  crowd c(2);
  c.method = "board://here";
  c.start(1);
  decline_rendezvous(c.options(0), "max_threads is 0");
  const auto outcome = c.finish()[0];
  EXPECT_CONTAINS(outcome.error, "has invalid options: max_threads is 0");
}

TEST(handlers, fail_as_they_like) {
  const scheme throws("throws", [](const rendezvous_request&) -> rendezvous_answer {
    throw std::runtime_error("the oracle is silent");
  });
  const scheme empty("empty", [](const rendezvous_request&) { return rendezvous_answer{}; });
  crowd c(1);
  c.method = "throws://";
  EXPECT_EQ(meet(c, 1)[0].other_error, "the oracle is silent");
  crowd d(1);
  d.method = "empty://x";
  EXPECT_CONTAINS(meet(d, 1)[0].error, "the handler of empty:// returned no store for 'empty://x'");
  crowd e(1);
  e.method = "unknown://x";
  const auto message = meet(e, 1)[0].error;
  EXPECT_CONTAINS(message, "this kind is unknown");
  EXPECT_CONTAINS(message, "register_rendezvous_handler");
}

TEST(handlers, have_one_scheme_each) {
  const auto handler = [](const rendezvous_request&) { return rendezvous_answer{}; };
  for (const auto* wrong : {"", "Memory", "1st", "a b", "a/b", "a:"})
    EXPECT_CONTAINS(text_of<invalid_argument>([&] { register_rendezvous_handler(wrong, handler); }),
                    "is not a URL scheme");
  for (const auto* taken : {"env", "tcp", "file"})
    EXPECT_CONTAINS(text_of<invalid_argument>([&] { register_rendezvous_handler(taken, handler); }),
                    "without a handler");
  EXPECT_THROW(register_rendezvous_handler("mine", {}), invalid_argument);
  register_rendezvous_handler("etcd+v3.x-1", handler);
  EXPECT_CONTAINS(
      text_of<invalid_argument>([&] { register_rendezvous_handler("etcd+v3.x-1", handler); }),
      "has a handler already");
  EXPECT_TRUE(unregister_rendezvous_handler("etcd+v3.x-1"));
  EXPECT_FALSE(unregister_rendezvous_handler("etcd+v3.x-1"));
}

}  // namespace
}  // namespace troupe::transport::test
