#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/transport/conformance/conformance_node.hpp"
#include "troupe/transport/system/socket.hpp"
#include "troupe/transport/tcp/address.hpp"
#include "troupe/transport/tcp/handshake.hpp"
#include "troupe/transport/tcp/stream.hpp"
#include "troupe/transport/tcp/tcp_transport.hpp"

namespace troupe::transport::test {

inline constexpr std::chrono::seconds limit{100};

/// Nodes on the loopback interface, and what anybody may do to them.
class tcp_hostile : public testing::Test {
protected:
  tcp_options options_of(rank_t rank, stream_protection how = stream_protection::authenticate) {
    tcp_options o;
    o.rank = rank;
    o.secret = secret;
    o.interfaces = {"lo"};
    o.protection = how;
    return o;
  }
  std::unique_ptr<node> make(const tcp_options& options) {
    auto n = std::make_unique<node>();
    n->net = make_tcp_transport(options, n->received, n->pool);
    return n;
  }
  void connect(node& a, node& b) {
    a->add_peer(1, b->address());
    b->add_peer(0, a->address());
  }
  bool exchange(node& a, node& b) {
    a.received.messages.clear();
    b.received.messages.clear();
    a->send(1, 0, patterned_frame(8, 1));
    b->send(0, 0, patterned_frame(8, 2));
    return run_until([&] { return !a.received.messages.empty() && !b.received.messages.empty(); },
                     limit, a, b);
  }
  // A connection to a node, as anybody can make one.
  unique_fd call(node& to, std::size_t place = 0) {
    const auto where = tcp::decode(to->address(), secret);
    return std::move(
        connect_to(where.places.at(place).where, std::chrono::steady_clock::now() + limit).fd);
  }

  const job_secret secret;
};

/// Has the node closed it? Progresses the node meanwhile.
inline bool is_closed(const unique_fd& one, node& at) {
  return run_until(
      [&] {
        char any;
        const auto n = ::recv(one.get(), &any, 1, MSG_DONTWAIT);
        return n == 0 || (n < 0 && errno != EAGAIN);
      },
      limit, at);
}

/// A node with the job's secret that breaks the protocol.
class rogue {
public:
  rogue(const job_secret& secret, node& victim)
      : secret_(secret), of_(tcp::decode(victim->address(), secret)) {
    random_bytes(id_);
    tcp::address own{1, id_, stream_protection::authenticate, 0, {}};
    listener_ = std::move(listen_on(loopback()).fd);
    own.places.push_back({local_address(listener_.get())});
    victim->add_peer(1, tcp::encode(own, secret));
  }

  // A connection that has proved itself; `meanwhile` comes before the answer. None: it is refused.
  std::unique_ptr<tcp::stream> connect(
      tcp::stream_kind kind, node& victim, const std::function<void()>& meanwhile = [] {}) {
    auto fd =
        std::move(connect_to(of_.places.at(0).where, std::chrono::steady_clock::now() + limit).fd);
    tcp::handshake proof(secret_);
    const auto hello =
        proof.greet({1, 0, id_, of_.id, kind, stream_protection::authenticate, beside});
    ::send(fd.get(), hello.data(), hello.size(), MSG_NOSIGNAL);
    tcp::handshake::challenge challenge;
    ssize_t got = 0;
    EXPECT_TRUE(run_until(
        [&] {
          got = ::recv(fd.get(), challenge.data(), challenge.size(), MSG_DONTWAIT);
          return got >= 0 || errno != EAGAIN;
        },
        limit, victim));
    if (got != ssize_t(challenge.size())) return nullptr;
    meanwhile();
    tcp::handshake::answer answer;
    EXPECT_TRUE(proof.meet(challenge, answer));
    ::send(fd.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
    const auto keys = proof.keys();
    if (kind == tcp::stream_kind::messages) beside = keys.connection;
    return std::make_unique<tcp::stream>(std::move(fd), kind, tcp::stream::role::dialer,
                                         stream_protection::authenticate, keys);
  }

  // The same, and it has said what has arrived: it is open.
  std::unique_ptr<tcp::stream> open(node& victim) {
    auto out = connect(tcp::stream_kind::messages, victim);
    send(*out, {.kind = tcp::record_kind::resume});
    run_until([] { return false; }, std::chrono::milliseconds(2), victim);
    return out;
  }

  // What is attached or the body is of `bytes_`.
  void send(tcp::stream& by, const tcp::record_head& head) {
    std::string why;
    tcp::stream::sent_records sent;
    by.add({head, bytes_->data(), bytes_});
    by.flush(why, sent);
  }

  tcp::nonce beside{};  // of bulk streams: the last connection for messages

private:
  static socket_address loopback() {
    socket_address out;
    auto& v4 = reinterpret_cast<sockaddr_in&>(out.storage);
    v4.sin_family = AF_INET;
    v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    out.length = sizeof v4;
    return out;
  }

  const job_secret secret_;
  const tcp::address of_;
  tcp::nonce id_;
  unique_fd listener_;
  const std::shared_ptr<std::vector<std::byte>> bytes_ =
      std::make_shared<std::vector<std::byte>>(2 * tcp::largest_chunk);
};

}  // namespace troupe::transport::test
