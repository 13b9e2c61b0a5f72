// Rows between two hosts: between_hosts.py starts the two ranks.
#include <ATen/ops/ones.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <initializer_list>
#include <thread>

#include "tests/bench/bench_rows.hpp"
#include "tests/bench/callees.hpp"

namespace troupe::bench {

namespace {

constexpr std::size_t gib = 1 << 30;

at::Tensor tensor_of(std::size_t bytes) { return at::ones({static_cast<std::int64_t>(bytes / 4)}); }

// Calls with `size` bytes, some under way, for some seconds: MB a second in one direction.
template <class Call>
double stream(std::size_t size, Call&& call, double seconds) {
  const std::size_t outstanding = std::clamp<std::size_t>(64 * mib / size, 2, 16);
  std::deque<decltype(call())> calls;
  const auto next = [&] {
    if (calls.size() == outstanding) {
      calls.front().get();
      calls.pop_front();
    }
    calls.push_back(call());
  };
  // Until all memory that is needed at once has been used: it is used again from now on.
  for (std::size_t i = 0; i < 3 * outstanding; ++i) next();
  const auto start = clock::now();
  std::size_t sent = 0;
  while (sent < 2 || seconds_since(start) < seconds) {
    next();
    ++sent;
  }
  const auto taken = seconds_since(start);  // as many have been answered as were sent
  for (auto& each : calls) each.get();
  return static_cast<double>(sent * size) / 1e6 / taken;
}

std::vector<measurement> tcp_call(const node& here) {
  return {times_of(call_times([&] { here.rpc_sync<&nothing>(peer); }))};
}

// The same for tensors of each size; `call` sends one.
template <class Call>
std::vector<measurement> streams(std::initializer_list<std::size_t> sizes, Call&& call) {
  std::vector<measurement> measured;
  for (const auto size : sizes) {
    const auto tensor = tensor_of(size);
    const auto send = [&] { return call(tensor); };
    measured.push_back({"MB/s", stream(size, send, 2), size});
  }
  return measured;
}

std::vector<measurement> tcp_stream(const node& here) {
  return streams({mib, 16 * mib, 256 * mib, gib},
                 [&](const at::Tensor& x) { return here.rpc_async<&take>(peer, x); });
}

std::vector<measurement> tcp_both_ways(const node& here) {
  return streams({mib, 16 * mib, 256 * mib},
                 [&](const at::Tensor& x) { return here.rpc_async<&echo>(peer, x); });
}

// The 99th percentile of small calls beside a stream of large tensors, in median times of an idle
// network.
std::vector<measurement> tcp_mixed(const node& here) {
  const auto idle = percentile(call_times([&] { here.rpc_sync<&nothing>(peer); }), 0.5);
  const auto tensor = tensor_of(16 * mib);
  std::atomic<bool> begun{false};
  std::thread large([&] {
    stream(
        16 * mib,
        [&] {
          begun = true;
          return here.rpc_async<&take>(peer, tensor);
        },
        5);
  });
  while (!begun) std::this_thread::yield();
  const auto beside = call_times([&] { here.rpc_sync<&nothing>(peer); }, {.seconds = 4});
  large.join();
  return {{"medians", percentile(beside, 0.99) / idle}};
}

std::vector<measurement> tcp_encrypt(const node& here) {
  const auto tensor = tensor_of(64 * mib);
  return {{"MB/s",
           stream(
               64 * mib, [&] { return here.rpc_async<&take>(peer, tensor); }, 3),
           64 * mib}};
}

}  // namespace

const std::map<std::string, row>& network_rows() {
  static const std::map<std::string, row> all = {
      {"tcp_call", tcp_call},
      {"tcp_stream", tcp_stream},
      {"tcp_stream_1g", tcp_stream},
      {"tcp_stream_10g", tcp_stream},
      {"tcp_both_ways", tcp_both_ways},
      {"tcp_both_ways_1g", tcp_both_ways},
      {"tcp_both_ways_10g", tcp_both_ways},
      {"tcp_mixed", tcp_mixed},
      {"tcp_encrypt", tcp_encrypt},
      {"tcp_encrypt_10g", tcp_encrypt},
      {"tcp_encrypt_lent", tcp_encrypt},
  };
  return all;
}

}  // namespace troupe::bench
