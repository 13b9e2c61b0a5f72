// Stores on the network as programs open them: which process serves, which waits, which is refused.
#include "troupe/transport/rendezvous/open_store.hpp"

#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <future>
#include <thread>
#include <vector>

#include "tests/forking.hpp"
#include "tests/transport/rendezvous/rendezvous_fixture.hpp"
#include "troupe/messages/base/error.hpp"

namespace troupe::transport::test {
namespace {

using opened = std::shared_ptr<tcp_store>;

class open_store : public testing::Test {
protected:
  tcp_store_options server(std::uint16_t port = 0) const {
    tcp_store_options out;
    out.port = port;
    out.serves = true;
    out.secret = secret;
    out.timeout = wait_limit;
    out.variables = variables({});
    return out;
  }

  tcp_store_options client(std::uint16_t port) const {
    auto out = server(port);
    out.serves = false;
    return out;
  }

  job_secret secret;
};

TEST_F(open_store, takes_any_free_port) {
  const auto a = open_tcp_store(server());
  const auto b = open_tcp_store(server());
  EXPECT_NE(a->where().port, 0);
  EXPECT_NE(a->where().port, b->where().port);
  const auto guest = open_tcp_store(client(a->where().port));
  guest->set("k", "1");
  EXPECT_EQ(to_text(a->get("k")), "1");
  EXPECT_EQ(b->num_keys(), 0u);
  EXPECT_EQ(guest->timeout(), wait_limit);
}

TEST_F(open_store, ends_with_who_serves) {
  auto host = open_tcp_store(server());
  const auto guest = open_tcp_store(client(host->where().port));
  auto kept = host;
  host.reset();
  EXPECT_EQ(guest->add("n", 1), 1);
  kept.reset();
  EXPECT_CONTAINS(text_of<store_error>([&] { guest->add("n", 1); }), to_string(guest->where()));
}

TEST_F(open_store, serves_who_comes_before_it_is_there) {
  const auto port = free_port();
  auto early = std::async(std::launch::async, [&] { return open_tcp_store(client(port)); });
  const auto host = open_tcp_store(server(port));
  early.get()->set("k", "1");
  EXPECT_EQ(to_text(host->get("k", wait_limit)), "1");
}

TEST_F(open_store, fails_in_time_where_nobody_serves) {
  auto options = client(free_port());
  options.timeout = 200ms;
  const auto start = std::chrono::steady_clock::now();
  const auto message = text_of<store_error>([&] { open_tcp_store(options); });
  const auto took = std::chrono::steady_clock::now() - start;
  EXPECT_CONTAINS(message, " s: Connection refused");
  EXPECT_GE(took, 200ms);
  EXPECT_LT(took, soon_enough);
}

TEST_F(open_store, waits_for_its_workers) {
  auto options = server(free_port());
  options.world_size = 4;
  auto host = std::async(std::launch::async, [&] { return open_tcp_store(options); });
  auto guests = client(options.port);
  guests.world_size = 4;
  std::vector<opened> came;
  for (int i = 0; i < 2; ++i) came.push_back(open_tcp_store(guests));  // these do not wait
  EXPECT_EQ(host.wait_for(50ms), std::future_status::timeout);
  came.push_back(open_tcp_store(guests));
  EXPECT_EQ(host.get()->add("n", 1), 1);
}

TEST_F(open_store, counts_the_workers_that_came) {
  auto options = server();
  options.world_size = 3;
  options.timeout = 2s;
  EXPECT_CONTAINS(text_of<store_error>([&] { open_tcp_store(options); }),
                  "wait timeout after 2000 ms: 1 of 3 workers came to the store at 127.0.0.1:");
  options.wait_for_workers = false;
  EXPECT_EQ(open_tcp_store(options)->num_keys(), 0u);
}

TEST_F(open_store, is_shared_by_those_of_one_process_who_ask_for_it) {
  auto options = server(free_port());
  options.multi_tenant = true;
  options.world_size = 6;
  std::vector<std::future<opened>> coming;
  for (std::uint32_t i = 0; i < options.world_size; ++i)
    coming.push_back(std::async(std::launch::async, [&] { return open_tcp_store(options); }));
  std::vector<opened> all;
  for (auto& one : coming) all.push_back(one.get());
  for (const auto& one : all) one->add("n", 1);
  // The server lives as long as the last of them, whichever started it.
  while (all.size() > 1) {
    all.erase(all.begin());
    EXPECT_EQ(all.back()->add("n", 0), 6);
  }
  const auto guest = open_tcp_store(client(options.port));
  auto other_secret = options;
  other_secret.secret = job_secret();
  EXPECT_CONTAINS(text_of<store_error>([&] { open_tcp_store(other_secret); }),
                  "with another secret");
  all.clear();
  EXPECT_THROW(guest->add("n", 0), store_error);
  // And the next one is new.
  options.world_size = 0;
  EXPECT_EQ(open_tcp_store(options)->num_keys(), 0u);
}

// One begins to serve while the last of the others ends its server.
TEST_F(open_store, is_shared_by_those_who_come_as_others_go) {
  const temporary_folder folder;
  auto options = server(free_port());
  options.multi_tenant = true;
  options.secret.reset();  // ends later, since there is a file to remove
  options.variables = variables({{"XDG_RUNTIME_DIR", folder.path.string()}});
  const auto come_and_go = [&] {
    for (int i = 0; i < 200; ++i) open_tcp_store(options)->add("n", 1);
  };
  auto others = std::async(std::launch::async, come_and_go);
  EXPECT_NO_THROW(come_and_go());
  EXPECT_NO_THROW(others.get());
}

TEST_F(open_store, is_nobody_elses_to_serve) {
  const auto host = open_tcp_store(server());
  const auto message = text_of<store_error>([&] { open_tcp_store(server(host->where().port)); });
  EXPECT_CONTAINS(message, "is served already");
  EXPECT_CONTAINS(message, "multi_tenant");
  auto stranger = server(host->where().port);
  stranger.secret = job_secret();
  EXPECT_CONTAINS(text_of<store_error>([&] { open_tcp_store(stranger); }),
                  "is in use by another program");
}

TEST_F(open_store, agrees_on_a_secret_that_nobody_has_given) {
  const temporary_folder folder;
  auto options = server();
  options.secret.reset();
  options.variables = variables({{"XDG_RUNTIME_DIR", folder.path.string()}});
  const auto host = open_tcp_store(options);
  auto guest = options;
  guest.serves = false;
  guest.port = host->where().port;
  open_tcp_store(guest)->set("k", "1");
  EXPECT_EQ(to_text(host->get("k")), "1");
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path)) {
    struct stat s {};
    ASSERT_EQ(lstat(entry.path().c_str(), &s), 0);
    EXPECT_EQ(s.st_mode & 077, 0u) << entry.path();
    files += entry.is_regular_file();
  }
  EXPECT_GE(files, 1u);
  auto wrong = guest;
  wrong.secret = job_secret();
  EXPECT_CONTAINS(text_of<store_error>([&] { open_tcp_store(wrong); }),
                  "it does not know this job's secret");
}

TEST_F(open_store, gives_another_user_of_the_host_nothing) {
  const temporary_folder folder;
  auto options = server();
  options.secret.reset();
  options.variables = variables({{"XDG_RUNTIME_DIR", folder.path.string()}});
  const auto host = open_tcp_store(options);
  host->set("k", "mine");
  auto guest = options;
  guest.serves = false;
  guest.port = host->where().port;
  guest.timeout = 300ms;
  const int status = troupe::test::in_child([&] {
    constexpr uid_t other_user = 65'534;
    if (setgroups(0, nullptr) != 0 || setresuid(other_user, other_user, other_user) != 0) return 98;
    try {
      open_tcp_store(guest);
    } catch (const store_error&) {
      return 0;
    }
    return 1;
  });
  if (status == 98) GTEST_SKIP() << "only root can be another user";
  EXPECT_EQ(status, 0);
}

TEST_F(open_store, refuses_what_cannot_be) {
  auto options = client(0);
  EXPECT_CONTAINS(text_of<invalid_argument>([&] { open_tcp_store(options); }), "port 0");
  options = server();
  options.timeout = 0ms;
  EXPECT_THROW(open_tcp_store(options), invalid_argument);
  options = server();
  options.host = "192.0.2.1";
  options.secret.reset();
  EXPECT_CONTAINS(text_of<store_error>([&] { open_tcp_store(options); }), "has no secret");
  options.variables = variables({{"TROUPE_JOB_SECRET", "short"}});
  EXPECT_CONTAINS(text_of<store_error>([&] { open_tcp_store(options); }), "TROUPE_JOB_SECRET");
  options.variables = variables({{"TROUPE_JOB_SECRET", secret.hex()}});
  EXPECT_CONTAINS(text_of<store_error>([&] { open_tcp_store(options); }),
                  "this machine has no such address");
}

}  // namespace
}  // namespace troupe::transport::test
