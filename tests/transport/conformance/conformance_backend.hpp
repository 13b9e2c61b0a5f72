#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tests/transport/conformance/conformance_node.hpp"
#include "tests/transport/conformance/locked_transport.hpp"
#include "troupe/transport/composite/composite_transport.hpp"
#include "troupe/transport/lending/lending_transport.hpp"
#include "troupe/transport/loopback/loopback.hpp"
#include "troupe/transport/tcp/tcp_transport.hpp"
#include "troupe/transport/ucx/ucx_transport.hpp"
#include "troupe/transport/virtual/virtual_network.hpp"

namespace troupe::transport::test {

enum class tested_backend {
  loopback,
  virtual_clean,
  virtual_bad,
  ucx,
  ucx_cma,
  ucx_shared_memory,
  ucx_tcp,
  ucx_between_hosts,
  tcp,
  tcp_plain,
  tcp_encrypted,
  tcp_two_threads,
  composite,
  lending
};

inline const char* name_of(tested_backend b) {
  switch (b) {
    case tested_backend::loopback: return "loopback";
    case tested_backend::virtual_clean: return "virtual_clean";
    case tested_backend::virtual_bad: return "virtual_bad";
    case tested_backend::ucx: return "ucx";
    case tested_backend::ucx_cma: return "ucx_cma";
    case tested_backend::ucx_shared_memory: return "ucx_shared_memory";
    case tested_backend::ucx_tcp: return "ucx_tcp";
    case tested_backend::ucx_between_hosts: return "ucx_between_hosts";
    case tested_backend::tcp: return "tcp";
    case tested_backend::tcp_plain: return "tcp_plain";
    case tested_backend::tcp_encrypted: return "tcp_encrypted";
    case tested_backend::tcp_two_threads: return "tcp_two_threads";
    case tested_backend::composite: return "composite";
    case tested_backend::lending: return "lending";
  }
  return "?";
}

inline ucx_options options_of(tested_backend b, rank_t rank) {
  ucx_options o;
  o.rank = rank;
  o.one_host = true;
  o.key.fill(std::byte{42});
  if (b == tested_backend::ucx_cma) o.bulk = ucx_bulk::cma;
  if (b == tested_backend::ucx_shared_memory) o.kind = ucx_kind::shared_memory;
  if (b == tested_backend::ucx_tcp) {
    o.kind = ucx_kind::tcp;
    o.trusted_network = true;
  }
  if (b == tested_backend::ucx_between_hosts) {
    o.one_host = false;
    o.trusted_network = true;
    const char* devices = std::getenv("TROUPE_TEST_NET_DEVICES");
    if (devices) o.net_devices = devices;
  }
  return o;
}

inline bool is_tcp(tested_backend b) {
  return b == tested_backend::tcp || b == tested_backend::tcp_plain ||
         b == tested_backend::tcp_encrypted || b == tested_backend::tcp_two_threads;
}

inline tcp_options tcp_options_of(tested_backend b, rank_t rank) {
  // That of all processes of a test.
  static const auto secret = job_secret::from_hex(std::string(64, '7'));
  tcp_options o;
  o.rank = rank;
  o.secret = secret;
  o.interfaces = {"lo"};
  o.chunk_threads = b == tested_backend::tcp_two_threads ? 2 : 1;
  o.eager_below = 1'000;  // the end of a peer is noticed on a connection
  o.protection = b == tested_backend::tcp_plain       ? stream_protection::off
                 : b == tested_backend::tcp_encrypted ? stream_protection::encrypt
                                                      : stream_protection::authenticate;
  return o;
}

// UCX, over which payloads are lent from small ones on.
inline lending_options lending_options_of(rank_t rank) {
  std::string why_not;
  lending_options o;
  o.rank = rank;
  o.secret = job_secret::from_hex(std::string(64, '7'));
  o.memory = install_arena({}, why_not);
  EXPECT_TRUE(o.memory) << why_not;
  o.copy_from = 1'000;
  o.lend_from = 1'000;
  return o;
}

inline virtual_network_options virtual_options_of(tested_backend b) {
  virtual_network_options o;
  o.self_driven = true;
  o.links.bandwidth = 2e9;  // so that large payloads take time
  if (b == tested_backend::virtual_bad) {
    o.links.loss = 0.2;
    o.links.duplication = 0.1;
    o.links.reordering = 0.2;
  }
  return o;
}

/// Nodes of one job.
class job {
public:
  explicit job(tested_backend b) : backend_(b) {}

  std::unique_ptr<node> make(rank_t rank) {
    auto n = std::make_unique<node>();
    begin(*n, rank);
    return n;
  }

  void begin(node& n, rank_t rank) {
    if (backend_ == tested_backend::loopback)
      n.net = make_loopback_transport(network_, rank, n.received, n.pool);
    else if (backend_ == tested_backend::virtual_clean || backend_ == tested_backend::virtual_bad)
      n.net = make_locked_transport(mutex_, [&] {
        return make_virtual_transport(virtual_network_, rank, n.received, n.pool);
      });
    else if (backend_ == tested_backend::composite)
      n.net = make_composite_transport(options_of(backend_, rank), tcp_options_of(backend_, rank),
                                       n.received, n.pool);
    else if (backend_ == tested_backend::lending)
      n.net = make_lending_transport(
          lending_options_of(rank),
          [&](sink& to, payload_pool& pool) {
            return make_ucx_transport(options_of(backend_, rank), to, pool);
          },
          n.received, n.pool);
    else if (is_tcp(backend_))
      n.net = make_tcp_transport(tcp_options_of(backend_, rank), n.received, n.pool);
    else
      n.net = make_ucx_transport(options_of(backend_, rank), n.received, n.pool);
  }

private:
  tested_backend backend_;
  std::shared_ptr<loopback_network> network_ = std::make_shared<loopback_network>();
  std::shared_ptr<virtual_network> virtual_network_ =
      std::make_shared<virtual_network>(virtual_options_of(backend_));
  std::shared_ptr<std::mutex> mutex_ = std::make_shared<std::mutex>();
};

/// Two nodes, connected, and a suite that runs once for each backend.
class pair_test : public testing::TestWithParam<tested_backend> {
protected:
  static constexpr std::chrono::seconds limit{100};  // the machine may have much else to do

  void SetUp() override {
    a = made.make(0);
    b = made.make(1);
    a->net->add_peer(1, b->net->address());
    b->net->add_peer(0, a->net->address());
  }

  template <class Done>
  bool run(Done done, std::chrono::milliseconds within = limit) {
    return run_until(done, within, *a, *b);
  }

  job made{GetParam()};
  std::unique_ptr<node> a;
  std::unique_ptr<node> b;
};

inline auto all_backends() {
  return testing::Values(tested_backend::loopback, tested_backend::virtual_clean,
                         tested_backend::virtual_bad, tested_backend::ucx, tested_backend::ucx_cma,
                         tested_backend::ucx_shared_memory, tested_backend::ucx_tcp,
                         tested_backend::tcp, tested_backend::tcp_plain,
                         tested_backend::tcp_encrypted, tested_backend::tcp_two_threads,
                         tested_backend::composite, tested_backend::lending);
}

inline std::string backend_name(const testing::TestParamInfo<tested_backend>& info) {
  return name_of(info.param);
}

}  // namespace troupe::transport::test
