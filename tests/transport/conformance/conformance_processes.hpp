// A transport here and one in another process.

#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>

#include "tests/transport/conformance/conformance_backend.hpp"
#include "tests/transport/conformance/peer_process.hpp"
#include "troupe/messages/base/error.hpp"

namespace troupe::transport::test {

class processes : public testing::TestWithParam<tested_backend> {
protected:
  // The time a loss may take: milliseconds, plus what a loaded machine adds.
  static constexpr std::chrono::seconds limit{100};

  void start(const std::string& mode) {
    other = std::make_unique<child>(GetParam(), mode);
    const auto address = other->address();
    job(GetParam()).begin(a, 0);
    a->add_peer(1, address);
    other->send_address(a->address());
  }

  template <class Done>
  bool run(Done done) {
    return run_until(done, limit, a);
  }

  void exchange_one() {
    a->send(1, 0, patterned_frame(8, 1));
    ASSERT_TRUE(run([&] { return !a.received.messages.empty(); }));
    a.received.messages.clear();
  }

  void expect_lost() {
    ASSERT_TRUE(run([&] { return !a.received.lost.empty(); }));
    run_until([] { return false; }, std::chrono::milliseconds(50), a);
    EXPECT_EQ(a.received.lost.size(), 1u);
    EXPECT_EQ(a.received.lost[0].first, 1u);
    EXPECT_THROW(a->send(1, 0, patterned_frame(8, 1)), peer_lost);
    EXPECT_TRUE(run([&] { return a->idle(); }));
  }

  // The end of a process on this host is certain; UCX over TCP may notice its socket first.
  void expect_ended() {
    expect_lost();
    if (GetParam() == tested_backend::ucx_tcp) return;
    EXPECT_EQ(a.received.lost[0].second.kind, loss_kind::ended);
    EXPECT_EQ(a.received.lost[0].second.text, "its process has ended");
  }

  std::unique_ptr<child> other;
  node a;
};

inline auto every_backend() {
  return testing::Values(tested_backend::ucx, tested_backend::ucx_cma, tested_backend::ucx_tcp,
                         tested_backend::tcp);
}

}  // namespace troupe::transport::test
