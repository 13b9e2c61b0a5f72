// Jobs that do not come together: each rank gets the reason, in time.
#include <fstream>
#include <iterator>

#include "tests/transport/rendezvous/rendezvous_fixture.hpp"
#include "troupe/messages/base/worker_name.hpp"
#include "troupe/transport/rendezvous/exchange_round.hpp"
#include "troupe/transport/rendezvous/host.hpp"
#include "troupe/transport/rendezvous/rank0_store.hpp"
#include "troupe/transport/rendezvous/rank_exchange.hpp"
#include "troupe/transport/store/hash_store.hpp"

namespace troupe::transport::test {
namespace {

std::string me() { return "process " + std::to_string(getpid()) + " on host " + this_host().name; }

outcome alone(const rendezvous_options& o) {
  return try_rendezvous([&] { return rendezvous(o, address_by_rank); });
}

// Time enough for the ranks that come.
const auto soon = [](rendezvous_options& o) { o.timeout = 2s; };

TEST(rendezvous_failure, ranks_that_do_not_come_are_named_to_all) {
  temporary_folder folder;
  for (const bool in_file : {false, true}) {
    crowd c(8);
    if (in_file) c.method = "file://" + (folder.path / "meet").string();
    for (const std::uint32_t rank : {0, 1, 3, 4, 6, 7}) c.start(rank, soon);
    for (auto& o : c.finish()) {
      EXPECT_EQ(o.error, "ranks 2 and 5 of 8 did not come within 2 s");
      EXPECT_LT(o.took, soon_enough);
    }
  }
}

TEST(rendezvous_failure, a_rank_without_rank_0_reports_where_it_looked) {
  crowd c(2);
  auto o = c.options(1);
  const auto port = free_port();
  o.init_method = "tcp://127.0.0.1:" + std::to_string(port);
  o.timeout = 300ms;
  const auto result = alone(o);
  EXPECT_CONTAINS(result.error, "rank 1 of 2: cannot reach the store at 127.0.0.1:" +
                                    std::to_string(port) + " within 0.");
  EXPECT_CONTAINS(result.error, " s: Connection refused");
  EXPECT_CONTAINS(result.error, "MASTER_ADDR");
  EXPECT_GE(result.took, 290ms);
  EXPECT_LT(result.took, soon_enough);
}

TEST(rendezvous_failure, an_unknown_or_silent_host_is_reported_in_time) {
  crowd c(2);
  for (const std::uint32_t rank : {0, 1}) {
    auto o = c.options(rank);
    o.timeout = 300ms;
    o.init_method = "tcp://no-such-host.invalid:29500";
    auto result = alone(o);
    EXPECT_CONTAINS(result.error, "no-such-host.invalid");
    EXPECT_LT(result.took, soon_enough);
    o.init_method = "tcp://192.0.2.1:29500";
    result = alone(o);
    EXPECT_CONTAINS(result.error,
                    rank == 0 ? "this machine has no such address" : "192.0.2.1:29500 within 0.");
    EXPECT_LT(result.took, soon_enough);
  }
}

TEST(rendezvous_failure, a_port_in_use_is_named) {
  auto taken = listen_somewhere();
  const auto where = to_string(local_address(taken.get()));
  crowd c(2);
  auto o = c.options(0);
  o.init_method = "tcp://" + where;
  o.timeout = 300ms;
  const auto result = alone(o);
  EXPECT_CONTAINS(result.error,
                  "is in use by another program, so that rank 0 cannot listen on " + where);
  EXPECT_CONTAINS(result.error, "choose another MASTER_PORT");
  EXPECT_LT(result.took, soon_enough);
}

// As of a name like "localhost", which may be 127.0.0.1 and ::1.
TEST(rendezvous_failure, no_address_of_a_name_is_left_to_others) {
  const auto at = [](const char* host, std::uint16_t port) {
    return resolve({host, port}, deadline_after(wait_limit)).at(0);
  };
  const auto port = free_port();
  const auto first = at("127.0.0.1", port);
  const auto second = at("127.0.0.2", port);
  auto other = listen_on(second).fd;
  ASSERT_TRUE(other);
  for (const auto& addresses : {std::vector{first, second}, std::vector{second, first}}) {
    const auto refused = listen_on_name(addresses);
    EXPECT_FALSE(refused.fd);
    EXPECT_EQ(refused.error, EADDRINUSE);
    EXPECT_EQ(to_string(refused.refused), to_string(second));
  }
  other.reset();
  {
    const auto all = listen_on_name({first, first, second});
    ASSERT_TRUE(all.fd) << to_string(all.refused);
    EXPECT_EQ(to_string(local_address(all.fd.get())), to_string(first));
    EXPECT_EQ(listen_on(second).error, EADDRINUSE);
    EXPECT_EQ(connect_to(second, deadline_after(wait_limit)).error, ECONNREFUSED);
  }
  // One that is another machine's does not matter.
  const auto elsewhere = listen_on_name({at("192.0.2.1", port), second});
  ASSERT_TRUE(elsewhere.fd) << to_string(elsewhere.refused);
  EXPECT_EQ(to_string(local_address(elsewhere.fd.get())), to_string(second));
  EXPECT_EQ(listen_on_name({at("192.0.2.1", port)}).error, EADDRNOTAVAIL);
}

TEST(rendezvous_failure, a_rank_that_comes_twice_is_reported_to_all) {
  temporary_folder folder;
  for (const bool in_file : {false, true}) {
    crowd c(3);
    if (in_file) c.method = "file://" + (folder.path / "meet").string();
    c.start(0);
    c.start(1);
    c.start(1);
    for (auto& o : c.finish()) {
      EXPECT_CONTAINS(o.error, "rank 1 came twice: " + me() + " and " + me());
      EXPECT_LT(o.took, soon_enough);
    }
  }
}

// The error of a rank 0 that comes when two have met as rank 1, and have failed.
std::string error_of_late_rank_0() {
  temporary_folder folder;
  crowd c(2);
  c.method = "file://" + (folder.path / "meet").string();
  std::future<outcome> twice[2];
  for (auto& rank_1 : twice)
    rank_1 = std::async(std::launch::async, [o = c.options(1)] { return alone(o); });
  // Until the rank that was there has nothing more to do in the file.
  EXPECT_TRUE(eventually([&] {
    std::ifstream file(folder.path / "meet");
    return std::string(std::istreambuf_iterator<char>(file), {}).find("left/1") !=
               std::string::npos ||
           (!file && twice[0].wait_for(0ms) == std::future_status::ready);
  }));
  auto o = c.options(0);
  o.timeout = 3s;
  const auto late = alone(o);
  for (auto& rank_1 : twice) EXPECT_CONTAINS(rank_1.get().error, "rank 1 came twice");
  EXPECT_FALSE(std::filesystem::exists(folder.path / "meet"));
  return late.error;
}

// The file is removed when all have left it; a rank that comes a moment later must still get the
// reason. They stay for a second: a rank that is suspended for longer finds a new file, but not
// each time.
TEST(rendezvous_failure, a_rank_that_opens_the_file_after_the_failure_learns_of_it) {
  std::string reason;
  for (int i = 0; i < 5 && reason.find("rank 1 came twice") == reason.npos; ++i)
    reason = error_of_late_rank_0();
  EXPECT_CONTAINS(reason, "rank 1 came twice");
}

TEST(rendezvous_failure, a_second_rank_0_is_reported_to_both) {
  crowd c(2);
  c.method = "tcp://127.0.0.1:" + std::to_string(free_port());
  c.start(0);
  c.port();  // the first one listens
  c.start(0, [](rendezvous_options& o) { o.on_listening = {}; });
  for (auto& o : c.finish()) {
    EXPECT_CONTAINS(o.error, "rank 0 came twice: " + me() + " and " + me());
    EXPECT_LT(o.took, soon_enough);
  }
}

TEST(rendezvous_failure, a_duplicate_that_comes_when_all_are_there_is_refused_alone) {
  crowd c(2);
  c.start(0);
  c.start(1);
  auto outcomes = c.finish();
  ASSERT_TRUE(outcomes[0].joined && outcomes[1].joined);
  c.start(1);
  EXPECT_CONTAINS(c.finish()[0].error, "rank 1 came twice");
  EXPECT_EQ(outcomes[1].joined->store->add("n", 1), 1);
  EXPECT_EQ(outcomes[0].joined->store->add("n", 1), 2);
}

TEST(rendezvous_failure, a_rank_beyond_the_world_is_refused_at_once) {
  crowd c(4);
  EXPECT_CONTAINS(alone(c.options(4)).error,
                  "there is no rank 4 in a job of 4 ranks: they go from 0 to 3");
}

// Naming all missing ranks one by one would take hours.
TEST(rendezvous_failure, a_world_of_billions_is_refused_at_once) {
  crowd c(4'000'000'000);
  const auto place = std::make_shared<hash_store>();
  EXPECT_EQ(try_rendezvous([&] { return rendezvous(place, c.options(1), address_by_rank); }).error,
            "a job has at most 1048576 ranks, but its world size is 4000000000");
}

TEST(rendezvous_failure, another_secret_is_reported_to_both_sides) {
  crowd c(2);
  c.start(0, [](rendezvous_options& o) { o.timeout = 6s; });
  c.port();
  c.start(1, [](rendezvous_options& o) {
    o.variables = variables({{"TROUPE_JOB_SECRET", job_secret().hex()}});
  });
  auto outcomes = c.finish();
  EXPECT_CONTAINS(outcomes[1].error, "it does not know this job's secret");
  EXPECT_CONTAINS(outcomes[1].error, "TROUPE_JOB_SECRET");
  EXPECT_LT(outcomes[1].took, soon_enough);
  EXPECT_CONTAINS(outcomes[0].error, "rank 1 of 2 did not come within 6 s; ");
  EXPECT_CONTAINS(outcomes[0].error,
                  "did not prove knowledge of the job's secret, the last from 127.0.0.1");
}

TEST(rendezvous_failure, another_secret_in_a_file_is_reported) {
  temporary_folder folder;
  crowd c(2);
  c.method = "file://" + (folder.path / "meet").string();
  c.start(0, [](rendezvous_options& o) { o.timeout = 3s; });
  ASSERT_TRUE(eventually([&] { return std::filesystem::exists(folder.path / "meet"); }));
  c.start(1, [](rendezvous_options& o) {
    o.variables = variables({{"TROUPE_JOB_SECRET", job_secret().hex()}});
  });
  auto outcomes = c.finish();
  EXPECT_CONTAINS(outcomes[1].error, "is in use by a job with another secret");
  EXPECT_EQ(outcomes[0].error, "rank 1 of 2 did not come within 3 s");
}

TEST(rendezvous_failure, a_name_that_two_ranks_have_is_reported_to_all) {
  crowd c(4);
  for (std::uint32_t rank = 0; rank < 4; ++rank)
    c.start(rank, [&](rendezvous_options& o) { o.name = rank % 3 == 0 ? "trainer" : ""; });
  for (auto& o : c.finish())
    EXPECT_EQ(o.error, "Worker name 'trainer' is not unique: ranks 0 and 3 have it");
}

TEST(rendezvous_failure, a_name_that_cannot_be_is_reported_to_all) {
  const std::pair<std::string, std::string> cases[] = {
      {"a b", "Worker name of rank 1 must match [A-Za-z0-9_:-]+, but is 'a b'"},
      {std::string(128, 'x'),
       "Worker name of rank 1 must be shorter than 128 characters, but has 128"}};
  for (const auto& [name, text] : cases) {
    crowd c(3);
    for (std::uint32_t rank = 0; rank < 3; ++rank)
      c.start(rank, [&, n = name](rendezvous_options& o) { o.name = rank == 1 ? n : ""; });
    for (auto& o : c.finish()) EXPECT_EQ(o.error, text);
  }
}

TEST(rendezvous_failure, names_are_checked) {
  for (const auto& good : {std::string("a"), std::string("A-b_c:9"), std::string(127, 'x')})
    EXPECT_EQ(worker_name_problem(good), "");
  EXPECT_EQ(worker_name_problem(""), "must be non-empty");
  EXPECT_CONTAINS(worker_name_problem("a/b"), "must match [A-Za-z0-9_:-]+");
  EXPECT_CONTAINS(worker_name_problem(std::string(128, 'x')), "must be shorter than 128");
  EXPECT_NE(worker_name_problem(std::string_view("a\0b", 3)), "");
  EXPECT_NE(worker_name_problem("\xc3\xa4"), "");
}

TEST(rendezvous_failure, a_transport_that_cannot_be_made_is_reported_to_all) {
  crowd c(3);
  for (std::uint32_t rank = 0; rank < 3; ++rank)
    c.start(rank, {}, [](const pre_roster& r) {
      if (r.rank == 1) throw std::logic_error("no network card");
      return address_by_rank(r);
    });
  auto outcomes = c.finish();
  EXPECT_EQ(outcomes[1].other_error, "no network card");  // its own exception
  for (const int other : {0, 2})
    EXPECT_EQ(outcomes[other].error,
              "rank 1 of 3 (" + me() + ") has no transport: no network card");
}

TEST(rendezvous_failure, a_rank_that_gives_no_address_is_named) {
  crowd c(3), third(3);
  std::promise<void> over;
  auto until_over = over.get_future().share();
  for (const std::uint32_t rank : {0, 1}) c.start(rank, soon);
  third.secret = c.secret;
  third.method = "tcp://127.0.0.1:" + std::to_string(c.port());
  third.start(2, soon, [until_over](const pre_roster& r) {
    until_over.wait();
    return address_by_rank(r);
  });
  for (auto& o : c.finish()) EXPECT_EQ(o.error, "rank 2 of 3 came, but gave no address within 2 s");
  over.set_value();
  EXPECT_FALSE(third.finish()[0].joined);
}

TEST(rendezvous_failure, a_method_that_cannot_be_is_named) {
  crowd c(2);
  const std::pair<const char*, const char*> cases[] = {
      {"http://x", "this kind is unknown"},
      {"tcp://host", "there is no port"},
      {"tcp://:1", "there is no host"},
      {"tcp://host:99999", "'99999' is not a port"},
      {"tcp://[::1]", "there is no [HOST]:PORT"},
      {"file://relative", "there is no absolute path"},
      {"file:///folder/", "there is no absolute path"},
      {"file:///d:/tmp/meet", "on drive d: of Windows"},
      {"file://////machine/share/meet", "in share 'share' of machine 'machine'"},
      {"tcp://a:1?rank=x", "'x' is no rank"},
      {"tcp://a:1?colour=red", "it knows no parameter 'colour'"},
  };
  for (const auto& [method, why] : cases) {
    auto o = c.options(0);
    o.init_method = method;
    const auto result = alone(o).error;
    EXPECT_CONTAINS(result, why);
    EXPECT_CONTAINS(result, method);
  }
  auto o = c.options(1);
  o.init_method = "tcp://127.0.0.1:0";
  EXPECT_CONTAINS(alone(o).error, "port 0 lets rank 0 choose any free port");
  o = c.options(0);
  o.timeout = 0ms;
  EXPECT_CONTAINS(alone(o).error, "the timeout of a rendezvous must be more than 0 ms");
}

TEST(rendezvous_failure, variables_that_are_missing_are_named) {
  rendezvous_options o;
  o.variables = variables({});
  EXPECT_CONTAINS(alone(o).error, "environment variable RANK expected, but not set");
  o.rank = 1;
  EXPECT_CONTAINS(alone(o).error, "environment variable WORLD_SIZE expected, but not set");
  o.world_size = 2;
  EXPECT_CONTAINS(alone(o).error, "environment variable MASTER_ADDR expected, but not set");
  o.variables = variables({{"TROUPE_JOB_SECRET", "short"}, {"MASTER_ADDR", "127.0.0.1"}});
  EXPECT_CONTAINS(alone(o).error, "environment variable TROUPE_JOB_SECRET cannot be used");
}

TEST(rendezvous_failure, a_file_that_cannot_be_used_is_named) {
  crowd c(2);
  auto o = c.options(0);
  o.init_method = "file:///no/such/folder/meet";
  EXPECT_CONTAINS(alone(o).error, "/no/such/folder/meet cannot be opened");
}

TEST(rendezvous_failure, ranks_are_listed_as_people_do) {
  const std::uint32_t ranks[] = {1, 2, 5};
  EXPECT_EQ(name_ranks(std::span(ranks, 1), 8), "rank 1 of 8");
  EXPECT_EQ(name_ranks(std::span(ranks, 2), 8), "ranks 1 and 2 of 8");
  EXPECT_EQ(name_ranks(ranks, 8), "ranks 1, 2 and 5 of 8");
  std::vector<std::uint32_t> many(100);
  EXPECT_CONTAINS(name_ranks(many, 200), " and 68 more of 200");
}

}  // namespace
}  // namespace troupe::transport::test
