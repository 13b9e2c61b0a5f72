// Rows about tensors that are lent, for which TROUPE_LEND_TENSORS is set, or handed over.
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/ones.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <thread>

#include "tests/bench/bench_rows.hpp"
#include "tests/bench/callees.hpp"
#include "tests/bench/own_ranks.hpp"
#include "troupe/messages/memory/copy_on_write.hpp"

namespace troupe::bench {

namespace {

at::Tensor floats(std::size_t bytes) {
  return at::ones({static_cast<std::int64_t>(bytes / sizeof(float))});
}

// The first messages may travel before both processes have mapped the other's memory.
void until_lent(const node& here) {
  const auto x = floats(mib);
  const auto start = clock::now();
  while (here.rpc_sync<&echo>(peer, x).storage().data() != x.storage().data()) {
    if (seconds_since(start) > 10) throw not_here("tensors are not lent: see the log");
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

std::vector<measurement> identity_lent(const node& here) {
  until_lent(here);
  return identity(here);
}

std::vector<measurement> perftest_am_lent(const node& here) {
  until_lent(here);
  return perftest_am(here);
}

// The callee writes to the tensor, once: its first write has to copy. Here the same is done to a
// copy in warm memory.
std::vector<measurement> identity_write_once(const node& here) {
  until_lent(here);
  std::vector<measurement> measured;
  for (const std::size_t size : {4 * mib, 64 * mib, std::size_t{400'000'000}}) {
    const auto tensor = floats(size);
    auto copy = floats(size);
    const auto there = [&] { here.rpc_sync<&add_once>(peer, tensor); };
    const auto locally = [&] {
      std::memcpy(copy.mutable_data_ptr(), tensor.const_data_ptr(), size);
      copy.add_(1);
    };
    measured.push_back({"times", times_as_long(there, locally, {.least = 5, .warm_up = 2}), size});
  }
  return measured;
}

// Memory of the program's own, which no other process can map.
std::vector<measurement> identity_foreign(const node& here) {
  until_lent(here);
  constexpr std::size_t size = 64 * mib;
  const auto memory = std::make_unique<std::byte[]>(size);
  std::memset(memory.get(), 0, size);
  auto copy = floats(size);
  const auto foreign = at::from_blob(memory.get(), {static_cast<std::int64_t>(size / 4)});
  const auto there = [&] { here.rpc_sync<&echo>(peer, foreign); };
  const auto locally = [&] { std::memcpy(copy.mutable_data_ptr(), memory.get(), size); };
  return {{"times", times_as_long(there, locally, {.least = 5, .warm_up = 2}), size}};
}

// The callee reads all of it, and then all of it is written again here.
std::vector<measurement> rewrite_between_calls(const node& here) {
  until_lent(here);
  constexpr std::size_t size = 64 * mib;
  auto tensor = floats(size);
  const auto before = copy_on_write::count().copies;
  call_times([&] {
    here.rpc_sync<&sum_of>(peer, tensor);
    tensor.fill_(1);
  });
  return {{"copies", static_cast<double>(copy_on_write::count().copies - before)}};
}

// A replay buffer: rows are written to its end, and those written lately are sent. Bytes that
// writes had to copy, over those sent.
std::vector<measurement> replay_append(const node& here) {
  until_lent(here);
  constexpr std::int64_t row = mib / sizeof(float);
  constexpr std::int64_t rows = 4'096;
  if (static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE) < 12 * 1024 * mib)
    throw not_here("a buffer of 4 GiB takes a machine of 12");
  auto buffer = at::empty({rows, row});
  const auto before = copy_on_write::count().bytes;
  std::vector<future<void>> calls;
  for (std::int64_t i = 0; i < rows; ++i) {
    buffer.select(0, i).fill_(static_cast<float>(i));
    calls.push_back(here.rpc_async<&take>(peer, buffer.select(0, i)));
    if (calls.size() == 16) {
      for (auto& call : calls) call.get();
      calls.clear();
    }
  }
  const auto copied = static_cast<double>(copy_on_write::count().bytes - before);
  return {{"times", copied / static_cast<double>(rows * mib), mib}};
}

std::vector<measurement> ops200_lent(const node& here) {
  until_lent(here);
  std::vector<measurement> measured;
  for (const std::size_t size : {4'000'000, 400'000'000}) {
    const auto tensor = floats(size);
    auto copy = floats(size);
    const auto there = [&] { here.rpc_sync<&add_200_times>(peer, tensor); };
    const auto locally = [&] { add_200_times(copy); };
    const bool long_one = size > 32 * mib;
    const effort how{.least = long_one ? 2u : 5u, .warm_up = long_one ? 0u : 1u};
    measured.push_back({"times", times_as_long(there, locally, how), size});
  }
  return measured;
}

// The first messages may travel before both processes can write to the other's memory.
void until_handed_over(const node& here) {
  const auto start = clock::now();
  for (;;) {
    auto x = floats(mib);
    const auto* const place = x.storage().data();
    x = here.rpc_sync<&echo>(peer, std::move(x));
    if (x.storage().data() == place) return;
    if (seconds_since(start) > 10) throw not_here("tensors are not handed over: see the log");
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

// There and back by moves: one of the two processes has it at a time.
std::vector<measurement> identity_handed(const node& here) {
  until_handed_over(here);
  std::vector<measurement> measured;
  for (const std::size_t size :
       {64 * std::size_t{1024}, mib, 4 * mib, 64 * mib, std::size_t{400'000'000}}) {
    auto tensor = floats(size);
    const auto there = [&] { tensor = here.rpc_sync<&echo>(peer, std::move(tensor)); };
    measured.push_back(times_of(call_times(there), size));
  }
  return measured;
}

std::vector<measurement> ops200_handed(const node& here) {
  until_handed_over(here);
  std::vector<measurement> measured;
  for (const std::size_t size : {4'000'000, 400'000'000}) {
    auto tensor = floats(size);
    auto copy = floats(size);
    const auto there = [&] { tensor = here.rpc_sync<&add_200_times>(peer, std::move(tensor)); };
    const auto locally = [&] { add_200_times(copy); };
    const bool long_one = size > 32 * mib;
    const effort how{.least = long_one ? 2u : 5u, .warm_up = long_one ? 0u : 1u};
    measured.push_back({"times", times_as_long(there, locally, how), size});
  }
  return measured;
}

}  // namespace

const std::map<std::string, row>& lending_rows() {
  static const std::map<std::string, row> all = {
      {"identity_lent", identity_lent},       {"identity_write_once", identity_write_once},
      {"identity_foreign", identity_foreign}, {"rewrite_between_calls", rewrite_between_calls},
      {"replay_append", replay_append},       {"ops200_lent", ops200_lent},
      {"identity_handed", identity_handed},   {"ops200_handed", ops200_handed},
      {"perftest_am_lent", perftest_am_lent},
  };
  return all;
}

}  // namespace troupe::bench
