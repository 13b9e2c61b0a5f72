// A process that is forked beside a store: it gets an error at once, and the store stays as it is.

#include "tests/forking.hpp"
#include "tests/transport/store/store_fixture.hpp"
#include "troupe/messages/base/error.hpp"
#include "troupe/transport/store/file_store.hpp"
#include "troupe/transport/store/hash_store.hpp"

namespace troupe::transport::test {
namespace {

using troupe::test::idle_child;
using troupe::test::in_child;
using troupe::test::parent_of_an_idle_child;

template <class F>
bool refused(F&& f) {
  return troupe::test::refused_as_forked<store_error>(f);
}

// How many kinds of use are possible that should not be.
int uses_of(store& one) {
  const std::string key = "k";
  const std::string keys[] = {key};
  int possible = 0;
  possible += !refused([&] { one.set(key, "child"); });
  possible += !refused([&] { one.get(key, 0ms); });
  possible += !refused([&] { one.wait(keys, 0ms); });
  possible += !refused([&] { one.add("n", 1); });
  possible += !refused([&] { one.compare_set(key, to_bytes("1"), to_bytes("2")); });
  possible += !refused([&] { one.delete_key(key); });
  possible += !refused([&] { one.num_keys(); });
  possible += !refused([&] { one.check(keys); });
  possible += !refused([&] { one.append(key, "child"); });
  possible += !refused([&] { one.multi_get(keys, 0ms); });
  possible += !refused([&] { one.multi_set(keys, std::vector<store::bytes>{to_bytes("child")}); });
  possible += !refused([&] { one.list_keys(); });
  possible += !refused([&] { one.queue_push(key, "child"); });
  possible += !refused([&] { one.queue_try_pop(key); });
  possible += !refused([&] { one.queue_len(key); });
  possible += !refused([&] { one.clone(); });
  return possible;
}

TEST(store_fork, a_file_store_is_the_parents) {
  const temporary_folder folder;
  const job_secret secret;
  const auto path = folder.path / "store";
  auto mine = std::make_unique<file_store>(path, secret);
  mine->set("k", "1");
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(in_child([&] {
                const int possible = uses_of(*mine);
                mine.reset();
                return possible;
              }),
              0);
    EXPECT_TRUE(std::filesystem::exists(path));
    EXPECT_EQ(to_text(mine->get("k", 0ms)), "1");
  }
  // Another one of its own is like any other process's.
  EXPECT_EQ(in_child([&] {
              file_store own(path, secret);
              own.set("k", "2");
              return to_text(own.get("k")) == "2" ? 0 : 1;
            }),
            0);
  EXPECT_EQ(to_text(mine->get("k", 0ms)), "2");
}

TEST(store_fork, a_store_in_memory_is_the_parents) {
  auto mine = std::make_unique<hash_store>();
  mine->set("k", "1");
  EXPECT_EQ(in_child([&] {
              const int possible = uses_of(*mine);
              mine.reset();
              return possible;
            }),
            0);
  EXPECT_EQ(to_text(mine->get("k", 0ms)), "1");
}

TEST(store_fork, a_connection_and_a_server_are_the_parents) {
  auto served = std::make_unique<served_store>();
  auto mine = served->client();
  mine->set("k", "1");
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(in_child([&] {
                const int possible = uses_of(*mine);
                mine.reset();
                served.reset();
                return possible;
              }),
              0);
    EXPECT_EQ(to_text(mine->get("k")), "1");
  }
}

// A child that outlives the store keeps nothing of it: a process that opens a file that no other
// has open starts it afresh.
TEST(store_fork, a_child_keeps_no_lock) {
  const temporary_folder folder;
  const job_secret secret;
  const auto path = folder.path / "store";
  parent_of_an_idle_child parent([&] {
    auto one = std::make_unique<file_store>(path, secret);
    one->set("k", "1");
    return one;
  });
  ASSERT_TRUE(parent.ready());
  parent.kill();
  file_store next(path, secret);
  EXPECT_EQ(next.num_keys(), 0u);
}

TEST(store_fork, a_child_keeps_no_port_and_no_connection) {
  auto served = std::make_unique<served_store>();
  const auto port = served->server.port();
  auto client = served->client();
  client->set("k", "1");
  const idle_child child;
  client.reset();
  EXPECT_TRUE(eventually([&] { return served->server.count().clients == 0; }));
  served.reset();
  EXPECT_TRUE(listen_on(loopback(port)).fd);
}

}  // namespace
}  // namespace troupe::transport::test
