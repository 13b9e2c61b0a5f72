#include "troupe/actors/scheduler/cpu_placement.hpp"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "troupe/messages/base/log.hpp"

namespace troupe {

namespace {

using std::chrono::nanoseconds;

constexpr nanoseconds empty_yield{1'500};   // one takes less where no other thread wants to run
constexpr nanoseconds short_turn{200'000};  // of a thread that polls and runs a short handler
constexpr unsigned most_in_a_row = 20;
// Of two nodes that find each other on one processor only one shall move: the times are spread.
constexpr clock::rep least_between_moves = 200'000;
constexpr clock::rep most_between_moves = 1'000'000'000;

}  // namespace

void cpu_placement::yield(clock::time_point now) noexcept {
  sched_yield();
  const auto after = clock::now();
  // A store only where something changes: other polling threads read the same cache line.
  const auto set = [](std::atomic<bool>& what, bool is) {
    if (is != what.load(std::memory_order_relaxed)) what.store(is, std::memory_order_relaxed);
  };
  const bool crowded = after - now > empty_yield;
  set(crowded_, crowded);
  set(taken_, after - now > short_turn);
  if (crowded) {
    const auto times = in_a_row_.load(std::memory_order_relaxed) + 1;
    in_a_row_.store(times, std::memory_order_relaxed);
    if (times > most_in_a_row) move_away(after);
  } else if (in_a_row_.load(std::memory_order_relaxed) != 0) {
    in_a_row_.store(0, std::memory_order_relaxed);
  }
}

// Less and less often if it does not help. The thread's affinity mask is the same afterwards; if
// another thread changes it at the same moment, that change may be undone.
void cpu_placement::move_away(clock::time_point now) noexcept {
  const auto ticks = now.time_since_epoch().count();
  const auto due = next_move_.load(std::memory_order_relaxed);
  if (ticks < due) return;
  auto pause = pause_.load(std::memory_order_relaxed);
  const bool helped = ticks - due > 10 * pause;
  pause = helped ? least_between_moves : std::min(2 * pause, most_between_moves);
  pause_.store(pause, std::memory_order_relaxed);
  next_move_.store(ticks + pause / 2 + ticks % pause, std::memory_order_relaxed);
  in_a_row_.store(0, std::memory_order_relaxed);
  cpu_set_t mine, others;
  const int here = sched_getcpu();
  if (here < 0 || sched_getaffinity(0, sizeof mine, &mine) != 0) return;
  others = mine;
  CPU_CLR(here, &others);
  if (CPU_COUNT(&others) == 0 || sched_setaffinity(0, sizeof others, &others) != 0) return;
  if (sched_setaffinity(0, sizeof mine, &mine) != 0)  // its processors have been taken from it
    log().warn("a thread that was moved off processor {} cannot go back to it: {}", here,
               std::strerror(errno));
}

}  // namespace troupe
