// What a process that is asked for its memory may answer.

#include <gtest/gtest.h>

#include "tests/transport/regions/memory_fixture.hpp"
#include "troupe/transport/regions/fetch_descriptor.hpp"

namespace troupe::transport::test {
namespace {

using namespace std::chrono_literals;

void hostile_fails_with(const region_address& address, const job_secret& secret,
                        const std::string& reason, std::chrono::milliseconds limit = 5s) {
  const same_descriptors descriptors;
  const auto why = error_of_call([&] { fetch_region(address, secret, soon(limit)); });
  EXPECT_NE(why.find(reason), why.npos) << why;
  EXPECT_TRUE(descriptors.now());
}

// Proves that it has the secret, and then does `end` with the connection and a correct packet.
class hostile_member {
public:
  using grant = descriptor_handshake::grant;

  hostile_member(const job_secret& secret, std::function<void(int, grant)> end)
      : server_([this, key = descriptor_handshake::key(secret), end](int fd) {
          descriptor_handshake talk(key, server_.address());
          descriptor_handshake::hello hello;
          descriptor_handshake::answer answer;
          refusal_cause why{};
          if (!take_packet(fd, hello) || !talk.read(hello, why)) return;
          channel_socket::send(fd, bytes_of(talk.respond()));
          if (take_packet(fd, answer) && talk.admit(answer))
            end(fd, {server_.address().id, server_.address().size});
        }) {}

  const region_address& address() const { return server_.address(); }

private:
  raw_server server_;
};

// One that sends this descriptor.
void hostile_descriptor_fails(int descriptor, const std::string& reason) {
  const job_secret secret;
  const hostile_member server(secret, [&](int fd, hostile_member::grant grant) {
    send_descriptor(fd, bytes_of(grant), descriptor);
  });
  hostile_fails_with(server.address(), secret, reason);
}

TEST(hostile_descriptor_server, without_the_secret_is_refused) {
  const job_secret secret;
  test_memory memory;
  std::array<std::byte, 16> id = memory.id();
  const descriptor_server other(memory.open_again(), memory.size(), id, job_secret());
  hostile_fails_with(other.address(), secret, "the server does not have the job's secret");
}

TEST(hostile_descriptor_server, that_says_something_else_is_refused) {
  const job_secret secret;
  for (const std::size_t length : {1u, 8u, 24u, 56u, 63u, 65u, 1000u}) {
    const raw_server server([&](int fd) {
      descriptor_handshake::hello hello;
      take_packet(fd, hello);
      std::vector<std::byte> bytes(length);
      random_bytes(bytes);
      channel_socket::send(fd, bytes);
    });
    hostile_fails_with(server.address(), secret, "something else");
  }
  const raw_server random([&](int fd) {
    descriptor_handshake::challenge challenge;
    random_bytes(std::as_writable_bytes(std::span(&challenge, 1)));
    channel_socket::send(fd, bytes_of(challenge));
  });
  hostile_fails_with(random.address(), secret, "the server does not have the job's secret");
}

TEST(hostile_descriptor_server, that_reflects_is_refused) {
  const job_secret secret;
  const raw_server server([&](int fd) {
    descriptor_handshake::hello hello;
    if (!take_packet(fd, hello)) return;
    channel_socket::send(fd, bytes_of(descriptor_handshake::challenge{hello.challenge, {}}));
  });
  hostile_fails_with(server.address(), secret, "the server does not have the job's secret");
}

TEST(hostile_descriptor_server, that_relays_is_refused) {
  // The region's own server proves its own socket's name, and not that of who stands between.
  const job_secret secret;
  served_memory owner(secret);
  const raw_server between([&](int fd) {
    descriptor_handshake::hello hello;
    if (!take_packet(fd, hello)) return;
    const raw_client client(owner.server.address());
    client.say(bytes_of(hello));
    channel_socket::send(fd, client.hear());
  });
  auto address = owner.server.address();
  address.socket_name = between.address().socket_name;
  hostile_fails_with(address, secret, "the server does not have the job's secret");
}

TEST(hostile_descriptor_server, that_is_silent_ends_in_time) {
  const job_secret secret;
  const raw_server server([](int) { std::this_thread::sleep_for(400ms); });
  const auto begin = std::chrono::steady_clock::now();
  hostile_fails_with(server.address(), secret, "did not answer in time", 100ms);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 1s);
}

TEST(hostile_descriptor_server, that_always_closes_ends_in_time) {
  const job_secret secret;
  const raw_server server([](int) {});
  const auto begin = std::chrono::steady_clock::now();
  hostile_fails_with(server.address(), secret, "the server closed the connection", 200ms);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 1s);
}

TEST(hostile_descriptor_server, that_is_always_busy_ends_in_time) {
  const job_secret secret;
  const raw_server server([](int fd) {
    channel_socket::send(fd, bytes_of(descriptor_handshake::refuse(refusal_cause::busy)));
  });
  hostile_fails_with(server.address(), secret, "too many connect at once", 200ms);
}

TEST(hostile_descriptor_server, whose_backlog_is_full_ends_in_time) {
  region_address address;
  address.size = 1;
  address.socket_name = channel_socket::random_name();
  const auto listener = channel_socket::listen_at(address);  // nobody accepts
  std::vector<unique_fd> waiting;
  for (int i = 0; i < 200; ++i) {
    auto one = channel_socket::connect_to(address, soon(1ms));
    if (!one.fd) {
      EXPECT_EQ(one.error, ETIMEDOUT);
      break;
    }
    waiting.push_back(std::move(one.fd));
  }
  const auto begin = std::chrono::steady_clock::now();
  hostile_fails_with(address, job_secret(), "not accepted in time", 100ms);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 1s);
}

TEST(hostile_descriptor_server, that_is_gone_is_named) {
  const job_secret secret;
  region_address address;
  {
    const served_memory owner(secret);
    address = owner.server.address();
  }
  hostile_fails_with(address, secret, "network namespace");
  hostile_fails_with(address, secret, channel_socket::name_of(address));
}

TEST(hostile_descriptor_server, that_sends_no_descriptor_is_refused) {
  const job_secret secret;
  const hostile_member server(secret, [&](int fd, hostile_member::grant grant) {
    channel_socket::send(fd, bytes_of(grant));
  });
  hostile_fails_with(server.address(), secret, "sent none");
}

TEST(hostile_descriptor_server, that_sends_several_descriptors_is_refused) {
  const test_memory memory;
  const auto good = memory.open_again();
  for (const std::size_t count : {2u, 8u, 9u, 200u}) {
    const job_secret secret;
    const hostile_member server(secret, [&](int fd, hostile_member::grant grant) {
      const std::vector<int> all(count, good.get());
      iovec bytes{const_cast<std::byte*>(bytes_of(grant).data()), sizeof grant};
      std::vector<char> control(CMSG_SPACE(count * sizeof(int)));
      msghdr message{};
      message.msg_iov = &bytes;
      message.msg_iovlen = 1;
      message.msg_control = control.data();
      message.msg_controllen = control.size();
      auto* const part = CMSG_FIRSTHDR(&message);
      part->cmsg_level = SOL_SOCKET;
      part->cmsg_type = SCM_RIGHTS;
      part->cmsg_len = CMSG_LEN(count * sizeof(int));
      std::memcpy(CMSG_DATA(part), all.data(), count * sizeof(int));
      sendmsg(fd, &message, MSG_NOSIGNAL);
    });
    hostile_fails_with(server.address(), secret, "more than one");
  }
}

TEST(hostile_descriptor_server, that_sends_descriptors_early_leaves_none) {
  const job_secret secret;
  const unique_fd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const raw_server server([&](int fd) {
    send_descriptor(fd, bytes_of(descriptor_handshake::challenge{}), null.get());
  });
  hostile_fails_with(server.address(), secret, "the server does not have the job's secret");
}

TEST(hostile_descriptor_server, that_sends_a_descriptor_with_another_packet_is_refused) {
  const job_secret secret;
  const unique_fd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const hostile_member server(secret, [&](int fd, hostile_member::grant) {
    send_descriptor(fd, bytes_of(descriptor_handshake::refuse(refusal_cause::not_sent)),
                    null.get());
  });
  hostile_fails_with(server.address(), secret, "could not be sent");
}

TEST(hostile_descriptor_server, that_sends_a_file_is_refused) {
  const unique_fd file(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  hostile_descriptor_fails(file.get(), "memfd");
  const unique_fd path(open("/proc/self/exe", O_PATH | O_CLOEXEC));
  hostile_descriptor_fails(path.get(), "memfd");
  std::string name = "/dev/shm/troupe-test-XXXXXX";
  const unique_fd shared(mkstemp(name.data()));
  unlink(name.c_str());
  hostile_descriptor_fails(shared.get(), "F_SEAL_SHRINK");
}

TEST(hostile_descriptor_server, that_sends_memory_which_can_shrink_is_refused) {
  const test_memory memory(test_memory::default_size, F_SEAL_GROW);
  const auto fd = memory.open_again();
  hostile_descriptor_fails(fd.get(), "could shrink");
}

TEST(hostile_descriptor_server, that_sends_memory_of_another_size_is_refused) {
  for (const std::size_t size :
       {test_memory::default_size - 4096, test_memory::default_size + 4096}) {
    const test_memory memory(size);
    const auto fd = memory.open_again();
    hostile_descriptor_fails(fd.get(), "bytes, not 65536");
  }
}

TEST(hostile_descriptor_server, that_sends_a_writable_descriptor_is_refused) {
  const test_memory memory;
  const auto fd = memory.open_again(O_RDWR);
  hostile_descriptor_fails(fd.get(), "reading only");
}

TEST(hostile_descriptor_server, that_sends_a_read_only_descriptor_to_a_writer_is_refused) {
  const job_secret secret;
  const test_memory memory;
  const auto fd_of = memory.open_again();
  const hostile_member server(secret, [&](int fd, hostile_member::grant grant) {
    send_descriptor(fd, bytes_of(grant), fd_of.get());
  });
  const auto why =
      error_of_call([&] { fetch_region(server.address(), secret, soon(), region_access::write); });
  EXPECT_NE(why.find("reading and writing"), std::string::npos) << why;
}

TEST(hostile_descriptor_server, that_grants_other_memory_is_refused) {
  const job_secret secret;
  const test_memory memory;
  const auto fd_of = memory.open_again();
  for (const bool wrong_id : {true, false}) {
    const hostile_member server(secret, [&](int fd, hostile_member::grant grant) {
      (wrong_id ? grant.id[0] : reinterpret_cast<std::byte&>(grant.size)) ^= std::byte{1};
      send_descriptor(fd, bytes_of(grant), fd_of.get());
    });
    hostile_fails_with(server.address(), secret, "other memory");
  }
}

TEST(hostile_descriptor_server, that_behaves_is_believed) {
  // So what the others are refused for is what they do.
  const job_secret secret;
  const test_memory memory;
  const auto fd_of = memory.open_again();
  const hostile_member server(secret, [&](int fd, hostile_member::grant grant) {
    send_descriptor(fd, bytes_of(grant), fd_of.get());
  });
  EXPECT_TRUE(fetch_region(server.address(), secret, soon()));
}

}  // namespace
}  // namespace troupe::transport::test
