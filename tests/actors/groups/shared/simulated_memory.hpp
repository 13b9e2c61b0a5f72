#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <semaphore>
#include <stdexcept>
#include <thread>
#include <vector>

#include "troupe/actors/sync/futex.hpp"
#include "troupe/messages/base/random.hpp"

namespace troupe::groups::test {

/// Threads of which one runs at a time; after each of its accesses to simulated memory a seed
/// decides who goes on. Stores stay in a buffer of their thread until the seed lets them out: in
/// any order, except that those of one cell keep theirs, and a release store comes after all
/// earlier ones. Loads are made in the order of the program.
class interleaving {
public:
  struct options {
    bool fences = true;    ///< false: fences do nothing
    bool releases = true;  ///< false: release stores are relaxed ones
  };

  interleaving(std::uint64_t seed, options how) : random_(seed), how_(how) {}

  /// Runs the threads to their ends. False: at some time all that were left slept, and nobody would
  /// have woken them; they were woken then.
  bool run(const std::vector<std::function<void()>>& bodies) {
    for (std::size_t i = 0; i < bodies.size(); ++i) actors_.push_back(std::make_unique<actor>());
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < bodies.size(); ++i)
      threads.emplace_back([&, i] {
        actors_[i]->turn.acquire();
        current_ = this;
        bodies[i]();
        actors_[i]->done = true;
        hand_over();
      });
    running_ = 0;
    actors_[0]->turn.release();
    for (auto& t : threads) t.join();
    return !stuck_;
  }

  static interleaving& current() { return *current_; }

  /// An access is about to happen.
  void point() {
    if (random_.next() % 3 == 0) drain_one();
    if (random_.next() % 4 == 0) switch_to(pick());
  }

  void store(std::uint64_t* cell, std::uint64_t value, bool release) {
    point();
    me().buffer.push_back({cell, value, release && how_.releases});
    if (me().buffer.size() > 40) drain(me(), true);
  }
  std::uint64_t load(const std::uint64_t* cell) {
    point();
    for (auto at = me().buffer.rbegin(); at != me().buffer.rend(); ++at)
      if (at->cell == cell) return at->value;
    return *cell;
  }
  template <class F>
  std::uint64_t modify(std::uint64_t* cell, F&& f) {
    point();
    drain(me(), true);
    const auto old = *cell;
    *cell = f(old);
    return old;
  }
  void fence() {
    point();
    if (how_.fences) drain(me(), true);
  }

  // A nap ends only by a wake, however long it takes: whoever is forgotten sleeps for ever.
  void sleep(const std::uint64_t* cell, std::uint64_t expected) {
    point();
    if (*cell != expected) return;
    ++naps;
    me().sleeps_on = cell;
    switch_to(pick());
  }
  void wake(const std::uint64_t* cell) {
    point();
    for (auto& a : actors_)
      if (a->sleeps_on == cell) a->sleeps_on = nullptr;
  }
  clock::time_point now() { return clock::time_point(std::chrono::microseconds(30 * ++ticks_)); }

  std::uint64_t draw() { return random_.next(); }
  int naps = 0;

private:
  struct pending {
    std::uint64_t* cell;
    std::uint64_t value;
    bool release;
  };
  struct actor {
    std::binary_semaphore turn{0};
    std::vector<pending> buffer;
    const std::uint64_t* sleeps_on = nullptr;
    bool done = false;
  };

  actor& me() { return *actors_[running_]; }

  static constexpr std::size_t nobody = ~std::size_t{0};

  // Who goes on; nobody when all have ended.
  std::size_t pick() {
    std::vector<std::size_t> able;
    for (;;) {
      bool all_done = true;
      for (std::size_t i = 0; i < actors_.size(); ++i) {
        all_done = all_done && actors_[i]->done;
        if (!actors_[i]->done && !actors_[i]->sleeps_on) able.push_back(i);
      }
      if (!able.empty()) return able[random_.next() % able.size()];
      if (all_done) return nobody;
      stuck_ = true;
      for (auto& a : actors_) a->sleeps_on = nullptr;
    }
  }
  void switch_to(std::size_t next) {
    const auto from = running_;
    if (next == from || next == nobody) return;
    running_ = next;
    actors_[next]->turn.release();
    actors_[from]->turn.acquire();
  }
  void hand_over() {
    const auto next = pick();
    if (next == nobody) return;
    running_ = next;
    actors_[next]->turn.release();
  }
  void drain_one() { drain(*actors_[random_.next() % actors_.size()], false); }
  void drain(actor& of, bool all) {
    while (!of.buffer.empty()) {
      auto i = all ? 0 : random_.next() % of.buffer.size();
      for (std::size_t k = 0; k < i; ++k)
        if (of.buffer[i].release || of.buffer[k].cell == of.buffer[i].cell)
          i = k, k = ~std::size_t{0};
      *of.buffer[i].cell = of.buffer[i].value;
      of.buffer.erase(of.buffer.begin() + static_cast<std::ptrdiff_t>(i));
      if (!all) return;
    }
  }

  static inline thread_local interleaving* current_ = nullptr;

  random_source random_;
  const options how_;
  std::vector<std::unique_ptr<actor>> actors_;
  std::size_t running_ = 0;
  bool stuck_ = false;
  std::int64_t ticks_ = 0;
};

/// As process_memory, in an interleaving.
struct simulated_memory {
  template <class T>
  class cell {
  public:
    void store(T value, std::memory_order order) {
      interleaving::current().store(&value_, value, order != std::memory_order_relaxed);
    }
    T load(std::memory_order) const {
      return static_cast<T>(interleaving::current().load(&value_));
    }
    T fetch_add(T more, std::memory_order) {
      return static_cast<T>(interleaving::current().modify(
          &value_, [more](auto v) { return static_cast<T>(v + more); }));
    }
    T fetch_or(T bits, std::memory_order) {
      return static_cast<T>(interleaving::current().modify(
          &value_, [bits](auto v) { return static_cast<T>(v | bits); }));
    }
    T fetch_and(T bits, std::memory_order) {
      return static_cast<T>(interleaving::current().modify(
          &value_, [bits](auto v) { return static_cast<T>(v & bits); }));
    }
    bool compare_exchange_strong(T& expected, T wanted, std::memory_order, std::memory_order) {
      const auto old = static_cast<T>(interleaving::current().modify(
          &value_, [&](auto v) { return v == expected ? wanted : v; }));
      const bool same = old == expected;
      expected = old;
      return same;
    }

  private:
    friend struct simulated_memory;
    std::uint64_t value_ = 0;
  };

  static void fence() { interleaving::current().fence(); }
  static void pause() { interleaving::current().point(); }
  static void yield() { interleaving::current().point(); }
  static clock::time_point now() { return interleaving::current().now(); }
  static void sleep(cell<std::uint32_t>& word, std::uint32_t expected, clock::time_point) {
    interleaving::current().sleep(&word.value_, expected);
  }
  static void wake(cell<std::uint32_t>& word) { interleaving::current().wake(&word.value_); }
};

}  // namespace troupe::groups::test
