#include "tests/actors/rref/random_rrefs.hpp"

#include <fmt/format.h>

#include <deque>

namespace troupe::test {

using namespace std::chrono_literals;

namespace {

using number_ref = rref<std::int64_t>;

/// A value of the run, counted.
class counter_object {
public:
  explicit counter_object(std::int64_t number) : number_(number) {
    if (number % 7 == 0) throw std::domain_error("seven");
    ++alive;
  }
  counter_object(const counter_object&) = delete;
  ~counter_object() { --alive; }
  std::int64_t number() const { return number_; }

  static inline std::int64_t alive = 0;

private:
  const std::int64_t number_;
};

/// A reference, and what is known of its value.
struct known {
  number_ref number{};
  rref<counter_object> object{};  // this or that
  std::int64_t value = 0;
  bool fails = false;       // its creation throws
  bool may_expire = false;  // its creation has a short limit
};
TROUPE_MESSAGE(known, number, object, value, fails, may_expire)

// What each node keeps for others, in the order in which they came: addresses are no seed's.
struct pocket_of {
  node_context* whose;
  std::vector<known> kept;
};
std::deque<pocket_of>* pockets = nullptr;
std::map<std::uint64_t, int>* executed = nullptr;
bool nobody_keeps = false;

std::vector<known>& pocket() {
  for (auto& one : *pockets)
    if (one.whose == current_node_context()) return one.kept;
  return pockets->emplace_back(pocket_of{current_node_context(), {}}).kept;
}

std::int64_t make_number(std::int64_t x, std::uint64_t call) {
  ++(*executed)[call];
  if (x % 7 == 0) throw std::domain_error("seven");
  return x;
}
std::int64_t add_numbers(std::int64_t a, std::int64_t b, std::uint64_t call) {
  ++(*executed)[call];
  return a + b;
}
task<std::int64_t> make_later(worker_info where, std::int64_t x, std::uint64_t call) {
  co_return co_await this_node().rpc_async<&make_number>(where, x, call, timeout(20s));
}
void keep(known one) {
  if (!nobody_keeps) pocket().push_back(std::move(one));
}
known hand_out(std::uint64_t which) {
  auto& mine = pocket();
  return mine.empty() ? known{} : mine[which % mine.size()];
}
void forget(std::uint64_t which) {
  auto& mine = pocket();
  if (!mine.empty()) mine.erase(mine.begin() + static_cast<long>(which % mine.size()));
}
std::int64_t read_for_me(known one) {
  return one.number ? one.number.to_here(timeout(20s))
                    : one.object.rpc_sync<&counter_object::number>(timeout(20s));
}
known forward(known one, int ttl) {
  const auto self = this_node();
  const auto workers = self.workers();
  if (ttl == 0) return one;
  const auto& next =
      *(workers.begin() + static_cast<long>((one.value + ttl) % static_cast<long>(workers.size())));
  return self.rpc_sync<&forward>(next, one, ttl - 1, timeout(20s));
}

}  // namespace

struct random_rrefs::book {
  std::deque<pocket_of> pockets;
  std::map<std::uint64_t, int> executed;
  std::uint64_t last_call = 0;
  std::int64_t last_value = 0;
};

struct random_rrefs::my_place : place {
  using place::place;

  std::vector<known> held;
  struct call {
    future<std::int64_t> answer;
    std::int64_t expected;
    std::uint64_t id;
    known about;  // whose value is in it
  };
  std::vector<call> calls;
  struct gift {
    future<known> answer;
  };
  std::vector<gift> gifts;
  std::vector<future<void>> others;  // that may fail, but must end
};

random_rrefs::random_rrefs(std::uint64_t seed, bool hurried)
    : random_world(seed, 5, seed % 50 == 0 ? 50 : 9,
                   hurried ? leaked_rref::fail : leaked_rref::ignore),
      book_(std::make_shared<book>()),
      hurried_(hurried) {
  nobody_keeps = hurried;
  pockets = &book_->pockets;
  executed = &book_->executed;
  counter_object::alive = 0;
}

random_rrefs::~random_rrefs() {
  cluster_.reset();
  pockets = nullptr;
  executed = nullptr;
}

std::shared_ptr<random_world::place> random_rrefs::make_place(node n) {
  return std::make_shared<my_place>(std::move(n));
}

void random_rrefs::play(place& one) {
  auto& at = static_cast<my_place&>(one);
  const auto rounds = 5 + below(25);
  for (std::uint64_t i = 0; i < rounds; ++i) {
    if (once_in(3)) cluster_->sleep(std::chrono::microseconds(below(20'000)));
    try {
      step(at);
    } catch (const error& e) {
      // A node that is gone or was fenced, a limit that has passed: all in order.
      if (e.code() == errc::rref_gone && !faults_injected_)
        wrong(fmt::format("rank {}: {}", at.rank, e.what()));
    }
  }
}

void random_rrefs::step(my_place& at) {
  const auto& here = at.here;
  const auto workers = here.workers();
  const auto& peer = *(workers.begin() + static_cast<long>(below(workers.size())));
  const auto& third = *(workers.begin() + static_cast<long>(below(workers.size())));
  const auto call = ++book_->last_call;
  const auto value = ++book_->last_value;
  const auto any = [&]() -> known { return at.held[below(at.held.size())]; };
  switch (below(15)) {
    case 0:
    case 1: {
      known made{.value = value, .fails = value % 7 == 0, .may_expire = once_in(8)};
      const timeout limit(made.may_expire ? 1ms : 60'000ms);
      made.number = once_in(2) ? here.remote<&make_number>(peer, value, call, limit)
                               : here.remote<&make_later>(peer, third, value, call, limit);
      at.held.push_back(std::move(made));
      break;
    }
    case 2: {
      known made{.value = value, .fails = value % 7 == 0};
      made.object = here.remote<counter_object>(peer, value);
      at.held.push_back(std::move(made));
      break;
    }
    case 3: at.held.push_back({.number = here.make_rref(value), .value = value}); break;
    case 4:
    case 5:
      if (!at.held.empty()) use(at, below(at.held.size()));
      break;
    case 6:
    case 7:
      if (!at.held.empty()) at.others.push_back(here.rpc_async<&keep>(peer, any()));
      break;
    case 8: at.gifts.push_back({here.rpc_async<&hand_out>(peer, below(100), timeout(20s))}); break;
    case 9: at.others.push_back(here.rpc_async<&forget>(peer, below(100))); break;
    case 10:
      if (!at.held.empty())
        at.held.erase(at.held.begin() + static_cast<long>(below(at.held.size())));
      break;
    case 11: {
      // Made by a third node of two values that lie elsewhere.
      if (at.held.empty()) break;
      const auto a = any(), b = any();
      if (!a.number || !b.number) break;
      known made{.value = a.value + b.value,
                 .fails = a.fails || b.fails,
                 .may_expire = a.may_expire || b.may_expire};
      made.number = here.remote<&add_numbers>(peer, a.number, b.number, call);
      at.held.push_back(std::move(made));
      break;
    }
    case 12:
      if (!at.held.empty()) {
        const auto about = any();
        at.calls.push_back(
            {here.rpc_async<&read_for_me>(peer, about, timeout(40s)), about.value, 0, about});
      }
      break;
    case 13: {
      // The same in a call, which may be given up.
      if (at.held.empty()) break;
      const auto a = any(), b = any();
      if (!a.number || !b.number) break;
      known about{.value = a.value + b.value,
                  .fails = a.fails || b.fails,
                  .may_expire = a.may_expire || b.may_expire || once_in(3)};
      auto answer = here.rpc_async<&add_numbers>(peer, a.number, b.number, call, timeout(40s));
      if (about.may_expire && once_in(2)) answer.cancel();
      at.calls.push_back({std::move(answer), about.value, call, about});
      break;
    }
    default:
      if (!at.held.empty())
        at.gifts.push_back(
            {here.rpc_async<&forward>(peer, any(), static_cast<int>(below(4)), timeout(40s))});
  }
}

// Rule 1: whoever has a reference can use it, unless its owner is lost, or it was never made.
void random_rrefs::use(my_place& at, std::size_t which) {
  const auto one = at.held[which];
  std::int64_t got = 0;
  try {
    got = one.number ? one.number.to_here(timeout(3s))
                     : one.object.rpc_sync<&counter_object::number>(timeout(3s));
  } catch (const error& e) {
    const bool expected = (one.fails && e.code() == errc::remote_error) ||
                          (one.may_expire && e.code() == errc::rpc_timeout) || faults_injected_;
    if (!expected) wrong(fmt::format("rank {} cannot use a reference: {}", at.rank, e.what()));
    // Freed early: never, whatever has happened to third nodes.
    if (e.code() == errc::rref_gone && sound(at))
      wrong(fmt::format("rank {} has a reference to what is gone: {}", at.rank, e.what()));
    return;
  }
  if (one.fails) wrong(fmt::format("{} should have failed", one.value));
  if (got != one.value) wrong(fmt::format("{} became {}", one.value, got));
}

void random_rrefs::check() {
  if (hurried_) return drop_all();
  check_uses();
  check_members();
  check_rest();
}

// What is under way goes on: the shutdown waits for it, and for what it leaves behind.
void random_rrefs::drop_all() {
  for (const auto& one : places_) {
    auto& at = static_cast<my_place&>(*one);
    at.held.clear();
    at.calls.clear();
    at.gifts.clear();
    at.others.clear();
  }
}

void random_rrefs::check_uses() {
  for (const auto& one : places_) {
    auto& at = static_cast<my_place&>(*one);
    for (auto& call : at.calls) {
      if (!call.answer.wait_for(longest)) {
        wrong(fmt::format("a call of rank {} never ended", at.rank));
        continue;
      }
      try {
        if (call.answer.get() != call.expected)
          wrong(fmt::format("{} gave another value", call.expected));
      } catch (const error& e) {
        const bool expected = call.about.fails || call.about.may_expire || faults_injected_;
        if (!expected) wrong(fmt::format("a call of rank {} failed: {}", at.rank, e.what()));
      }
    }
    for (auto& gift : at.gifts) {
      if (!gift.answer.wait_for(longest)) {
        wrong(fmt::format("a call of rank {} never ended", at.rank));
        continue;
      }
      try {
        auto got = gift.answer.get();
        if (got.number || got.object) at.held.push_back(std::move(got));
      } catch (const error& e) {
        if (!faults_injected_ && e.code() != errc::remote_error && e.code() != errc::rpc_timeout)
          wrong(fmt::format("rank {} was given nothing: {}", at.rank, e.what()));
      }
    }
    for (auto& call : at.others)
      if (!call.wait_for(longest)) wrong(fmt::format("a call of rank {} never ended", at.rank));
    at.calls.clear();
    at.gifts.clear();
    at.others.clear();
  }
  for (const auto& one : places_) {
    auto& at = static_cast<my_place&>(*one);
    if (!sound(at)) continue;
    for (std::size_t i = 0; i < at.held.size(); ++i) use(at, i);
  }
  for (const auto& [id, times] : book_->executed)
    if (times > 1) wrong(fmt::format("creation {} ran {} times", id, times));
}

// Nothing that nobody has a reference to stays.
void random_rrefs::check_rest() {
  for (const auto& one : places_) static_cast<my_place&>(*one).held.clear();
  for (const auto& at : places_) {
    if (at->crashed || at->left) continue;
    debug_info left;
    const auto nothing_left = [&] {
      book_->pockets.clear();  // a call that its caller has given up may still fill one
      if (!at->here.in_job()) return true;
      left = at->here.debug_info();
      return left.calls_in_flight == 0 && left.owner_rrefs == 0 && left.user_rrefs == 0 &&
             left.rref_forks == 0;
    };
    if (cluster_->wait_until(nothing_left, 70s)) continue;
    for (const auto& one : at->here.rrefs())
      wrong(fmt::format("{} has {} of {}, {}", one.holder, to_string(one.id), one.owner, one.site));
    wrong(fmt::format("rank {} is left with {} calls, {} values, {} references, {} forks", at->rank,
                      left.calls_in_flight, left.owner_rrefs, left.user_rrefs, left.rref_forks));
  }
}

void random_rrefs::check_end() {
  if (counter_object::alive != 0)
    wrong(fmt::format("{} objects are left over", counter_object::alive));
}

}  // namespace troupe::test
