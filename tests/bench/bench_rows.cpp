#include "tests/bench/bench_rows.hpp"

#include <ATen/ATen.h>

#include <deque>
#include <thread>

#include "tests/bench/callees.hpp"

namespace troupe::bench {

namespace {

constexpr std::size_t large = 32 * mib;  // a few such calls are enough
std::vector<measurement> call_actor(const node& here) {
  const auto numbers = here.spawn_on<count>(peer);
  return {times_of(call_times([&] { request(numbers, next_number{}).get(); }))};
}

std::vector<measurement> call_function(const node& here) {
  return {times_of(call_times([&] { here.rpc_sync<&nothing>(peer); }))};
}

// What a tensor costs that is the first of its size: memory that neither side has had before.
std::vector<measurement> identity_first(const node& here) {
  call_times([&] { here.rpc_sync<&nothing>(peer); }, {.seconds = 0.5});
  std::vector<measurement> measured;
  for (const auto size : {mib, 4 * mib, 64 * mib, std::size_t{400'000'000}}) {
    const auto tensor = at::ones({static_cast<std::int64_t>(size / 4)});
    const effort once{.seconds = 0, .least = 1, .most = 1, .warm_up = 0};
    measured.push_back(
        times_of(call_times([&] { here.rpc_sync<&echo>(peer, tensor); }, once), size));
  }
  return measured;
}

std::vector<measurement> ops200(const node& here) {
  std::vector<measurement> measured;
  for (const std::size_t size : {4'000'000, 400'000'000}) {
    const bool long_one = size > large;
    const auto tensor = at::zeros({static_cast<std::int64_t>(size / 4)});
    const effort how{.least = long_one ? 1u : 3u, .warm_up = long_one ? 0u : 1u};
    measured.push_back(
        times_of(call_times([&] { here.rpc_sync<&add_200_times>(peer, tensor); }, how), size));
  }
  return measured;
}

// What gRPC is measured with, too: the sizes and functions of the slides "PyTorch RPC".
std::vector<measurement> grid_identity(const node& here) {
  std::vector<measurement> measured;
  for (const std::size_t size : {4'000'000, 400'000'000}) {
    const auto tensor = at::zeros({static_cast<std::int64_t>(size / 4)});
    const effort how{.warm_up = size > large ? 1u : 200u};
    measured.push_back(
        times_of(call_times([&] { here.rpc_sync<&echo>(peer, tensor); }, how), size));
  }
  return measured;
}

std::vector<measurement> calls_in_flight(const node& here) {
  constexpr int outstanding = 1000;
  std::vector<future<void>> calls;
  calls.reserve(outstanding);
  const auto batch = [&] {
    for (int i = 0; i < outstanding; ++i) calls.push_back(here.rpc_async<&nothing>(peer));
    for (auto& call : calls) call.get();
    calls.clear();
  };
  return {rate_of(outstanding, call_times(batch, {.warm_up = 20}))};
}

std::vector<measurement> calls_threads(const node& here) {
  constexpr int threads = 4;
  constexpr int calls = 2'500;
  const auto batch = [&] {
    std::vector<std::thread> running;
    for (int i = 0; i < threads; ++i)
      running.emplace_back([&] {
        for (int k = 0; k < calls; ++k) here.rpc_sync<&nothing>(peer);
      });
    for (auto& thread : running) thread.join();
  };
  return {rate_of(threads * calls, call_times(batch, {.warm_up = 1}))};
}

std::vector<measurement> long_handler(const node& here) {
  constexpr double seconds = 2;
  call_times([&] { here.rpc_sync<&nothing>(peer); }, {.seconds = 0.5});
  const future<void> busy[] = {here.rpc_async<&sleep_for>(peer, seconds),
                               here.rpc_async<&compute_for>(peer, seconds)};
  std::vector<double> taken;
  while (!busy[0].ready() || !busy[1].ready()) {
    const auto before = clock::now();
    here.rpc_sync<&nothing>(peer);
    taken.push_back(seconds_since(before));
  }
  return {{"us", percentile(taken, 0.99) * 1e6}};
}

std::vector<measurement> idle_cpu(const node& here) {
  constexpr double seconds = 5;
  const auto start = clock::now();
  const double before = here.rpc_sync<&processor_seconds>(peer);
  sleep_for(seconds);
  const double used = here.rpc_sync<&processor_seconds>(peer) - before;
  return {{"share", used / seconds_since(start)}};
}

std::vector<measurement> oversubscribed(const node& here) {
  constexpr double seconds = 3;
  constexpr std::uint32_t outstanding = 32;
  const auto all = [&](double how_long) {
    std::vector<future<std::uint64_t>> counts;
    for (std::uint32_t rank = 0; rank < here.world_size(); ++rank)
      counts.push_back(here.rpc_async<&keep_calling>(rank, how_long, outstanding));
    double calls = 0;
    for (auto& count : counts) calls += static_cast<double>(count.get());
    return calls;
  };
  all(0.5);
  return {rate_of(all(seconds), {seconds})};
}

}  // namespace

std::vector<measurement> identity(const node& here) {
  std::vector<measurement> measured;
  const std::size_t sizes[] = {4, 4 << 10, 64 << 10, mib, 4 * mib, 64 * mib, 400'000'000};
  for (const auto size : sizes) {
    const auto tensor = at::ones({static_cast<std::int64_t>(size / 4)});
    const effort how{.warm_up = size > large ? 1u : 2'000u};
    measured.push_back(
        times_of(call_times([&] { here.rpc_sync<&echo>(peer, tensor); }, how), size));
  }
  return measured;
}

// One way, with some under way, as `ucp_am_bw` does it: the time of one.
std::vector<measurement> perftest_am(const node& here) {
  constexpr std::size_t window = 4;
  std::vector<measurement> measured;
  for (const auto size : {mib, 4 * mib, std::size_t{400'000'000}}) {
    const bool long_one = size > large;
    const int together = long_one ? 4 : 32;  // are timed as one
    const auto tensor = at::ones({static_cast<std::int64_t>(size / 4)});
    std::deque<future<void>> calls;
    auto taken = call_times(
        [&] {
          for (int i = 0; i < together; ++i) {
            if (calls.size() == window) {
              calls.front().get();
              calls.pop_front();
            }
            calls.push_back(here.rpc_async<&take>(peer, tensor));
          }
        },
        {.warm_up = long_one ? 2u : 20u});
    for (auto& call : calls) call.get();
    for (auto& seconds : taken) seconds /= together;
    measured.push_back(times_of(taken, size));
  }
  return measured;
}

const std::map<std::string, row>& bench_rows() {
  static const std::map<std::string, row> all = [] {
    std::map<std::string, row> rows = {
        {"call_actor", call_actor},
        {"call_function", call_function},
        {"identity", identity},
        {"identity_first", identity_first},
        {"ops200", ops200},
        {"grid_identity", grid_identity},
        {"grid_ops200", ops200},
        {"calls_in_flight", calls_in_flight},
        {"calls_threads", calls_threads},
        {"perftest_am", perftest_am},
        {"long_handler", long_handler},
        {"idle_cpu", idle_cpu},
        {"oversubscribed", oversubscribed},
    };
    rows.insert(dead_rank_rows().begin(), dead_rank_rows().end());
    rows.insert(device_rows().begin(), device_rows().end());
    rows.insert(lending_rows().begin(), lending_rows().end());
    rows.insert(loss_rows().begin(), loss_rows().end());
    rows.insert(network_rows().begin(), network_rows().end());
    rows.insert(reliability_rows().begin(), reliability_rows().end());
    rows.insert(rref_rows().begin(), rref_rows().end());
    rows.insert(autograd_rows().begin(), autograd_rows().end());
    rows.insert(optim_rows().begin(), optim_rows().end());
    return rows;
  }();
  return all;
}

}  // namespace troupe::bench
