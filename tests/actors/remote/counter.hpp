#pragma once

#include <atomic>
#include <troupe/troupe.hpp>

namespace troupe::test {

struct add {
  int amount = 0;
};
TROUPE_MESSAGE_EXTERN(add, amount)

struct total {};
TROUPE_MESSAGE_EXTERN(total)

struct where {};
TROUPE_MESSAGE_EXTERN(where)

struct note {
  int amount = 0;
};
TROUPE_MESSAGE_EXTERN(note, amount)

struct leave {};
TROUPE_MESSAGE_EXTERN(leave)

/// Adds up; names its node; ends on `leave`.
using counter = actor<answers<add, int>, answers<total, int>, answers<where, std::string>,
                      accepts<note>, accepts<leave>>;

inline std::atomic<int> living_counters{0};

inline counter::behavior_type counting(counter::pointer self, int* sum) {
  return {
      [sum](const add& x) { return *sum += x.amount; },
      [sum](const total&) { return *sum; },
      [](const where&) { return this_node().name(); },
      [sum](const note& x) { *sum += x.amount; },
      [self](const leave&) { self->quit(caf::exit_reason::user_shutdown); },
  };
}

/// A counter as a class. Throws std::domain_error for a start below 0. The living are counted.
class counter_actor : public counter::base {
public:
  counter_actor(caf::actor_config& config, int start) : counter::base(config), sum_(start) {
    if (start < 0) throw std::domain_error("a counter starts at 0 or more");
    ++living_counters;
  }
  ~counter_actor() override { --living_counters; }

  counter::behavior_type make_behavior() override { return counting(this, &sum_); }

private:
  int sum_;
};

/// The same as a behaviour function.
inline counter::behavior_type count_from(counter::pointer self, int start) {
  struct place {
    explicit place(int start) : sum(start) { ++living_counters; }
    ~place() { --living_counters; }
    int sum;
  };
  auto state = std::make_shared<place>(start);
  auto* sum = &state->sum;
  self->attach_functor([state](const caf::error&) {});
  return counting(self, sum);
}

}  // namespace troupe::test
