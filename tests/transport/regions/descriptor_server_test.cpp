// What others may do to the socket that hands out memory.

#include <gtest/gtest.h>
#include <unistd.h>

#include <optional>

#include "tests/forking.hpp"
#include "tests/log_lines.hpp"
#include "tests/transport/regions/memory_fixture.hpp"
#include "troupe/messages/base/random.hpp"
#include "troupe/transport/regions/fetch_descriptor.hpp"

namespace troupe::transport::test {
namespace {

using namespace std::chrono_literals;

class descriptor_server_of : public testing::Test {
protected:
  // Is it served? And are there then as many descriptors as before?
  void still_serves() {
    EXPECT_TRUE(fetch_region(owner.server.address(), secret, soon()));
    EXPECT_TRUE(descriptors.now());
  }
  bool refuses(refusal_cause why, std::uint64_t times) {
    return comes_true([&] { return owner.server.counts().refused(why) == times; });
  }

  const job_secret secret;
  const job_secret key = descriptor_handshake::key(secret);
  troupe::test::log_lines lines;
  served_memory owner{secret};
  const region_address address = owner.server.address();
  const same_descriptors descriptors;
};

TEST_F(descriptor_server_of, a_job_refuses_who_has_another_secret) {
  // The server's own proof tells the client; a client that goes on all the same gets nothing.
  const auto why = error_of_call([&] { fetch_region(address, job_secret(), soon()); });
  EXPECT_NE(why.find("does not have the job's secret"), why.npos) << why;
  EXPECT_NE(why.find("checking the server's proof"), why.npos) << why;
  {
    const raw_client client(address);
    descriptor_handshake mine(descriptor_handshake::key(job_secret()), address);
    EXPECT_TRUE(client.say(bytes_of(mine.greet())));
    descriptor_handshake::challenge challenge;
    EXPECT_TRUE(client.hear(challenge));
    EXPECT_TRUE(client.say(bytes_of(descriptor_handshake::answer{})));
    EXPECT_TRUE(client.is_refused(refusal_cause::no_secret));
  }
  EXPECT_TRUE(refuses(refusal_cause::no_secret, 1));
  still_serves();
}

TEST_F(descriptor_server_of, a_job_has_a_key_of_its_own) {
  // The job's secret itself, not its subkey.
  const raw_client client(address);
  descriptor_handshake mine(secret, address);
  client.say(bytes_of(mine.greet()));
  descriptor_handshake::challenge challenge;
  EXPECT_TRUE(client.hear(challenge));
  descriptor_handshake::answer answer;
  EXPECT_FALSE(mine.meet(challenge, answer));
}

TEST_F(descriptor_server_of, a_job_refuses_reflected_proofs) {
  {
    const raw_client client(address);
    descriptor_handshake mine(key, address);
    client.say(bytes_of(mine.greet()));
    descriptor_handshake::challenge challenge;
    ASSERT_TRUE(client.hear(challenge));
    client.say(bytes_of(descriptor_handshake::answer{challenge.proof}));
    EXPECT_TRUE(client.is_refused(refusal_cause::no_secret));
  }
  still_serves();
}

TEST_F(descriptor_server_of, a_job_refuses_replayed_connections) {
  {
    descriptor_handshake mine(key, address);
    const auto hello = mine.greet();
    descriptor_handshake::answer answer;
    descriptor_handshake::challenge challenge;
    descriptor_handshake::grant grant{};
    const raw_client good(address);
    good.say(bytes_of(hello));
    ASSERT_TRUE(good.hear(challenge));
    ASSERT_TRUE(mine.meet(challenge, answer));
    good.say(bytes_of(answer));
    ASSERT_TRUE(good.hear(grant));
    EXPECT_EQ(grant.id, address.id);

    const raw_client again(address);
    again.say(bytes_of(hello));
    ASSERT_TRUE(again.hear(challenge));
    again.say(bytes_of(answer));
    EXPECT_TRUE(again.is_refused(refusal_cause::no_secret));
  }
  EXPECT_TRUE(refuses(refusal_cause::no_secret, 1));
  still_serves();
}

TEST_F(descriptor_server_of, a_job_refuses_other_hellos) {
  descriptor_handshake mine(key, address);
  auto hello = mine.greet();
  hello.version += 1;
  {
    const raw_client client(address);
    client.say(bytes_of(hello));
    EXPECT_TRUE(client.is_refused(refusal_cause::other_version));
  }
  hello = mine.greet();
  hello.magic += 1;
  {
    const raw_client client(address);
    client.say(bytes_of(hello));
    EXPECT_TRUE(client.is_refused(refusal_cause::malformed));
  }
  hello = mine.greet();
  hello.id[5] ^= std::byte{1};
  {
    const raw_client client(address);
    client.say(bytes_of(hello));
    EXPECT_TRUE(client.is_refused(refusal_cause::other_region));
  }
  hello = mine.greet(static_cast<region_access>(2));
  {
    const raw_client client(address);
    client.say(bytes_of(hello));
    EXPECT_TRUE(client.is_refused(refusal_cause::malformed));
  }
  still_serves();
}

TEST_F(descriptor_server_of, a_job_refuses_writers_if_it_has_nothing_for_them) {
  const auto why =
      error_of_call([&] { fetch_descriptor(address, secret, soon(), region_access::write); });
  EXPECT_NE(why.find("the memory can be read only"), std::string::npos) << why;
  EXPECT_TRUE(refuses(refusal_cause::read_only, 1));
  still_serves();
}

// Whoever can change packets on their way gets no other right than was asked for.
TEST_F(descriptor_server_of, a_job_refuses_a_right_that_was_changed_on_the_way) {
  const writable_memory other(secret);
  descriptor_handshake mine(key, other.server.address());
  auto hello = mine.greet(region_access::read);
  hello.access = region_access::write;
  const raw_client client(other.server.address());
  client.say(bytes_of(hello));
  descriptor_handshake::challenge challenge;
  ASSERT_TRUE(client.hear(challenge));
  descriptor_handshake::answer answer;
  EXPECT_FALSE(mine.meet(challenge, answer));
}

TEST_F(descriptor_server_of, a_job_refuses_packets_that_are_cut_or_too_long) {
  const auto hello = descriptor_handshake(key, address).greet();
  std::vector<std::byte> bytes(bytes_of(hello).begin(), bytes_of(hello).end());
  bytes.resize(5000);
  for (const std::size_t length : {1u, 8u, 55u, 57u, 5000u}) {
    const raw_client client(address);
    client.say(std::span(bytes).first(length));
    EXPECT_TRUE(client.is_refused(refusal_cause::malformed)) << length;
  }
  for (const std::size_t length : {1u, 31u, 33u, 5000u}) {
    const raw_client client(address);
    client.say(bytes_of(hello));
    descriptor_handshake::challenge challenge;
    ASSERT_TRUE(client.hear(challenge));
    client.say(std::span(bytes).first(length));
    EXPECT_TRUE(client.is_refused(refusal_cause::malformed)) << length;
  }
  EXPECT_TRUE(refuses(refusal_cause::malformed, 9));
  EXPECT_LE(lines.with("no message of this protocol"), 1) << lines.text();
  still_serves();
}

TEST_F(descriptor_server_of, a_job_takes_no_descriptors) {
  {
    const raw_client client(address);
    const auto hello = descriptor_handshake(key, address).greet();
    const unique_fd one(open("/dev/null", O_RDONLY | O_CLOEXEC));
    EXPECT_TRUE(send_descriptor(client.fd(), bytes_of(hello), one.get()));
    descriptor_handshake::challenge challenge;
    EXPECT_TRUE(client.hear(challenge));
    EXPECT_TRUE(send_descriptor(client.fd(), bytes_of(descriptor_handshake::answer{}), one.get()));
    EXPECT_TRUE(client.is_refused(refusal_cause::no_secret));
  }
  still_serves();
}

TEST_F(descriptor_server_of, a_job_is_not_delayed_by_silent_clients) {
  {
    std::vector<raw_client> silent;
    for (int i = 0; i < 200; ++i) silent.emplace_back(address);
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_TRUE(fetch_region(address, secret, soon()));
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 500ms);
    // In the end all are closed.
    EXPECT_TRUE(comes_true([&] {
      const auto counts = owner.server.counts();
      return counts.refused(refusal_cause::busy) + counts.refused(refusal_cause::too_slow) == 200;
    }));
    EXPECT_LE(std::chrono::steady_clock::now() - begin, 3s);
    EXPECT_TRUE(silent.back().is_refused(refusal_cause::too_slow));
  }
  EXPECT_LE(lines.with("too many connect at once"), 1) << lines.text();
  EXPECT_LE(lines.with("took too long"), 1) << lines.text();
  still_serves();
}

TEST_F(descriptor_server_of, a_job_is_not_delayed_by_clients_that_stop_half_way) {
  {
    std::vector<raw_client> half;
    for (int i = 0; i < 40; ++i) {
      half.emplace_back(address);
      half.back().say(bytes_of(descriptor_handshake(key, address).greet()));
    }
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_TRUE(fetch_region(address, secret, soon()));
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 500ms);
  }
  EXPECT_TRUE(descriptors.now());
}

TEST_F(descriptor_server_of, a_job_serves_many_at_once) {
  std::atomic<int> served = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      for (int j = 0; j < 20; ++j)
        if (fetch_descriptor(address, secret, soon())) ++served;
    });
  for (auto& one : threads) one.join();
  EXPECT_EQ(served, 160);
  still_serves();
}

TEST_F(descriptor_server_of, a_job_survives_random_bytes) {
  random_source random(1);
  const auto end = soon(1500ms);
  int connections = 0;
  const auto hello = descriptor_handshake(key, address).greet();
  for (; connections < 20'000 && std::chrono::steady_clock::now() < end; ++connections) {
    const raw_client client(address);
    ASSERT_TRUE(client);
    std::array<std::byte, 96> bytes;
    random_bytes(bytes);
    const auto what = random.next() % 4;
    if (what == 0) std::memcpy(bytes.data(), &hello, 24);  // up to the id
    if (what <= 1)
      client.say(std::span(bytes).first(56));
    else
      client.say(std::span(bytes).first(random.next() % bytes.size()));
    if (what == 0) client.say(std::span(bytes).first(32));
  }
  RecordProperty("connections", connections);
  EXPECT_GT(connections, 100);
  EXPECT_EQ(owner.server.counts().served, 0u);
  still_serves();
}

TEST_F(descriptor_server_of, a_job_waits_for_descriptors_without_spinning) {
  unique_fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  std::optional<few_descriptors> none(0);
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  const auto text = channel_socket::name_of(address);
  std::memcpy(name.sun_path + 1, text.data() + 1, text.size() - 1);
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + text.size());
  const int connected = ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&name), length);
  std::this_thread::sleep_for(450ms);
  const auto attempts = owner.server.counts().shortages;
  // The client's own want of descriptors.
  const auto why = error_of_call([&] { fetch_region(address, secret, soon(100ms)); });
  none.reset();
  EXPECT_EQ(connected, 0);
  EXPECT_GE(attempts, 1u);
  EXPECT_LE(attempts, 6u);
  EXPECT_NE(why.find("Too many open files"), why.npos) << why;
  // The one that waited is accepted.
  const auto hello = descriptor_handshake(key, address).greet();
  EXPECT_TRUE(channel_socket::send(socket.get(), bytes_of(hello)));
  descriptor_handshake::challenge challenge;
  EXPECT_TRUE(take_packet(socket.get(), challenge));
  EXPECT_EQ(lines.with("must wait"), 1) << lines.text();
  EXPECT_NE(lines.text().find("(ulimit -n)"), std::string::npos);
}

TEST_F(descriptor_server_of, a_user_refuses_others) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const auto status = troupe::test::in_child([&] {
    if (::setgid(65'534) != 0 || ::setuid(65'534) != 0) return 1;
    const raw_client client(address);
    if (!client) return 2;
    client.say(bytes_of(descriptor_handshake(key, address).greet()));
    if (!client.hear().empty()) return 3;
    const auto why = error_of_call([&] { fetch_region(address, secret, soon()); });
    return why.find("belongs to user 0, not 65534") != why.npos ? 0 : 4;
  });
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(refuses(refusal_cause::other_user, 2));
  still_serves();
}

}  // namespace
}  // namespace troupe::transport::test
