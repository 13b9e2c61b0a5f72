// What it costs that the runtime knows who is alive, and that slow receivers slow their senders.

#include <ATen/ATen.h>

#include <atomic>
#include <caf/send.hpp>
#include <fstream>
#include <thread>

#include "tests/bench/bench_rows.hpp"
#include "tests/bench/callees.hpp"
#include "tests/bench/own_ranks.hpp"

namespace troupe::bench {

namespace {

// The round trip in a job with the defaults over that in one without windows and pings, between the
// same two processes, in short turns; less 1.
std::vector<measurement> reliability_cost(const node&) {
  constexpr std::size_t wanted = 400;  // pairs of turns
  constexpr double longest = 30;       // seconds
  constexpr int calls = 300;           // of one turn
  const meeting_folder meeting;
  const auto usual = meeting.file("usual"), bare = meeting.file("bare");
  const auto other = start_rank({"1", "2", usual, "--plain", bare});
  const auto with = init_rpc(own_rank_options(0, 2, usual));
  const auto without = init_rpc(plain(own_rank_options(0, 2, bare)));
  const auto tensor = at::ones({1});
  const auto turn = [&](const node& here) {
    const auto call = [&] { here.rpc_sync<&echo>(1, tensor); };
    for (int i = 0; i < calls / 10; ++i) call();  // the other job's threads go to sleep
    std::vector<double> taken;
    for (int i = 0; i < calls; ++i) {
      const auto before = clock::now();
      call();
      taken.push_back(seconds_since(before));
    }
    return percentile(std::move(taken), 0.5);
  };
  for (int i = 0; i < 10; ++i) turn(i % 2 ? with : without);
  // Where the two processes share a core for a while, a call takes five times as long. Turns of
  // which only one was like that cannot be compared.
  std::vector<double> shares;
  const auto start = clock::now();
  for (int i = 0; shares.size() < wanted && seconds_since(start) < longest; ++i) {
    const bool first = i % 2 == 0;  // each goes first as often
    const double one = turn(first ? with : without);
    const double two = turn(first ? without : with);
    const double ratio = first ? one / two : two / one;
    if (ratio > 0.5 && ratio < 2) shares.push_back(ratio - 1);
  }
  std::thread also([&] { with.shutdown(); });
  without.shutdown();
  also.join();
  if (shares.size() < wanted / 4) throw internal_error("too few turns can be compared");
  return {{"share", percentile(std::move(shares), 0.5), 4}};
}

// Of this process.
std::vector<measurement> flood_memory(const node& here) {
  constexpr std::size_t size = 1 << 20;
  constexpr std::size_t pieces = 10'000'000'000 / size;
  const auto receiver = here.spawn_on<swallow>(1, 2.0);
  const auto fresh = [] { return at::ones({size / 4}); };
  here.rpc_sync<&take>(1, fresh());
  const auto idle = resident_bytes();
  std::atomic<std::size_t> highest{idle};
  std::atomic<bool> done{false};
  std::thread looking([&] {
    for (; !done; std::this_thread::sleep_for(std::chrono::milliseconds(2)))
      highest = std::max(highest.load(), resident_bytes());
  });
  for (std::size_t i = 0; i < pieces; ++i) caf::anon_send(receiver, piece{fresh()});
  const auto arrived = request(receiver, how_many{}).get();
  done = true;
  looking.join();
  if (arrived != pieces)
    throw internal_error(std::to_string(arrived) + " messages of " + std::to_string(pieces) +
                         " have arrived");
  return {{"bytes", static_cast<double>(highest - idle), size}};
}

}  // namespace

const std::map<std::string, row>& reliability_rows() {
  static const std::map<std::string, row> all = {
      {"reliability_cost", reliability_cost},
      {"flood_memory", flood_memory},
  };
  return all;
}

}  // namespace troupe::bench
