// Jobs that come together.
#include "troupe/transport/rendezvous/rendezvous.hpp"

#include <atomic>
#include <random>
#include <set>

#include "tests/transport/rendezvous/rendezvous_fixture.hpp"
#include "troupe/transport/rendezvous/host.hpp"
#include "troupe/transport/store/hash_store.hpp"

namespace troupe::transport::test {
namespace {

void expect_whole(const std::vector<outcome>& outcomes) {
  const auto size = outcomes.size();
  for (std::size_t rank = 0; rank < size; ++rank) {
    ASSERT_TRUE(outcomes[rank].joined) << outcomes[rank].error << outcomes[rank].other_error;
    const auto& r = *outcomes[rank].joined;
    EXPECT_EQ(r.rank, rank);
    EXPECT_EQ(r.world_size, size);
    EXPECT_EQ(r.local_rank, rank);
    EXPECT_EQ(r.local_world_size, size);
    EXPECT_TRUE(r.all_on_one_host);
    EXPECT_EQ(r.job_id, outcomes[0].joined->job_id);
    EXPECT_NE(r.job_id, 0u);
    ASSERT_EQ(r.members.size(), size);
    std::set<std::uint64_t> incarnations;
    for (std::size_t other = 0; other < size; ++other) {
      const auto& m = r.members[other];
      EXPECT_EQ(m.rank, other);
      EXPECT_EQ(m.name, "worker" + std::to_string(other));
      EXPECT_EQ(to_text(m.address), "address of " + std::to_string(other));
      EXPECT_EQ(m.host, this_host().name);
      EXPECT_EQ(m.process, static_cast<std::uint64_t>(getpid()));
      EXPECT_NE(m.process_namespace, 0u);
      EXPECT_EQ(m.process_namespace, this_host().process_namespace);
      incarnations.insert(m.incarnation);
    }
    EXPECT_EQ(incarnations.size(), size);
  }
}

TEST(rendezvous, brings_eight_ranks_together_over_tcp) {
  crowd c(8);
  for (std::uint32_t rank = 0; rank < 8; ++rank) c.start(rank);
  auto outcomes = c.finish();
  expect_whole(outcomes);
  // The store goes on, for all.
  outcomes[3].joined->store->set("k", "from 3");
  EXPECT_EQ(to_text(outcomes[5].joined->store->get("k", wait_limit)), "from 3");
  close_all(outcomes);
}

TEST(rendezvous, brings_eight_ranks_together_in_a_file) {
  temporary_folder folder;
  crowd c(8);
  c.method = "file://" + (folder.path / "meet").string();
  for (std::uint32_t rank = 0; rank < 8; ++rank) c.start(rank);
  auto outcomes = c.finish();
  expect_whole(outcomes);
  close_all(outcomes);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path));
}

TEST(rendezvous, brings_eight_ranks_together_in_a_given_store) {
  auto place = std::make_shared<hash_store>();
  crowd c(8);
  std::vector<std::future<outcome>> running;
  for (std::uint32_t rank = 0; rank < 8; ++rank)
    running.push_back(std::async(std::launch::async, [&, o = c.options(rank)] {
      return try_rendezvous([&] { return rendezvous(place, o, address_by_rank); });
    }));
  std::vector<outcome> outcomes;
  for (auto& r : running) outcomes.push_back(r.get());
  expect_whole(outcomes);
}

TEST(rendezvous, a_given_store_can_serve_one_job_after_another) {
  auto place = std::make_shared<hash_store>();
  for (const std::uint32_t size : {2, 3, 1}) {
    crowd c(size);
    std::vector<std::future<outcome>> running;
    for (std::uint32_t rank = 0; rank < size; ++rank)
      running.push_back(std::async(std::launch::async, [&, o = c.options(rank)]() mutable {
        o.job = "job of " + std::to_string(size);
        return try_rendezvous([&] { return rendezvous(place, o, address_by_rank); });
      }));
    for (auto& r : running) {
      const auto o = r.get();
      ASSERT_TRUE(o.joined) << o.error;
      EXPECT_LE(o.joined->store->add("n", 1), static_cast<std::int64_t>(size));
    }
  }
}

TEST(rendezvous, one_rank_is_a_job_too) {
  rendezvous_options o;
  o.variables = variables({{"RANK", "0"}, {"WORLD_SIZE", "1"}});
  auto r = rendezvous(o, address_by_rank);
  EXPECT_EQ(r.members.size(), 1u);
  r.store->set("k", "v");
  r.close();
  r.close();
  EXPECT_THROW(r.store->set("k", "v"), store_error);
}

TEST(rendezvous, reads_rank_and_size_from_the_method_and_the_environment) {
  served_store probe;  // a free port of the moment
  std::uint16_t port = probe.where().port;
  probe.server.drain(0ms);
  const auto place = "127.0.0.1:" + std::to_string(port);
  rendezvous_options first;
  first.init_method = "tcp://" + place + "?rank=0&world_size=2";
  first.variables = variables({});
  rendezvous_options second;
  second.variables = variables({{"RANK", "1"},
                                {"WORLD_SIZE", "2"},
                                {"LOCAL_RANK", "0"},
                                {"LOCAL_WORLD_SIZE", "1"},
                                {"MASTER_ADDR", "localhost"},
                                {"MASTER_PORT", std::to_string(port)}});
  second.name = "trainer:1";
  auto running = std::async(std::launch::async, [&] {
    return try_rendezvous([&] { return rendezvous(first, address_by_rank); });
  });
  auto b = try_rendezvous([&] { return rendezvous(second, address_by_rank); });
  auto a = running.get();
  ASSERT_TRUE(a.joined) << a.error;
  ASSERT_TRUE(b.joined) << b.error;
  EXPECT_EQ(a.joined->members[1].name, "trainer:1");
  EXPECT_EQ(a.joined->local_world_size, 2u);
  EXPECT_EQ(b.joined->local_rank, 0u);  // as its launcher has set
  EXPECT_EQ(b.joined->local_world_size, 1u);
}

TEST(rendezvous, reports_the_hosts_before_addresses_are_made) {
  crowd c(3);
  std::atomic<int> asked = 0;
  const auto ask = [&](const pre_roster& r) {
    ++asked;
    EXPECT_EQ(r.members.size(), 3u);
    EXPECT_FALSE(r.all_on_one_host);
    EXPECT_EQ(r.local_world_size, r.rank == 2 ? 1u : 2u);
    EXPECT_EQ(r.local_rank, r.rank == 1 ? 1u : 0u);
    EXPECT_TRUE(r.secret == c.secret);
    return address_by_rank(r);
  };
  for (std::uint32_t rank = 0; rank < 3; ++rank)
    c.start(
        rank,
        [&](rendezvous_options& o) {
          if (rank == 2)
            o.variables =
                variables({{"TROUPE_JOB_SECRET", c.secret.hex()}, {"TROUPE_HOST_ID", "elsewhere"}});
        },
        ask);
  auto outcomes = c.finish();
  for (auto& o : outcomes) EXPECT_TRUE(o.joined) << o.error;
  EXPECT_EQ(asked, 3);
}

// A name of its own that is a loopback address: /etc/hosts knows names in capitals too.
TEST(rendezvous, listens_on_all_interfaces_only_with_a_secret_that_other_hosts_can_have) {
  for (const bool given : {false, true}) {
    rendezvous_options o;
    o.init_method = "tcp://LOCALHOST:0";
    o.rank = 0;
    o.world_size = 1;
    o.dynamic = true;
    o.timeout = wait_limit;
    const temporary_folder folder;
    const job_secret secret;
    o.variables = given ? variables({{"TROUPE_JOB_SECRET", secret.hex()}})
                        : variables({{"XDG_RUNTIME_DIR", folder.path.string()}});
    std::uint16_t port = 0;
    o.on_listening = [&port](std::uint16_t chosen) { port = chosen; };
    auto job = rendezvous(o, address_by_rank);
    const auto other = resolve({"127.0.0.2", port}, deadline_after(wait_limit)).at(0);
    EXPECT_EQ(static_cast<bool>(connect_to(other, deadline_after(wait_limit)).fd), given);
    job.close();
  }
}

TEST(rendezvous, waits_for_late_ranks) {
  crowd c(3);
  c.start(0);
  c.port();
  c.start(2);
  // Rank 1 starts when the others have surely announced themselves.
  served_store clock;
  EXPECT_THROW(clock.client()->get("never", 150ms), store_error);
  c.start(1);
  for (auto& o : c.finish()) EXPECT_TRUE(o.joined) << o.error;
}

TEST(rendezvous, others_may_start_before_rank_0) {
  const auto port = free_port();
  crowd c(3);
  c.method = "tcp://127.0.0.1:" + std::to_string(port);
  c.start(1);
  c.start(2);
  served_store clock;
  EXPECT_THROW(clock.client()->get("never", 100ms), store_error);
  c.start(0);
  for (auto& o : c.finish()) EXPECT_TRUE(o.joined) << o.error;
}

// With a secret from outside, or one that each round's rank 0 makes.
class repeated_rendezvous : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(, repeated_rendezvous, testing::Bool(), [](const auto& info) {
  return std::string(info.param ? "with" : "without") + "_a_secret";
});

TEST_P(repeated_rendezvous, meets_twenty_times_over_tcp_on_one_port) {
  const auto port = free_port();
  const job_secret secret;
  temporary_folder folder;
  const auto rank_of = [&](std::uint32_t rank) {
    crowd c(3);
    c.secret = secret;
    c.method = "tcp://127.0.0.1:" + std::to_string(port);
    std::set<std::uint64_t> jobs;
    for (int i = 0; i < 20; ++i) {
      auto o = c.options(rank);
      o.on_listening = {};
      if (!GetParam()) o.variables = variables({{"XDG_RUNTIME_DIR", folder.path.string()}});
      auto r = rendezvous(o, address_by_rank);
      jobs.insert(r.job_id);
      EXPECT_EQ(r.store->add("n", 1) > 3, false);  // nothing is left of the last time
      r.close();
    }
    return jobs.size();
  };
  std::vector<std::future<std::size_t>> ranks;
  for (std::uint32_t rank = 0; rank < 3; ++rank)
    ranks.push_back(std::async(std::launch::async, rank_of, rank));
  for (auto& r : ranks) EXPECT_EQ(r.get(), 20u);
}

TEST_P(repeated_rendezvous, meets_twenty_times_in_one_file) {
  temporary_folder folder;
  const job_secret secret;
  const auto rank_of = [&](std::uint32_t rank) {
    crowd c(3);
    c.secret = secret;
    c.method = "file://" + (folder.path / "meet").string();
    std::set<std::uint64_t> jobs;
    for (int i = 0; i < 20; ++i) {
      auto o = c.options(rank);
      if (!GetParam()) o.variables = variables({});
      auto r = rendezvous(o, address_by_rank);
      jobs.insert(r.job_id);
      EXPECT_LE(r.store->add("n", 1), 3);
      if (i % 2) r.close();  // or leave it to the destructor
    }
    return jobs.size();
  };
  std::vector<std::future<std::size_t>> ranks;
  for (std::uint32_t rank = 0; rank < 3; ++rank)
    ranks.push_back(std::async(std::launch::async, rank_of, rank));
  for (auto& r : ranks) EXPECT_EQ(r.get(), 20u);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path));
}

TEST(rendezvous, rank_0_may_leave_at_once) {
  for (int i = 0; i < 10; ++i) {
    crowd c(4);
    for (std::uint32_t rank = 0; rank < 4; ++rank) c.start(rank);
    // As soon as rank 0 returns, its roster and server go; no rank is cut off.
    auto outcomes = c.finish();
    for (auto& o : outcomes) EXPECT_TRUE(o.joined) << o.error;
    outcomes[0].joined.reset();
  }
}

TEST(rendezvous, close_of_rank_0_waits_for_the_slow) {
  crowd c(2);
  c.start(0);
  c.start(1);
  auto outcomes = c.finish();
  ASSERT_TRUE(outcomes[0].joined && outcomes[1].joined);
  std::atomic<bool> slow_is_done = false;
  std::thread slow([&] {
    auto& r = *outcomes[1].joined;
    for (int i = 0; i < 200; ++i) r.store->add("n", 1);
    slow_is_done = true;
    r.close();
  });
  outcomes[0].joined->close();
  EXPECT_TRUE(slow_is_done);
  slow.join();
  // And it is bounded: no rank leaves here.
  crowd d(2);
  d.start(0);
  d.start(1);
  auto others = d.finish();
  const auto start = std::chrono::steady_clock::now();
  others[0].joined->close(100ms);
  EXPECT_LT(std::chrono::steady_clock::now() - start, soon_enough);
}

TEST(rendezvous, the_store_outlives_the_roster_on_rank_0) {
  crowd c(2);
  c.start(0);
  c.start(1);
  auto outcomes = c.finish();
  ASSERT_TRUE(outcomes[0].joined && outcomes[1].joined);
  auto kept = outcomes[0].joined->store;
  outcomes[0].joined.reset();
  EXPECT_EQ(outcomes[1].joined->store->add("n", 1), 1);
  EXPECT_EQ(kept->add("n", 1), 2);
  kept.reset();
  EXPECT_THROW(outcomes[1].joined->store->add("n", 1), store_error);
}

TEST(rendezvous, strangers_do_not_disturb_it) {
  crowd c(3);
  c.start(0);
  const auto port = c.port();
  std::atomic<bool> stop = false;
  std::thread stranger([&] {
    std::mt19937 random(3);
    for (int i = 0; i < 5000 && !stop; ++i) {
      auto fd = connect_to(loopback(port), deadline_after(wait_limit)).fd;
      std::vector<std::byte> noise(random() % 100);
      for (auto& b : noise) b = std::byte(random());
      if (fd) write_all(fd.get(), noise, deadline_after(wait_limit));
    }
  });
  c.start(1);
  c.start(2);
  auto outcomes = c.finish();
  for (auto& o : outcomes) EXPECT_TRUE(o.joined) << o.error;
  for (int i = 0; i < 100; ++i) outcomes[2].joined->store->add("n", 1);
  stop = true;
  stranger.join();
}

}  // namespace
}  // namespace troupe::transport::test
