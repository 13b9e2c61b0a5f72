// The join service and joiners, without a node: this test decides who is admitted.
#include "troupe/transport/rendezvous/join_service.hpp"

#include <spdlog/sinks/ostream_sink.h>

#include <atomic>
#include <set>
#include <sstream>

#include "tests/transport/rendezvous/rendezvous_fixture.hpp"
#include "troupe/messages/base/log.hpp"
#include "troupe/transport/rendezvous/join_client.hpp"
#include "troupe/transport/rendezvous/rendezvous_session.hpp"
#include "troupe/transport/store/hash_store.hpp"

namespace troupe::transport::test {
namespace {

std::vector<std::byte> address_of(std::uint32_t rank) {
  return to_bytes("joiner " + std::to_string(rank));
}

/// A node with nothing but a join handler.
class test_join_handler : public join_handler {
public:
  std::uint32_t reserve_rank(std::optional<std::uint32_t> wanted) override {
    if (wanted && *wanted > 1000) throw rendezvous_error("no such rank");
    return wanted ? *wanted : next_++;
  }

  void let_in(std::uint32_t rank, const std::string& name, store::bytes&& address,
              std::function<void(join_reply&&)> then) override {
    if (silent) {
      ++waiting;
      return;
    }
    if (name == "unwanted") {
      then({"it is unwanted", rank, 0, {}});
      return;
    }
    then({"", rank, 99, to_bytes(name + " at " + to_text(address))});
  }

  std::atomic<bool> silent{false};
  std::atomic<int> waiting{0};

private:
  std::uint32_t next_ = 1;
};

class join_service_test : public testing::Test {
protected:
  join_service_test() {
    auto founder = options();
    founder.rank = 0;
    founder.world_size = 1;
    founder.dynamic = true;
    job_ = rendezvous(place_, founder, address_by_rank);
  }

  void open() { service_.emplace(job_.session->keys(), "default", node_); }

  rendezvous_options options(std::string name = "",
                             std::chrono::milliseconds timeout = wait_limit) {
    rendezvous_options out;
    out.name = std::move(name);
    out.timeout = timeout;
    out.variables = variables({});
    return out;
  }

  join_result enter(const rendezvous_options& how) {
    return join_job(place_, how,
                    [](std::uint32_t rank, const job_secret&) { return address_of(rank); });
  }

  std::string refusal(const rendezvous_options& how) {
    try {
      enter(how);
      return "it was admitted";
    } catch (const rendezvous_error& e) {
      return e.what();
    }
  }

  const std::shared_ptr<store> place_ = std::make_shared<hash_store>();
  roster job_;
  test_join_handler node_;
  std::optional<join_service> service_;
};

TEST_F(join_service_test, admits_joiners) {
  open();
  const auto first = enter(options("first"));
  EXPECT_EQ(first.rank, 1u);
  EXPECT_EQ(first.job_id, 99u);
  EXPECT_EQ(to_text(first.welcome), "first at joiner 1");
  const auto second = enter(options());
  EXPECT_EQ(to_text(second.welcome), "worker2 at joiner 2");
  auto third = options("third");
  third.rank = 7;
  EXPECT_EQ(enter(third).rank, 7u);
}

TEST_F(join_service_test, joiners_and_rank_0_log_which_secret_it_is) {
  std::ostringstream text;
  const auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(text);
  log().sinks().push_back(sink);
  open();
  enter(options("one"));
  const job_secret secret;
  auto founder = options();
  founder.rank = 0;
  founder.world_size = 1;
  founder.variables = variables({{"TROUPE_JOB_SECRET", secret.hex()}});
  auto other = rendezvous(std::make_shared<hash_store>(), founder, address_by_rank);
  other.close();
  log().sinks().pop_back();
  EXPECT_CONTAINS(text.str(), "which is kept in the program's store");
  EXPECT_CONTAINS(text.str(), "the secret is the one in TROUPE_JOB_SECRET");
  EXPECT_EQ(text.str().find(secret.hex()), std::string::npos);
}

TEST_F(join_service_test, is_waited_for) {
  auto early = std::async(std::launch::async, [&] { return enter(options("early")); });
  EXPECT_EQ(early.wait_for(50ms), std::future_status::timeout);
  open();
  EXPECT_EQ(early.get().rank, 1u);
}

TEST_F(join_service_test, refuses_with_a_reason) {
  open();
  EXPECT_NE(refusal(options("unwanted")).find("it is unwanted"), std::string::npos);
  EXPECT_NE(refusal(options("two words")).find("must match"), std::string::npos);
  auto far = options("far");
  far.rank = 1001;
  EXPECT_NE(refusal(far).find("no such rank"), std::string::npos);
  EXPECT_EQ(enter(options("next")).rank, 2u);  // "unwanted" was given 1
}

TEST_F(join_service_test, serves_many_at_once) {
  open();
  std::vector<std::future<join_result>> coming;
  for (int i = 0; i < 16; ++i)
    coming.push_back(std::async(std::launch::async, [&] { return enter(options()); }));
  std::set<std::uint32_t> ranks;
  for (auto& one : coming) {
    const auto in = one.get();
    EXPECT_EQ(to_text(in.welcome),
              "worker" + std::to_string(in.rank) + " at joiner " + std::to_string(in.rank));
    ranks.insert(in.rank);
  }
  EXPECT_EQ(ranks.size(), 16u);
}

TEST_F(join_service_test, is_not_held_up_by_joiners_that_stop_half_way_or_write_nonsense) {
  open();
  join_mailbox mailbox(job_.session->keys());
  mailbox.post({.what = join_message::kind::request, .visit = 1, .name = "gone", .writer = "x"});
  mailbox.post({.what = join_message::kind::address, .visit = 2, .writer = "x"});
  for (int i = 1; i < 8; ++i)
    job_.session->keys()->compare_set("join/" + std::to_string(i), {}, to_bytes("nonsense"));
  EXPECT_EQ(enter(options("late")).rank, 2u);  // "gone" was given 1
}

TEST_F(join_service_test, reports_that_the_job_is_over) {
  open();
  node_.silent = true;
  auto waiting = std::async(std::launch::async, [&] { return refusal(options("late")); });
  while (node_.waiting == 0) std::this_thread::yield();
  service_.reset();
  EXPECT_NE(waiting.get().find("job 'default' is over"), std::string::npos);
  EXPECT_NE(refusal(options("later")).find("job 'default' is over"), std::string::npos);
}

// As when no connection to the store can be made any more.
TEST_F(join_service_test, ends_also_if_its_mailbox_cannot_be_closed) {
  open();
  job_.session->keys()->set("join/next", "nonsense");  // nobody can add an entry
  const auto start = std::chrono::steady_clock::now();
  service_.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - start, wait_limit);
}

TEST_F(join_service_test, names_what_it_waited_for) {
  const auto closed = refusal(options("early", 100ms));
  EXPECT_NE(closed.find("has waited 0.1 s for the job to come together"), std::string::npos);
  open();
  node_.silent = true;
  const auto unanswered = refusal(options("patient", 1s));
  EXPECT_NE(unanswered.find("joiner 'patient' has waited 1 s to be admitted"), std::string::npos)
      << unanswered;
  node_.silent = false;
  EXPECT_NO_THROW(enter(options("next")));  // the service no longer waits for "patient"
}

TEST_F(join_service_test, passes_on_what_the_transport_throws) {
  open();
  EXPECT_THROW(join_job(place_, options("broken"),
                        [](std::uint32_t, const job_secret&) -> std::vector<std::byte> {
                          throw transport_error("no network");
                        }),
               transport_error);
}

TEST_F(join_service_test, is_not_there_in_a_job_with_fixed_members) {
  auto founder = options();
  founder.rank = 0;
  founder.world_size = 1;
  const auto elsewhere = std::make_shared<hash_store>();
  auto fixed = rendezvous(elsewhere, founder, address_by_rank);
  try {
    join_job(elsewhere, options("late"),
             [](std::uint32_t rank, const job_secret&) { return address_of(rank); });
    FAIL() << "it was admitted";
  } catch (const rendezvous_error& e) {
    EXPECT_NE(std::string(e.what()).find("mixes statically and dynamically initialized members"),
              std::string::npos)
        << e.what();
  }
}

TEST(rendezvous_of_dynamic_jobs, requires_all_ranks_to_ask_for_it) {
  crowd ranks(2);
  ranks.start(0, [](rendezvous_options& o) { o.dynamic = true; });
  ranks.start(1);
  for (const auto& end : ranks.finish()) {
    EXPECT_NE(end.error.find("mixes statically and dynamically initialized members"),
              std::string::npos)
        << end.error;
    EXPECT_LT(end.took, soon_enough);
  }
}

TEST(rendezvous_session, does_not_wait_for_leave_notices_of_the_dead) {
  crowd ranks(2);
  ranks.start(0);
  ranks.start(1);
  auto all = ranks.finish();
  ASSERT_TRUE(all[0].joined && all[1].joined);
  const auto start = std::chrono::steady_clock::now();
  const std::uint32_t dead = 1;
  all[0].joined->close(wait_limit, std::span(&dead, 1));
  EXPECT_LT(std::chrono::steady_clock::now() - start, soon_enough);
}

}  // namespace
}  // namespace troupe::transport::test
