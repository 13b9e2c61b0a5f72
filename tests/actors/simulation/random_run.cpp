#include "tests/actors/simulation/random_run.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <caf/send.hpp>

namespace troupe::test {

using namespace std::chrono_literals;

// What the nodes of a run do is recorded here, by the thread that has the baton.
struct random_run::log_book : log_of_all {};

struct random_run::my_place : place {
  using place::place;

  std::vector<recorder> recorders;  // handles that it has
  struct call {
    future<std::int64_t> answer;
    std::int64_t expected;
    std::uint64_t id;
    std::string what;
  };
  std::vector<call> calls;
};

random_run::random_run(std::uint64_t seed)
    : random_world(seed, 2, 6), book_(std::make_shared<log_book>()) {
  log_of_all::current() = book_.get();
}

random_run::~random_run() {
  cluster_.reset();
  log_of_all::current() = nullptr;
}

std::shared_ptr<random_world::place> random_run::make_place(node n) {
  return std::make_shared<my_place>(std::move(n));
}

void random_run::prepare(place& at) {
  at.here.watch_members(at.here.spawn(record_members, at.rank, at.incarnation));
}

void random_run::check() {
  check_calls();
  check_notes();
  check_members();
  cluster_->sleep(1ms);  // until the watchers have been notified
  check_stories();
  check_rest();
}

void random_run::check_end() {
  if (book_->actors != 0) wrong(fmt::format("{} actors are left over", book_->actors));
}

// ---- What nodes do

void random_run::play(place& one) {
  auto* at = &static_cast<my_place&>(one);
  const auto& here = at->here;
  const auto rounds = 5 + below(25);
  for (std::uint64_t i = 0; i < rounds; ++i) {
    if (once_in(3)) cluster_->sleep(std::chrono::microseconds(below(20'000)));
    try {
      const auto workers = here.workers();
      const auto& peer = *(workers.begin() + static_cast<long>(below(workers.size())));
      const auto id = ++book_->last_call;
      switch (below(10)) {
        case 0:
        case 1:
          at->calls.push_back(
              {here.rpc_async<&twice>(peer, id), static_cast<std::int64_t>(2 * id), id, "twice"});
          break;
        case 2: {
          const auto& third = *(workers.begin() + static_cast<long>(below(workers.size())));
          at->calls.push_back({here.rpc_async<&through>(peer, third, id),
                               static_cast<std::int64_t>(2 * id), id, "through"});
          break;
        }
        case 3: {
          at->recorders.push_back(
              here.spawn_on<record>(peer, incarnation_of(peer.id), timeout(5s)));
          break;
        }
        case 4:
        case 5: {
          if (at->recorders.empty()) break;
          const auto& to = at->recorders[below(at->recorders.size())];
          const auto many = 1 + below(20);
          for (std::uint64_t n = 0; n < many; ++n) {
            auto& next = book_->sent[{at->rank, at->incarnation, to.id(), to.node()}];
            send(to, numbered{at->rank, at->incarnation, next});
            ++next;
          }
          break;
        }
        case 6: {
          if (at->recorders.empty()) break;
          const auto& to = at->recorders[below(at->recorders.size())];
          at->calls.push_back({request(to, count_up{id}, timeout(once_in(2) ? 300ms : 60'000ms)),
                               static_cast<std::int64_t>(id + 1), id, "count_up"});
          break;
        }
        case 7: {
          if (at->recorders.empty()) break;
          const auto& whom = at->recorders[below(at->recorders.size())];
          book_->handles.push_back(
              here.spawn(watch_end, ++book_->last_watch, at->incarnation, whom, once_in(3)));
          break;
        }
        case 8: {
          if (at->recorders.empty()) break;
          const auto which = below(at->recorders.size());
          const auto whom = at->recorders[which];
          if (once_in(2)) {
            caf::anon_send_exit(whom, caf::exit_reason::user_shutdown);
          } else {
            at->recorders.erase(at->recorders.begin() + static_cast<long>(which));
          }
          break;
        }
        default: {
          if (at->recorders.empty()) break;
          // Handed on to a third node, which asks in its turn.
          const auto& whom = at->recorders[below(at->recorders.size())];
          at->calls.push_back({here.rpc_async<&ask_for_me>(peer, whom, id),
                               static_cast<std::int64_t>(id + 1), id, "ask_for_me"});
        }
      }
    } catch (const error&) {
      // A node that is gone or was fenced, a limit that has passed: all in order.
    }
  }
}

// ---- What must be

void random_run::check_calls() {
  for (const auto& one : places_) {
    auto* at = static_cast<my_place*>(one.get());
    for (auto& call : at->calls) {
      bool answered = false;
      if (!call.answer.wait_for(longest)) {
        wrong(fmt::format("{} {} of rank {} never ended", call.what, call.id, at->rank));
        continue;
      }
      try {
        const auto got = call.answer.get();
        answered = true;
        if (got != call.expected)
          wrong(fmt::format("{} {} gave {} instead of {}", call.what, call.id, got, call.expected));
      } catch (const error&) {
      }
      const auto times = book_->executed.count(call.id) ? book_->executed[call.id] : 0;
      if (times > 1) wrong(fmt::format("{} {} ran {} times", call.what, call.id, times));
      if (answered && times == 0)
        wrong(fmt::format("{} {} was never answered", call.what, call.id));
    }
    at->calls.clear();
  }
}

void random_run::check_notes() {
  // Between nodes that live all is there in the end.
  const auto all_there = [&](bool report) {
    bool all = true;
    for (const auto& [way, sent] : book_->sent) {
      const auto& [rank, incarnation, id, where] = way;
      const auto from = std::find_if(places_.begin(), places_.end(),
                                     [&, r = rank, i = incarnation](const auto& p) {
                                       return p->rank == r && p->incarnation == i;
                                     });
      const auto received = book_->received.find(way);
      const auto got = received == book_->received.end() ? 0 : received->second;
      const auto there = book_->recorders.find({id, where});
      if (there == book_->recorders.end() || there->second.ended) continue;
      const auto to = std::find_if(places_.begin(), places_.end(), [&](const auto& p) {
        return p->rank == there->second.rank && p->incarnation == there->second.incarnation;
      });
      if (!sound(**from) || !sound(**to) || got == sent) continue;
      all = false;
      if (report) wrong(fmt::format("of {} notes from rank {} only {} arrived", sent, rank, got));
    }
    return all;
  };
  if (!cluster_->wait_until([&] { return all_there(false); }, 10s)) all_there(true);
  for (const auto& text : book_->wrong) wrong(text);
  // A watcher is notified of an end once; for certain if its own node is well.
  const auto notified_once = [&](bool report) {
    bool good = true;
    for (const auto& [number, watch] : book_->watches) {
      const bool ended = book_->recorders[watch.whom].ended;
      const bool must =
          ended && std::any_of(places_.begin(), places_.end(), [&](const auto& p) {
            return p->rank == watch.rank && p->incarnation == watch.incarnation && sound(*p);
          });
      if (watch.downs <= 1 && (!must || watch.downs == 1)) continue;
      good = false;
      if (report)
        wrong(fmt::format("watch {} was notified of the end {} times", number, watch.downs));
    }
    return good;
  };
  if (!cluster_->wait_until([&] { return notified_once(false); }, 10s)) notified_once(true);
}

// All nodes were notified of the same changes, in the same order. A node that has ended may have
// been notified of only some changes of its last epoch.
void random_run::check_stories() {
  using changes = std::vector<std::string>;
  std::map<std::uint32_t, changes> whole;
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::map<std::uint32_t, changes>> stories;
  for (const auto& [who, story] : book_->members) {
    auto& mine = stories[who];
    std::uint32_t last = 0;
    for (const auto& event : story) {
      if (event.epoch < last)
        wrong(
            fmt::format("rank {} is notified of epoch {} after {}", who.first, event.epoch, last));
      if (last != 0 && event.epoch > last + 1)
        wrong(fmt::format("rank {} misses an epoch after {}", who.first, last));
      last = event.epoch;
      mine[event.epoch].push_back(event.text);
    }
    for (const auto& [epoch, some] : mine)
      if (some.size() > whole[epoch].size()) whole[epoch] = some;
  }
  for (const auto& [who, mine] : stories) {
    const bool there = std::any_of(places_.begin(), places_.end(), [&](const auto& at) {
      return at->rank == who.first && at->incarnation == who.second && !at->crashed && !at->left &&
             at->here.in_job();
    });
    for (const auto& [epoch, some] : mine) {
      auto all = whole[epoch];
      if (!there && epoch == mine.rbegin()->first) all.resize(some.size());
      if (some != all)
        wrong(fmt::format("epoch {} is another one for rank {}: {} instead of {}", epoch, who.first,
                          fmt::join(some, ", "), fmt::join(all, ", ")));
    }
  }
}

void random_run::check_rest() {
  for (auto& at : places_) static_cast<my_place&>(*at).recorders.clear();
  book_->handles.clear();
  for (const auto& at : places_) {
    if (at->crashed || at->left) continue;
    debug_info left;
    const auto nothing_left = [&] {
      if (!at->here.in_job()) return true;
      left = at->here.debug_info();
      return left.calls_in_flight == 0 && left.actors_held == 0 && left.remote_handles == 0;
    };
    if (!cluster_->wait_until(nothing_left, 70s))
      wrong(fmt::format("rank {} is left with {} calls, {} actors held, {} handles", at->rank,
                        left.calls_in_flight, left.actors_held, left.remote_handles));
  }
}

}  // namespace troupe::test
