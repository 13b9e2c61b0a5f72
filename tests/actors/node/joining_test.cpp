// Nodes that join a running job and leave it, over UCX: found by a file or at an address.

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>

#include <atomic>
#include <set>
#include <thread>

#include "tests/actors/node/job.hpp"
#include "tests/actors/node/rank_functions.hpp"
#include "tests/actors/remote/counter.hpp"
#include "tests/free_port.hpp"
#include "tests/rank_process.hpp"

namespace troupe::test {

namespace {

/// The changes that a node's watcher has been notified of.
class history {
public:
  explicit history(const node& whose) { whose.watch_members(whose.spawn(listen, record_)); }

  std::vector<std::string> events() const {
    const std::lock_guard lock(record_->mutex);
    return record_->events;
  }

  /// Notified of all of this, and of nothing else?
  bool becomes(const std::vector<std::string>& expected) const {
    return eventually([&] { return events().size() >= expected.size(); }) && events() == expected;
  }

private:
  struct record {
    std::mutex mutex;
    std::vector<std::string> events;
  };

  static member_watcher::behavior_type listen(member_watcher::pointer,
                                              const std::shared_ptr<record>& into) {
    return {[into](const member_event& event) {
      static const char* const names[] = {"joined", "left", "died"};
      const std::lock_guard lock(into->mutex);
      into->events.push_back(std::to_string(event.epoch) + ": " + event.who.name + " " +
                             names[static_cast<int>(event.what)]);
    }};
  }

  const std::shared_ptr<record> record_ = std::make_shared<record>();
};

class joining : public testing::TestWithParam<const char*> {
protected:
  joining()
      : method_(GetParam() == std::string("file")
                    ? "file://" + (folder_.path() / "meet").string()
                    : "tcp://127.0.0.1:" + std::to_string(free_port())) {}

  node found(bool dynamic = true) {
    rpc_options options;
    options.init_method = method_;
    options.rank = 0;
    options.world_size = 1;
    options.admits_joiners = dynamic;
    return init_rpc(options);
  }

  rpc_options joiner(const std::string& name) {
    rpc_options options;
    options.init_method = method_;
    options.name = name;
    options.joins_running = true;
    options.init_timeout = time_limit;
    return options;
  }

  node join(const std::string& name) { return init_rpc(joiner(name)); }

  std::string refusal(const rpc_options& options) {
    return fault_of<rendezvous_error>([&] { init_rpc(options); }).text;
  }

  static void call_all_pairs(const std::vector<node>& nodes) {
    for (const auto& from : nodes)
      for (const auto& to : nodes)
        EXPECT_EQ(from.rpc_sync<&plus_one>(to.name(), 41), 42) << from.name() << " " << to.name();
  }

  static bool all_see(const std::vector<node>& nodes, std::uint32_t epoch) {
    return eventually([&] {
      return std::all_of(nodes.begin(), nodes.end(), [&](const node& one) {
        return one.epoch() == epoch && one.world_size() == nodes.size();
      });
    });
  }

  temporary_folder folder_;
  std::string method_;
};

TEST_P(joining, three_come_and_one_leaves) {
  std::vector<node> nodes{found()};
  std::vector<history> seen;
  seen.emplace_back(nodes[0]);
  for (const auto* name : {"a", "b", "c"}) {
    nodes.push_back(join(name));
    seen.emplace_back(nodes.back());
    EXPECT_EQ(nodes.back().rank(), nodes.size() - 1);
    EXPECT_EQ(nodes.back().name(), name);
    EXPECT_EQ(nodes.back().world_size(), nodes.size());
  }
  ASSERT_TRUE(all_see(nodes, 3));
  call_all_pairs(nodes);

  nodes[2].leave(time_limit);
  EXPECT_FALSE(nodes[2].in_job());
  nodes.erase(nodes.begin() + 2);
  ASSERT_TRUE(all_see(nodes, 4));
  call_all_pairs(nodes);
  EXPECT_THROW(nodes[1].rpc_sync<&plus_one>("b", 1), peer_lost);
  EXPECT_TRUE(seen[0].becomes({"1: a joined", "2: b joined", "3: c joined", "4: b left"}));
  EXPECT_TRUE(seen[1].becomes({"2: b joined", "3: c joined", "4: b left"}));
  EXPECT_TRUE(seen[3].becomes({"4: b left"}));

  // Its name is free again, its rank is another's if nobody asks for it.
  nodes.push_back(join("b"));
  EXPECT_EQ(nodes.back().rank(), 4u);
  auto again = joiner("d");
  again.rank = 2;
  nodes.push_back(init_rpc(again));
  EXPECT_EQ(nodes.back().rank(), 2u);
  ASSERT_TRUE(all_see(nodes, 6));
  call_all_pairs(nodes);
  shut_down(nodes);
}

// What is sent right after a change waits at a receiver that has yet to apply it.
TEST_P(joining, the_order_of_messages_is_kept_while_nodes_come_and_go) {
  std::vector<node> nodes{found()};
  nodes.push_back(join("a"));
  std::atomic<bool> done{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> senders;
  for (int i = 0; i < 4; ++i)
    senders.emplace_back([&, from = i % 2] {
      const auto sums = nodes[from].spawn_on<count_from>(1 - from, 0);
      for (int sum = 300; !done; sum += 300) {
        for (int i = 0; i < 300; ++i) troupe::send(sums, note{1});
        if (request(sums, total{}, timeout(time_limit)).get() != sum) ++wrong;
      }
    });
  for (int i = 0; i < 12; ++i) join("b").leave(time_limit);
  done = true;
  for (auto& one : senders) one.join();
  EXPECT_EQ(wrong, 0);
  shut_down(nodes);
}

TEST_P(joining, several_come_at_once) {
  std::vector<node> nodes{found()};
  std::vector<std::future<node>> coming;
  for (int i = 0; i < 4; ++i)
    coming.push_back(std::async(std::launch::async, [this] { return join(""); }));
  for (auto& one : coming) nodes.push_back(one.get());
  std::set<std::string> names;
  for (const auto& one : nodes) names.insert(one.name());
  EXPECT_EQ(names, (std::set<std::string>{"worker0", "worker1", "worker2", "worker3", "worker4"}));
  ASSERT_TRUE(eventually([&] {
    return std::all_of(nodes.begin(), nodes.end(),
                       [](const node& one) { return one.world_size() == 5; });
  }));
  call_all_pairs(nodes);
  shut_down(nodes);
}

TEST_P(joining, actors_and_their_handles_are_for_joiners_too) {
  std::vector<node> nodes{found(), join("a")};
  const auto there = nodes[0].spawn_on<count_from>("a", 10);
  nodes.push_back(join("b"));
  EXPECT_EQ(nodes[0].rpc_sync<&add_to>("b", there, 5), 15);
  const auto late = nodes[0].rpc_sync<&make_counter>("a", "b", 1);
  EXPECT_EQ(nodes[0].rpc_sync<&add_to>("a", late, 1), 2);
  shut_down(nodes);
}

TEST_P(joining, is_refused_with_a_name_or_a_rank_that_is_taken) {
  std::vector<node> nodes{found(), join("a")};
  EXPECT_THAT(refusal(joiner("a")), testing::HasSubstr("rank 1 ('a') is alive: nobody else can "
                                                       "have its name"));
  auto taken = joiner("b");
  taken.rank = 1;
  EXPECT_THAT(refusal(taken), testing::HasSubstr("nobody else can have its rank"));
  taken.rank = 12;
  EXPECT_THAT(refusal(taken), testing::HasSubstr("rank 12 was never in this job"));
  EXPECT_THAT(fault_of<invalid_argument>([&] { init_rpc(joiner("b!")); }).text,
              testing::HasSubstr("must match"));
  EXPECT_EQ(nodes[0].epoch(), 1u);
  nodes.push_back(join("b"));
  ASSERT_TRUE(all_see(nodes, 2));
  shut_down(nodes);
}

TEST_P(joining, is_refused_by_a_job_with_fixed_members) {
  const auto fixed = found(false);
  EXPECT_THAT(refusal(joiner("late")),
              testing::HasSubstr("RPC group mixes statically and dynamically initialized members "
                                 "which is not supported."));
  fixed.shutdown(true, time_limit);
}

TEST_P(joining, is_refused_without_the_jobs_secret) {
  const auto founder = found();
  setenv("TROUPE_JOB_SECRET", std::string(64, 'a').c_str(), 1);
  auto stranger = joiner("stranger");
  stranger.init_timeout = time_limit;
  const auto why = refusal(stranger);
  unsetenv("TROUPE_JOB_SECRET");
  EXPECT_THAT(why, testing::HasSubstr("secret"));
  EXPECT_EQ(founder.world_size(), 1u);
  founder.shutdown(true, time_limit);
}

TEST_P(joining, waits_for_a_job_and_reports_it_in_the_end) {
  auto lonely = joiner("lonely");
  lonely.init_timeout = 300ms;
  EXPECT_THAT(refusal(lonely), testing::AnyOf(testing::HasSubstr("has waited 0.3 s for a job"),
                                              testing::HasSubstr("cannot reach the store")));
  auto early = std::async(std::launch::async, [this] { return join("early"); });
  std::vector<node> nodes{found()};
  nodes.push_back(early.get());
  call_all_pairs(nodes);
  shut_down(nodes);
}

// A node that still admits joiners waits for nobody at its end: it would for five seconds. A
// machine may stand still for as long, but not each time.
TEST_P(joining, ends_with_the_job) {
  int slow = 0;
  for (int round = 0; round < 5; ++round) {  // in the same place, one after the other
    auto nodes = std::vector<node>{found(), join("a")};
    call_all_pairs(nodes);
    const auto start = clock::now();
    shut_down(nodes);
    slow += clock::now() - start > 4s;
  }
  EXPECT_LT(slow, 5);
}

// Founders that may have others on other hosts need a secret from outside; one that is alone leaves
// its own on this host, and a joiner knows this host by any of its addresses.
TEST(joining_at_an_outer_address, finds_the_secret_of_a_founder_alone) {
  std::string outer;
  ifaddrs* first = nullptr;
  ASSERT_EQ(getifaddrs(&first), 0);
  for (const auto* one = first; one && outer.empty(); one = one->ifa_next) {
    if (!one->ifa_addr || one->ifa_addr->sa_family != AF_INET || one->ifa_flags & IFF_LOOPBACK)
      continue;
    const auto& address = *reinterpret_cast<const sockaddr_in*>(one->ifa_addr);
    outer = inet_ntoa(address.sin_addr);
  }
  freeifaddrs(first);
  if (outer.empty()) GTEST_SKIP() << "this host has loopback addresses alone";
  rpc_options options;
  options.init_method = "tcp://" + outer + ":" + std::to_string(free_port());
  options.init_timeout = time_limit;
  auto founding = options;
  founding.rank = 0;
  founding.world_size = 1;
  founding.admits_joiners = true;
  std::vector<node> nodes{init_rpc(founding)};
  options.joins_running = true;
  options.name = "a";
  nodes.push_back(init_rpc(options));
  EXPECT_EQ(nodes[0].rpc_sync<&plus_one>("a", 41), 42);
  shut_down(nodes);
}

// One that is alone listens on this host, and has a port that joiners can know.
TEST(joining_by_the_environment, finds_a_founder_alone_that_was_given_no_address) {
  for (const char* name : {"MASTER_ADDR", "RANK", "WORLD_SIZE"}) unsetenv(name);
  setenv("MASTER_PORT", std::to_string(free_port()).c_str(), 1);
  rpc_options founding;
  founding.rank = 0;
  founding.world_size = 1;
  founding.admits_joiners = true;
  std::vector<node> nodes{init_rpc(founding)};
  setenv("MASTER_ADDR", "127.0.0.1", 1);
  rpc_options options;
  options.joins_running = true;
  options.name = "a";
  options.init_timeout = time_limit;
  nodes.push_back(init_rpc(options));
  unsetenv("MASTER_ADDR");
  unsetenv("MASTER_PORT");
  EXPECT_EQ(nodes[0].rpc_sync<&plus_one>("a", 41), 42);
  shut_down(nodes);
}

INSTANTIATE_TEST_SUITE_P(by, joining, testing::Values("file", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

// The dead come back as others: what was meant for the old ones fails.
TEST(joining_processes, a_killed_one_comes_back_as_its_next_incarnation) {
  const temporary_folder folder;
  const auto file = (folder.path() / "meet").string();
  rank_process first({TROUPE_TEST_PROGRAM_DIR "/rank_program", "1", "3", file, "dynamic"});
  rank_process other({TROUPE_TEST_PROGRAM_DIR "/rank_program", "2", "3", file, "dynamic"});
  rpc_options options;
  options.rank = 0;
  options.world_size = 3;
  options.init_method = "file://" + file;
  options.admits_joiners = true;
  const auto node = init_rpc(options);
  const history seen(node);
  const auto old = node.spawn_on<count_from>("worker1", 1);
  first.kill();
  ASSERT_TRUE(eventually([&] { return node.world_size() == 2; }));

  rank_process second({TROUPE_TEST_PROGRAM_DIR "/rank_program", "1", "3", file, "joins"});
  ASSERT_TRUE(eventually([&] { return node.world_size() == 3; }));
  EXPECT_EQ(node.rpc_sync<&process_id>("worker1"), second.pid());
  EXPECT_EQ(node.rpc_sync<&process_id>(1), second.pid());
  EXPECT_THROW(request(old, add{1}).get_for(time_limit), peer_lost);
  const auto again = node.rpc_sync<&make_counter>("worker2", "worker1", 5);
  EXPECT_EQ(request(again, add{1}).get_for(time_limit), 6);
  EXPECT_TRUE(seen.becomes({"1: worker1 died", "2: worker1 joined"}));

  node.shutdown(true, time_limit);
  EXPECT_TRUE(eventually([&] { return second.ended() && other.ended(); }));
  EXPECT_TRUE(second.ended_well());
  EXPECT_TRUE(other.ended_well());
}

}  // namespace

}  // namespace troupe::test
