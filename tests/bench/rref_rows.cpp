// Remote references and coroutines.

#include "tests/bench/bench_rows.hpp"
#include "tests/bench/callees.hpp"

namespace troupe::bench {

namespace {

std::int64_t one() { return 1; }
std::int64_t plus_one(std::int64_t x) { return x + 1; }

std::vector<measurement> rref_remote_to_here(const node& here) {
  return {times_of(call_times([&] { here.remote<&plus_one>(peer, 1).to_here(); }))};
}

// Made and dropped, until the owner has none of them any more.
std::vector<measurement> rref_churn(const node& here) {
  constexpr int together = 1000;
  std::vector<rref<std::int64_t>> references;
  references.reserve(together);
  const auto batch = [&] {
    for (int i = 0; i < together; ++i) references.push_back(here.remote<&one>(peer));
    references.clear();
    while (here.rpc_sync<&values_here>(peer) != 0) {
    }
  };
  return {rate_of(together, call_times(batch, {.warm_up = 20}))};
}

// Over all ranks, this one last; each takes the value of the one before.
std::vector<measurement> rref_chain(const node& here) {
  const auto ranks = here.world_size();
  return {times_of(call_times([&] {
    auto last = here.remote<&one>(1);
    for (std::uint32_t i = 2; i <= ranks; ++i) last = here.remote<&plus_one>(i % ranks, last);
    if (last.to_here() != ranks) throw internal_error("the chain gave a wrong number");
  }))};
}

// What the callee's memory grows by while so many of its coroutines wait.
std::vector<measurement> coroutines_in_flight(const node& here) {
  constexpr int calls = 10'000;
  const auto hold = [&] {
    std::vector<future<std::int64_t>> waiting;
    for (int i = 0; i < calls; ++i) waiting.push_back(here.rpc_async<&wait_for_release>(peer, i));
    while (here.rpc_sync<&waiting_here>(peer) != calls) {
    }
    const auto used = here.rpc_sync<&resident_bytes>(peer);
    here.rpc_sync<&release_all>(peer);
    for (int i = 0; i < calls; ++i)
      if (waiting[static_cast<std::size_t>(i)].get() != i)
        throw internal_error("a coroutine gave a wrong number");
    return used;
  };
  const auto before = here.rpc_sync<&resident_bytes>(peer);
  const auto with_them = hold();
  return {{"bytes", static_cast<double>(std::max(with_them, before) - before)}};
}

}  // namespace

const std::map<std::string, row>& rref_rows() {
  static const std::map<std::string, row> all = {
      {"rref_remote_to_here", rref_remote_to_here},
      {"rref_churn", rref_churn},
      {"rref_chain", rref_chain},
      {"coroutines_in_flight", coroutines_in_flight},
  };
  return all;
}

}  // namespace troupe::bench
