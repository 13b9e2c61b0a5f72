#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "troupe/actors/groups/shared/process_memory.hpp"
#include "troupe/actors/groups/shared/waiting.hpp"

namespace troupe::groups {

/// What a rank shows the others at one step.
struct step_entry {
  std::uint32_t note = 0;
  std::array<std::uint64_t, 7> words{};
};

/// A rank's entry of every second step; two for each rank. Written by that rank alone.
template <class Memory>
struct alignas(64) entry_line {
  typename Memory::template cell<std::uint32_t> step;
  typename Memory::template cell<std::uint32_t> note;
  typename Memory::template cell<std::uint64_t> words[7];
};
static_assert(sizeof(entry_line<process_memory>) == 64);

/// By which a rank that sleeps is woken; one for each rank.
template <class Memory>
struct alignas(64) sleeper_line {
  typename Memory::template cell<std::uint32_t> asleep;
  typename Memory::template cell<std::uint32_t> bell;
};

/// Set once, by the first that aborts; 0 before.
template <class Memory>
struct alignas(64) abort_line {
  typename Memory::template cell<std::uint64_t> cause;
};

/// The steps of the ranks of a group in shared memory. At each step every rank shows the others an
/// entry and waits for theirs: what it wrote before a step, in shared memory, the others see after
/// it. So each step is a barrier too.
///
/// Steps are numbered, from 1 on, and the number is the flag: nothing is ever reset. A rank has two
/// lines, for even and odd steps. It writes that of step s + 2 when it has ended step s + 1, which
/// every rank begins only when it has read what was shown at step s. So what a rank has shown,
/// there and in memory of its own that it uses at every second step, lies still until it is read. A
/// line has the number of this step or of the one two before it, so numbers may wrap around.
///
/// One thread uses one object; several objects, of any processes, share the lines. A rank that does
/// not end a step (aborted, timed_out) can take no other one.
template <class Memory>
class exchange {
public:
  using line = entry_line<Memory>;
  using sleeper = sleeper_line<Memory>;

  /// `lines` has two for each rank: that of step s of rank r is 2 * r + s % 2.
  exchange(int rank, int size, std::span<line> lines, std::span<sleeper> sleepers,
           abort_line<Memory>& abort, waiting how)
      : rank_(rank), size_(size), lines_(lines), sleepers_(sleepers), abort_(abort), how_(how) {}

  /// The parity of the next step: which half of double memory this rank may write before it.
  unsigned parity() const noexcept { return (step_ + 1) % 2; }

  /// Begins the next step. What this rank wrote before is seen by all that see its flag.
  void post(const step_entry& mine) noexcept {
    ++step_;
    auto& l = line_of(rank_);
    l.note.store(mine.note, std::memory_order_relaxed);
    for (std::size_t i = 0; i < mine.words.size(); ++i)
      l.words[i].store(mine.words[i], std::memory_order_relaxed);
    // Release: the entry, and all that this rank wrote before it.
    l.step.store(step_, std::memory_order_release);
  }

  /// Ends the step: all ranks have begun it. `limit.deadline()` is asked for only after a while.
  template <class Limit>
  wait_result wait(const Limit& limit) noexcept {
    for (int p = 0; p < size_; ++p) {
      if (p == rank_) continue;
      const auto& l = line_of(p);
      const auto result = wait_for([&] { return has_arrived(l); }, limit);
      if (result != wait_result::arrived) return result;
    }
    wake_sleepers();
    return wait_result::arrived;
  }

  template <class Limit>
  wait_result step(const step_entry& mine, const Limit& limit) noexcept {
    post(mine);
    return wait(limit);
  }

  /// What `rank` has shown at the step that has ended.
  step_entry shown_by(int rank) const noexcept {
    const auto& l = line_of(rank);
    step_entry out;
    out.note = l.note.load(std::memory_order_relaxed);
    for (std::size_t i = 0; i < out.words.size(); ++i)
      out.words[i] = l.words[i].load(std::memory_order_relaxed);
    return out;
  }
  std::uint64_t word_of(int rank, std::size_t i) const noexcept {
    return line_of(rank).words[i].load(std::memory_order_relaxed);
  }
  std::uint32_t note_of(int rank) const noexcept {
    return line_of(rank).note.load(std::memory_order_relaxed);
  }

  /// Has `rank` begun the step that this one is in?
  bool has_begun(int rank) const noexcept { return rank == rank_ || has_arrived(line_of(rank)); }

  /// 0: nobody has aborted.
  std::uint64_t abort_cause() const noexcept {
    return abort_.cause.load(std::memory_order_acquire);
  }

  /// Ends all waits, of all ranks, for good. False: another cause came first. Any thread, of any
  /// process that has the lines.
  static bool abort(abort_line<Memory>& line, std::span<sleeper> sleepers,
                    std::uint64_t cause) noexcept {
    std::uint64_t none = 0;
    const bool first = line.cause.compare_exchange_strong(none, cause, std::memory_order_acq_rel,
                                                          std::memory_order_acquire);
    // A rank looks at the cause after it has read its bell, and sleeps only while the bell is the
    // same: either it sees the cause, or it read the bell before this changes it.
    for (auto& s : sleepers) ring(s);
    return first;
  }

private:
  line& line_of(int rank) const noexcept {
    return lines_[2 * static_cast<std::size_t>(rank) + step_ % 2];
  }

  // Acquire: what that rank wrote before it began the step.
  bool has_arrived(const line& l) const noexcept {
    return l.step.load(std::memory_order_acquire) == step_;
  }

  static void ring(sleeper& s) noexcept {
    s.bell.fetch_add(1, std::memory_order_acq_rel);
    Memory::wake(s.bell);
  }

  // Only the last that begins a step need wake the others, and no rank knows whether it is: each
  // looks for sleepers when it has seen all flags. One that sleeps has missed the flag of a rank
  // that will do so. That the flag was stored here, and `asleep` is read here, while the sleeper
  // stores `asleep` and reads the flag, is why both need a fence in between: without one, both may
  // read the old value. Here it is cheap, since the flag's store has long reached the caches.
  void wake_sleepers() noexcept {
    Memory::fence();
    for (int p = 0; p < size_; ++p) {
      if (p == rank_) continue;
      auto& s = sleepers_[static_cast<std::size_t>(p)];
      if (s.asleep.load(std::memory_order_relaxed) != 0) ring(s);
    }
  }

  template <class Arrived, class Limit>
  wait_result wait_for(const Arrived& arrived, const Limit& limit) noexcept {
    clock::time_point begun{};
    for (;;) {
      for (int i = 0; i < how_.looks; ++i) {
        if (arrived()) return wait_result::arrived;
        // Whoever has ended this step may have aborted then; all flags are there, and are seen now.
        if (abort_cause() != 0) return arrived() ? wait_result::arrived : wait_result::aborted;
        if (how_.yields)
          Memory::yield();
        else
          Memory::pause();
      }
      const auto now = Memory::now();
      if (now >= limit.deadline()) return wait_result::timed_out;
      if (begun == clock::time_point{}) begun = now;
      if (now - begun >= how_.awake) nap(arrived, std::min(limit.deadline(), now + longest_nap));
    }
  }

  // A rank that is killed right after it has set its flag wakes nobody.
  static constexpr std::chrono::milliseconds longest_nap{50};

  template <class Arrived>
  void nap(const Arrived& arrived, clock::time_point until) noexcept {
    auto& me = sleepers_[static_cast<std::size_t>(rank_)];
    // Acquire: before the looks below, see abort().
    const auto bell = me.bell.load(std::memory_order_acquire);
    me.asleep.store(1, std::memory_order_relaxed);
    Memory::fence();  // see wake_sleepers()
    if (!arrived() && abort_cause() == 0) Memory::sleep(me.bell, bell, until);
    me.asleep.store(0, std::memory_order_relaxed);
  }

  const int rank_;
  const int size_;
  const std::span<line> lines_;
  const std::span<sleeper> sleepers_;
  abort_line<Memory>& abort_;
  const waiting how_;
  std::uint32_t step_ = 0;
};

}  // namespace troupe::groups
