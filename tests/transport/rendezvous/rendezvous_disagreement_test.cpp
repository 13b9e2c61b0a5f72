// Ranks with different settings, and one that cannot come at all: the others fail at once with the
// reason, and not with a missing rank when the time is over.
#include <unistd.h>

#include "tests/transport/rendezvous/rendezvous_fixture.hpp"
#include "troupe/transport/rendezvous/host.hpp"

namespace troupe::transport::test {
namespace {

std::string me() { return "process " + std::to_string(getpid()) + " on host " + this_host().name; }

TEST(rendezvous_disagreement, another_world_size_is_reported_to_all_at_once) {
  crowd c(2);
  c.start(0);
  c.start(1, [](rendezvous_options& o) { o.world_size = 3; });
  for (auto& o : c.finish()) {
    EXPECT_CONTAINS(o.error, "rank 1 (" + me() + ") has a world size of 3, but rank 0 (" + me() +
                                 ") has 2; WORLD_SIZE must be the same on every rank");
    EXPECT_LT(o.took, soon_enough);
  }
}

TEST(rendezvous_disagreement, another_world_size_in_a_file_is_reported_to_all_who_wait) {
  temporary_folder folder;
  const auto path = folder.path / "meet";
  // One that is in the other world, and one that is not even in its own.
  for (const std::uint32_t size : {4, 2}) {
    crowd c(3);
    c.method = "file://" + path.string();
    c.start(0);
    c.start(1);
    ASSERT_TRUE(eventually([&] { return has_announced(path, 0) && has_announced(path, 1); }));
    c.start(2, [&](rendezvous_options& o) { o.world_size = size; });
    auto outcomes = c.finish();
    const auto text = "rank 2 (" + me() + ") has a world size of " + std::to_string(size);
    for (const int rank : {0, 1}) {
      EXPECT_CONTAINS(outcomes[rank].error, text);
      EXPECT_LT(outcomes[rank].took, soon_enough);
    }
    EXPECT_CONTAINS(outcomes[2].error, size == 4 ? text : "there is no rank 2 in a job of 2 ranks");
  }
}

TEST(rendezvous_disagreement, another_world_size_does_not_harm_a_job_that_is_complete) {
  crowd c(2);
  c.start(0);
  c.start(1);
  auto outcomes = c.finish();
  ASSERT_TRUE(outcomes[0].joined && outcomes[1].joined);
  c.start(2, [](rendezvous_options& o) { o.world_size = 3; });
  EXPECT_CONTAINS(c.finish()[0].error, "has a world size of 3");
  EXPECT_EQ(outcomes[1].joined->store->add("n", 1), 1);
  EXPECT_EQ(outcomes[0].joined->store->add("n", 1), 2);
}

// It gives itself two seconds, which may not be enough on a machine that has much else to do, but
// not each time.
TEST(rendezvous_disagreement, a_rank_that_cannot_come_notifies_the_others) {
  std::string reason;
  for (int i = 0; i < 5 && reason.find("max_threads is 0") == reason.npos; ++i) {
    crowd c(2);
    c.start(0, [](rendezvous_options& o) { o.timeout = 10s; });
    auto o = c.options(1);
    o.init_method = "tcp://127.0.0.1:" + std::to_string(c.port());
    decline_rendezvous(o, "max_threads is 0");
    reason = c.finish()[0].error;
  }
  EXPECT_EQ(reason, "rank 1 (" + me() + ") has invalid options: max_threads is 0");
}

TEST(rendezvous_disagreement, a_rank_that_cannot_come_notifies_the_others_in_a_file) {
  temporary_folder folder;
  const auto path = folder.path / "meet";
  crowd c(3);
  c.method = "file://" + path.string();
  c.start(0);
  c.start(1);
  ASSERT_TRUE(eventually([&] { return has_announced(path, 0) && has_announced(path, 1); }));
  decline_rendezvous(c.options(2), "max_threads is 0");
  for (auto& o : c.finish())
    EXPECT_EQ(o.error, "rank 2 (" + me() + ") has invalid options: max_threads is 0");
  EXPECT_FALSE(std::filesystem::exists(path));
}

// Rank 0 keeps what the others read, and so stays a second for those that are on their way. They
// may be held up for longer, but not each time.
TEST(rendezvous_disagreement, a_rank_0_that_cannot_come_notifies_the_others) {
  std::string reason;
  for (int i = 0; i < 5 && reason.find("max_threads is 0") == reason.npos; ++i) {
    crowd c(2);
    c.method = "tcp://127.0.0.1:" + std::to_string(free_port());
    c.start(1, [](rendezvous_options& o) { o.timeout = 3s; });
    decline_rendezvous(c.options(0), "max_threads is 0");
    reason = c.finish()[0].error;
  }
  EXPECT_EQ(reason, "rank 0 (" + me() + ") has invalid options: max_threads is 0");
}

TEST(rendezvous_disagreement, a_rank_that_cannot_come_does_not_harm_a_job_that_is_complete) {
  crowd c(2);
  c.start(0);
  c.start(1);
  auto outcomes = c.finish();
  ASSERT_TRUE(outcomes[0].joined && outcomes[1].joined);
  auto o = c.options(1);
  o.init_method = "tcp://127.0.0.1:" + std::to_string(c.port());
  decline_rendezvous(o, "it came late");
  EXPECT_EQ(outcomes[1].joined->store->add("n", 1), 1);
  EXPECT_EQ(outcomes[0].joined->store->add("n", 1), 2);
  close_all(outcomes);
}

// No rank to notify, no place to look: only a little time is lost.
TEST(rendezvous_disagreement, a_rank_that_cannot_come_and_is_alone_reports_nothing) {
  crowd c(2);
  auto o = c.options(1);
  o.init_method = "tcp://127.0.0.1:" + std::to_string(free_port());
  const auto start = std::chrono::steady_clock::now();
  decline_rendezvous(o, "max_threads is 0");
  o.init_method = "http://x";
  decline_rendezvous(o, "max_threads is 0");
  EXPECT_LT(std::chrono::steady_clock::now() - start, soon_enough);
}

TEST(rendezvous_disagreement, another_job_is_refused_and_does_not_harm_the_job) {
  crowd c(2);
  c.start(0, [](rendezvous_options& o) { o.job = "mine"; });
  c.port();
  c.start(1, [](rendezvous_options& o) { o.job = "theirs"; });
  c.start(1, [](rendezvous_options& o) { o.job = "mine"; });
  auto outcomes = c.finish();
  EXPECT_CONTAINS(outcomes[1].error,
                  "belongs to job 'theirs', but rank 0 (" + me() + ") meets here for job 'mine'");
  EXPECT_TRUE(outcomes[0].joined) << outcomes[0].error;
  EXPECT_TRUE(outcomes[2].joined) << outcomes[2].error;
}

// They may be unrelated; but if the job does not come together, the error mentions it.
TEST(rendezvous_disagreement, another_job_is_named_when_ranks_are_missing) {
  crowd c(2);
  c.start(0, [](rendezvous_options& o) {
    o.job = "mine";
    o.timeout = 4s;
  });
  c.port();
  c.start(1, [](rendezvous_options& o) { o.job = "theirs"; });
  const auto outcomes = c.finish();
  EXPECT_CONTAINS(outcomes[0].error, "rank 1 of 2 did not come within 4 s; rank 1 (" + me() +
                                         ") belongs to job 'theirs', but rank 0 (");
}

}  // namespace
}  // namespace troupe::transport::test
