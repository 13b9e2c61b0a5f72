// What only the store on the network has: strangers, garbage, silence, and a server that dies.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <random>
#include <thread>

#include "tests/transport/store/tcp/raw_client.hpp"
#include "troupe/messages/base/error.hpp"
#include "troupe/transport/store/tcp/store_handshake.hpp"

namespace troupe::transport::test {
namespace {

TEST(tcp_store, who_does_not_know_the_secret_is_refused_within_two_seconds) {
  served_store s;
  const auto start = std::chrono::steady_clock::now();
  const auto message =
      text_of<store_error>([&] { tcp_store(s.where(), job_secret(), deadline_after(wait_limit)); });
  EXPECT_CONTAINS(message, "it does not know this job's secret");
  EXPECT_CONTAINS(message, to_string(s.where()));
  EXPECT_LT(std::chrono::steady_clock::now() - start, soon_enough);
  EXPECT_TRUE(eventually([&] { return s.server.count().wrong_secret > 0; }));
  EXPECT_EQ(s.server.count().clients, 0u);
}

TEST(tcp_store, a_wrong_proof_is_counted_and_reported_to_whoever_asks) {
  served_store s;
  auto fd = connect_raw(s.where());
  store_handshake handshake(s.secret);
  ASSERT_EQ(write_all(fd.get(), handshake.greet(), deadline_after(wait_limit)), io_result::done);
  store_handshake::challenge challenge;
  ASSERT_EQ(read_all(fd.get(), challenge, deadline_after(wait_limit)), io_result::done);
  ASSERT_EQ(write_all(fd.get(), store_handshake::answer{}, deadline_after(wait_limit)),
            io_result::done);
  EXPECT_TRUE(ended(fd.get(), wait_limit));
  EXPECT_EQ(s.server.count().wrong_secret, 1u);
  EXPECT_CONTAINS(s.client()->refusals(),
                  "1 connection did not prove knowledge of the job's secret");
}

TEST(tcp_store, a_server_of_something_else_is_recognised) {
  auto listener = listen_somewhere();
  const auto port = local_address(listener.get()).port();
  std::thread web([&] {
    // Answers each connection as a web server would, until it is closed.
    while (wait_readable(listener.get(), deadline_after(wait_limit))) {
      unique_fd fd(accept(listener.get(), nullptr, nullptr));
      if (!fd) break;
      const std::string answer(100, 'H');
      write_all(fd.get(), std::as_bytes(std::span(answer)), deadline_after(wait_limit));
      ended(fd.get(), wait_limit);
    }
  });
  EXPECT_CONTAINS(text_of<store_error>([&] {
                    tcp_store({"127.0.0.1", port}, job_secret(), deadline_after(wait_limit));
                  }),
                  "the server there is no store of Troupe");
  shutdown(listener.get(), SHUT_RDWR);
  web.join();
}

TEST(tcp_store, nobody_there_is_reported_in_time) {
  const auto port = free_port();
  const auto start = std::chrono::steady_clock::now();
  const auto message = text_of<store_error>([&] {
    tcp_store({"127.0.0.1", port}, job_secret(), deadline_after(200ms));
  });
  const auto took = std::chrono::steady_clock::now() - start;
  EXPECT_CONTAINS(message, " within 0.");
  EXPECT_CONTAINS(message, " s: Connection refused");
  EXPECT_GE(took, 200ms);
  EXPECT_LT(took, soon_enough);
}

TEST(tcp_store, a_server_that_sends_nothing_is_reported_in_time) {
  auto silent = listen_somewhere();
  const auto port = local_address(silent.get()).port();
  const auto message = text_of<store_error>([&] {
    tcp_store({"127.0.0.1", port}, job_secret(), deadline_after(300ms));
  });
  EXPECT_CONTAINS(message, "it accepts connections, but sends nothing");
}

TEST(tcp_store, an_unknown_host_is_reported_in_time) {
  const auto start = std::chrono::steady_clock::now();
  const auto message = text_of<store_error>([&] {
    tcp_store({"no-such-host.invalid", 1}, job_secret(), deadline_after(300ms));
  });
  EXPECT_CONTAINS(message, "no-such-host.invalid");
  EXPECT_LT(std::chrono::steady_clock::now() - start, soon_enough);
}

TEST(tcp_store, a_black_hole_is_reported_in_time) {
  // 192.0.2.0/24 is reserved for documentation: packets vanish, or there is no route at all.
  const auto start = std::chrono::steady_clock::now();
  const auto message = text_of<store_error>([&] {
    tcp_store({"192.0.2.1", 29500}, job_secret(), deadline_after(300ms));
  });
  EXPECT_CONTAINS(message, "192.0.2.1:29500 within 0.");
  EXPECT_LT(std::chrono::steady_clock::now() - start, soon_enough);
}

TEST(tcp_store, half_open_connections_are_dropped_and_hold_up_nobody) {
  served_store s({.strangers = 64, .proof_time = 2s});
  std::vector<unique_fd> silent;
  for (int i = 0; i < 50; ++i) silent.push_back(connect_raw(s.where()));
  std::byte one{'T'};
  for (auto& fd : silent) write_all(fd.get(), std::span(&one, 1), deadline_after(wait_limit));
  auto client = s.client();
  for (int i = 0; i < 100; ++i) client->add("n", 1);
  for (auto& fd : silent) EXPECT_TRUE(ended(fd.get(), wait_limit));
  EXPECT_EQ(s.server.count().strangers, 50u);
  EXPECT_EQ(client->add("n", 0), 100);
}

TEST(tcp_store, too_many_strangers_push_out_the_oldest) {
  served_store s({.strangers = 8, .proof_time = 60s});
  std::vector<unique_fd> silent;
  for (int i = 0; i < 20; ++i) {
    silent.push_back(connect_raw(s.where()));
    ASSERT_TRUE(eventually([&] { return s.server.count().accepted == std::size_t(i + 1); }));
  }
  for (int i = 0; i < 12; ++i) EXPECT_TRUE(ended(silent[i].get(), wait_limit)) << i;
  EXPECT_EQ(s.client()->add("n", 1), 1);
}

TEST(tcp_store, two_thousand_silent_connections_hold_up_nobody) {
  rlimit descriptors{};
  getrlimit(RLIMIT_NOFILE, &descriptors);
  descriptors.rlim_cur = descriptors.rlim_max;
  setrlimit(RLIMIT_NOFILE, &descriptors);
  if (descriptors.rlim_cur < 3000) GTEST_SKIP() << "needs 3,000 descriptors (ulimit -Hn)";
  served_store s({.strangers = 64});
  auto early = s.client();
  std::vector<unique_fd> silent;
  for (int i = 0; i < 2000; ++i) silent.push_back(connect_raw(s.where()));
  EXPECT_EQ(s.client()->add("n", 1), 1);
  EXPECT_EQ(early->add("n", 1), 2);
  EXPECT_TRUE(eventually([&] { return s.server.count().accepted >= 2002; }));
  EXPECT_GE(s.server.count().strangers, 2000u - 64);
}

TEST(tcp_store, garbage_never_reaches_a_decoder_nor_the_clients) {
  served_store s;
  std::atomic<bool> stop = false;
  std::atomic<int> adds = 0;
  std::thread worker([&] {
    auto client = s.client();
    while (!stop) {
      client->add("n", 1);
      ++adds;
    }
  });
  std::mt19937 random(1);
  const auto greeting = store_handshake(job_secret()).greet();
  for (int i = 0; i < 5000; ++i) {
    auto fd = connect_raw(s.where());
    std::vector<std::byte> noise(random() % 200);
    for (auto& b : noise) b = std::byte(random());
    // Every third begins as a real client does, cut off or not.
    if (i % 3 == 0) {
      noise.insert(noise.begin(), greeting.begin(), greeting.begin() + random() % 41);
    }
    write_all(fd.get(), noise, deadline_after(wait_limit));
  }
  EXPECT_TRUE(eventually([&] {
    const auto c = s.server.count();
    return c.strangers + c.wrong_secret >= 5000 && adds > 0;
  }));
  stop = true;
  worker.join();
  EXPECT_EQ(s.client()->add("n", 0), adds);
  EXPECT_EQ(s.server.count().garbled, 0u);
}

TEST(tcp_store, a_client_that_sends_garbage_is_dropped) {
  served_store s;
  auto good = s.client();
  auto no_request = connect_proven(s);
  write_request(no_request, to_bytes("this is no request, though it is long enough"));
  EXPECT_TRUE(ended(no_request.fd.get(), wait_limit));
  auto no_length = connect_proven(s);
  const std::uint32_t huge = 0xffffffff;
  write_all(no_length.fd.get(), std::as_bytes(std::span(&huge, 1)), deadline_after(wait_limit));
  EXPECT_TRUE(ended(no_length.fd.get(), wait_limit));
  EXPECT_EQ(s.server.count().garbled, 2u);
  EXPECT_EQ(good->add("n", 1), 1);
}

// Somebody on the way, who has let the proofs pass.
TEST(tcp_store, altered_and_repeated_requests_end_a_connection) {
  served_store s;
  auto good = s.client();
  const auto request =
      encode(store_request{.what = store_request::op::add, .keys = {"n"}, .delta = 1});
  std::uint64_t garbled = 0;
  for (const std::size_t at : {std::size_t{5}, request.size(), request.size() + 8}) {
    auto altered = connect_proven(s);
    auto sealed = altered.channel->seal(request);
    sealed.at(at) ^= std::byte{1};
    write_all(altered.fd.get(), sealed, deadline_after(wait_limit));
    EXPECT_TRUE(ended(altered.fd.get(), wait_limit)) << at;
    EXPECT_EQ(s.server.count().garbled, ++garbled);
  }
  auto repeated = connect_proven(s);
  const auto sealed = repeated.channel->seal(request);
  write_all(repeated.fd.get(), sealed, deadline_after(wait_limit));
  EXPECT_EQ(read_reply(repeated).number, 1);
  write_all(repeated.fd.get(), sealed, deadline_after(wait_limit));
  EXPECT_TRUE(ended(repeated.fd.get(), wait_limit));
  EXPECT_EQ(good->add("n", 1), 2);
}

TEST(tcp_store, what_is_stored_cannot_be_read_on_the_way) {
  served_store s;
  auto client = connect_proven(s);
  const std::string secret = "nobody else shall read this";
  const auto sealed = client.channel->seal(encode(
      store_request{.what = store_request::op::set, .keys = {"k"}, .value = to_bytes(secret)}));
  EXPECT_EQ(to_text(sealed).find(secret), std::string::npos);
}

TEST(tcp_store, a_client_that_stalls_in_a_request_is_dropped) {
  served_store s({.stall_time = 2s});
  auto stalled = connect_proven(s);
  const std::uint32_t length = 1000;
  write_all(stalled.fd.get(), std::as_bytes(std::span(&length, 1)), deadline_after(wait_limit));
  EXPECT_EQ(s.client()->add("n", 1), 1);
  EXPECT_TRUE(ended(stalled.fd.get(), wait_limit));
}

TEST(tcp_store, replies_that_nobody_takes_are_bounded) {
  served_store s({.stall_time = 3s, .reply_bytes = 1 << 20});
  auto client = s.client();
  const std::vector<std::byte> large(4 << 20);
  client->set("large", large);
  // Ask for it eight times over and never read.
  const auto request = encode(store_request{.what = store_request::op::get, .keys = {"large"}});
  std::vector<store_link> greedy;
  for (int i = 0; i < 8; ++i) {
    greedy.push_back(connect_proven(s));
    write_request(greedy.back(), request);
  }
  EXPECT_EQ(client->get("large", wait_limit), large);  // as soon as the greedy ones are dropped
  EXPECT_EQ(client->add("n", 1), 1);
}

TEST(tcp_store, a_full_store_reports_it) {
  served_store s({.stored_bytes = 1000});
  auto client = s.client();
  EXPECT_CONTAINS(text_of<store_error>([&] { client->set("k", std::string(2000, 'x')); }),
                  "the store is full");
  client->set("k", std::string(900, 'x'));
  client->set("k", std::string(950, 'y'));
  EXPECT_TRUE(client->delete_key("k"));
  client->set("j", std::string(900, 'x'));
}

TEST(tcp_store, more_values_than_it_may_have_are_refused) {
  served_store s({.entries = 2});
  auto client = s.client();
  client->set("a", "1");
  client->queue_push("q", "1");
  const std::string full = "the store is full: it has 2 values of 2";
  EXPECT_CONTAINS(text_of<store_error>([&] { client->set("b", "1"); }), full);
  EXPECT_CONTAINS(text_of<store_error>([&] { client->queue_push("q", "2"); }), full);
  client->set("a", "2");
  EXPECT_EQ(to_text(client->queue_pop("q", wait_limit)), "1");
  client->set("b", "1");
}

TEST(tcp_store, a_value_of_a_queue_is_not_lost_with_one_who_waited_for_another) {
  served_store s;
  auto client = s.client();
  auto gone = connect_proven(s);
  const store_request pop{
      .what = store_request::op::queue_pop, .keys = {"q"}, .timeout = wait_limit};
  write_request(gone, encode(pop));
  auto stays = connect_proven(s);
  write_request(stays, encode(pop));
  ASSERT_TRUE(eventually([&] { return s.server.count().clients == 3; }));
  gone = store_link();
  ASSERT_TRUE(eventually([&] { return s.server.count().clients == 2; }));
  client->queue_push("q", "1");
  EXPECT_EQ(to_text(read_reply(stays).value), "1");
}

// The same for one who goes when it has been woken and before it is served. The server is kept busy
// so that it finds both, the value and the end, at once.
TEST(tcp_store, a_value_of_a_queue_is_not_lost_with_one_who_was_woken) {
  served_store s;
  s.client()->set("large", std::string(16 << 20, 'x'));
  const auto pop = encode(store_request{
      .what = store_request::op::queue_pop, .keys = {"q"}, .timeout = 3 * wait_limit});
  const auto push = encode(
      store_request{.what = store_request::op::queue_push, .keys = {"q"}, .value = to_bytes("1")});
  const auto get = encode(store_request{.what = store_request::op::get, .keys = {"large"}});
  for (int i = 0; i < 5; ++i) {
    auto busy = connect_proven(s);
    auto giver = connect_proven(s);
    auto goes = connect_proven(s);
    write_request(goes, pop);
    auto stays = connect_proven(s);
    write_request(stays, pop);
    s.client()->add("n", 1);
    write_request(busy, get);
    write_request(giver, push);
    shutdown(goes.fd.get(), SHUT_WR);
    read_reply(busy);
    std::uint32_t length = 0;
    const auto end = read_all(goes.fd.get(), std::as_writable_bytes(std::span(&length, 1)),
                              deadline_after(wait_limit));
    if (end == io_result::done) continue;  // it was quicker
    ASSERT_EQ(end, io_result::closed);
    ASSERT_EQ(to_text(read_reply(stays).value), "1") << i;
  }
}

TEST(tcp_store, a_server_without_descriptors_takes_clients_again_when_there_are_some) {
  served_store s;
  auto client = s.client();
  EXPECT_EQ(client->add("n", 1), 1);
  unique_fd late(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  ASSERT_TRUE(late);
  const auto where = loopback(s.where().port);
  rlimit usual{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &usual), 0);
  const int lowest = fcntl(late.get(), F_DUPFD_CLOEXEC, 0);
  ASSERT_GE(lowest, 0);
  close(lowest);
  auto none = usual;
  none.rlim_cur = static_cast<rlim_t>(lowest);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const int made = connect(late.get(), where.get(), where.length);
  const bool connecting = made == 0 || errno == EINPROGRESS;
  std::this_thread::sleep_for(200ms);  // it has noticed, most likely
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &usual), 0);
  ASSERT_TRUE(connecting);
  const auto proven = prove(s, std::move(late));  // though none has left
  EXPECT_EQ(client->add("n", 1), 2);
}

TEST(tcp_store, a_client_that_dies_while_it_waits_is_forgotten) {
  served_store s;
  {
    auto fd = connect_proven(s);
    write_request(
        fd, encode(store_request{.what = store_request::op::get, .keys = {"k"}, .timeout = 60s}));
    ASSERT_TRUE(eventually([&] { return s.server.count().clients == 1; }));
  }
  EXPECT_TRUE(eventually([&] { return s.server.count().clients == 0; }));
  s.client()->set("k", "1");
}

TEST(tcp_store, a_server_that_ends_fails_those_who_wait) {
  auto s = std::make_unique<served_store>();
  const auto where = s->where();
  auto client = s->client();
  std::atomic<bool> failed = false;
  std::thread waiter([&] {
    EXPECT_CONTAINS(text_of<store_error>([&] { client->get("never", 60s); }),
                    "(in a job rank 0) has ended, crashed or cannot be reached");
    failed = true;
  });
  ASSERT_TRUE(eventually([&] { return s->server.count().clients >= 1; }));
  s.reset();
  waiter.join();
  EXPECT_TRUE(failed);
  EXPECT_CONTAINS(text_of<store_error>([&] { client->add("n", 1); }), to_string(where));
}

// It has nothing of what was stored: a survivor of one run shall not write into the next.
TEST(tcp_store, a_server_that_was_started_again_is_another_one) {
  auto first = std::make_unique<served_store>();
  const auto secret = first->secret;
  const auto port = first->where().port;
  const auto client = first->client(), sibling = first->client();
  client->set("k", "1");
  first.reset();
  auto listener = listen_on(loopback(port));
  ASSERT_TRUE(listener.fd) << std::strerror(listener.error);
  tcp_store_server second(std::move(listener.fd), secret, {});
  for (const auto& one : {client.get(), sibling.get()})
    EXPECT_CONTAINS(text_of<store_error>([&] { one->set("k", "2"); }), "is another one");
  tcp_store fresh({"127.0.0.1", port}, secret, deadline_after(wait_limit));
  EXPECT_EQ(fresh.num_keys(), 0u);
}

TEST(tcp_store, draining_waits_for_clients) {
  served_store s;
  auto client = s.client();
  std::atomic<bool> drained = false;
  std::thread drain([&] {
    s.server.drain(wait_limit);
    drained = true;
  });
  // The connected client can go on; no other gets in.
  EXPECT_TRUE(eventually(
      [&] { return !connect_to(loopback(s.where().port), deadline_after(wait_limit)).fd; }));
  EXPECT_EQ(client->add("n", 1), 1);
  EXPECT_FALSE(drained);
  client->close();
  drain.join();
  EXPECT_CONTAINS(text_of<store_error>([&] { client->add("n", 1); }), "closed by this rank");
}

TEST(tcp_store, serves_many_clients) {
  served_store s;
  std::vector<std::unique_ptr<tcp_store>> clients;
  for (int i = 0; i < 300; ++i) clients.push_back(s.client());
  for (int round = 0; round < 3; ++round)
    for (auto& c : clients) c->add("n", 1);
  EXPECT_EQ(clients.front()->add("n", 0), 900);
  EXPECT_EQ(s.server.count().clients, 300u);
}

}  // namespace
}  // namespace troupe::transport::test
