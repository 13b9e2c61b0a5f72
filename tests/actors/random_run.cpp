#include "tests/actors/random_run.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <caf/send.hpp>
#include <cstdlib>
#include <iostream>

#include "tests/actors/random_actors.hpp"
#include "transport/virtual/random.hpp"

namespace troupe::test {

namespace {

using namespace std::chrono_literals;

// Longer than any limit in such a program: a call that has not ended by then never does.
constexpr auto patience = 120s;

}  // namespace

// What the nodes of a run do is written down here, by whoever has the baton.
struct random_run::log_book : log_of_all {};

struct random_run::place {
  explicit place(node n) : here(std::move(n)), rank(here.rank()) {}

  node here;
  std::uint32_t rank = 0;
  std::uint64_t incarnation = 0;
  bool crashed = false;
  bool left = false;
  bool healthy = true;              // nothing has been done to it that may shut it out
  std::vector<recorder> recorders;  // handles that it has
  struct call {
    future<std::int64_t> answer;
    std::int64_t expected;
    std::uint64_t id;
    std::string what;
  };
  std::vector<call> calls;
};

random_run::random_run(std::uint64_t seed) : seed_(seed) {
  simulation_options how;
  how.seed = seed;
  transport::virtual_net::random_source choose(seed);
  const auto up_to = [&](double most) {
    return most * static_cast<double>(choose.next() % 1000) / 1000;
  };
  auto& links = how.network.links;
  links.latency = std::chrono::microseconds(5 + choose.next() % 300);
  links.jitter = std::chrono::microseconds(choose.next() % 300);
  if (choose.chance(0.7)) links.loss = up_to(0.2);
  if (choose.chance(0.7)) links.duplication = up_to(0.2);
  if (choose.chance(0.7)) links.reordering = up_to(0.3);
  if (choose.chance(0.2)) links.bandwidth = 1e6 + up_to(1e8);
  if (choose.chance(0.3)) how.network.death_notice = std::nullopt;
  how.network.limit = 1000ms;
  how.node.hang_limit = 2000ms;
  how.node.rpc_timeout = choose.chance(0.5) ? 60'000ms : 500ms;
  if (choose.chance(0.5))
    how.node.window = {.messages = 2 + static_cast<std::uint32_t>(choose.next() % 30),
                       .bytes = 1 << 14};
  elects_ = choose.chance(0.5);
  how.node.on_leader_loss = elects_ ? leader_loss::elect : leader_loss::end;
  book_ = std::make_shared<log_book>();
  log_of_all::current() = book_.get();
  const bool tells = std::getenv("TROUPE_TRACE") != nullptr;
  if (tells) how.trace = [](const std::string& line) { std::cout << line << '\n'; };
  lab_ = std::make_unique<simulation>(how);
  if (tells)
    lab_->network().on_event = [](const transport::trace_event& event) {
      std::cout << to_string(event) << '\n';
    };
}

random_run::~random_run() { log_of_all::current() = nullptr; }

void random_run::wrong(std::string what) { wrong_.push_back(std::move(what)); }

std::vector<std::string> random_run::run() {
  const auto count = 2 + below(5);
  for (const auto& n : lab_->start(count)) {
    auto at = std::make_shared<place>(n);
    at->incarnation = 1;
    places_.push_back(at);
    n.watch_members(n.spawn(record_members, at->rank, at->incarnation));
  }
  for (const auto& at : std::vector(places_))
    threads_.push_back(lab_->spawn([this, at] { play(at); }));
  break_things();
  for (std::size_t i = 0; i < threads_.size(); ++i)
    if (!threads_[i].wait_for(patience)) wrong(fmt::format("thread {} does not end", i));
  for (auto& thread : threads_) {
    if (!thread.ready()) continue;
    try {
      thread.get();
    } catch (const std::exception& e) {
      wrong(fmt::format("a thread of the program ended with {}", e.what()));
    }
  }
  check_calls();
  check_notes();
  check_members();
  check_rest();
  steps_ = lab_->steps();
  places_.clear();
  threads_.clear();
  lab_.reset();
  if (book_->actors != 0) wrong(fmt::format("{} actors are left over", book_->actors));
  return wrong_;
}

// ---- What nodes do
// ----------------------------------------------------------------------------------

void random_run::play(std::shared_ptr<place> at) {
  const auto& here = at->here;
  const auto rounds = 5 + below(25);
  for (std::uint64_t i = 0; i < rounds; ++i) {
    if (once_in(3)) lab_->sleep(std::chrono::microseconds(below(20'000)));
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
            auto& next = book_->told[{at->rank, at->incarnation, to.id(), to.node()}];
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
      // A node that is gone or was shut out, a limit that has passed: all in order.
    }
  }
}

// ---- What befalls them
// ------------------------------------------------------------------------------

void random_run::break_things() {
  const auto misfortunes = below(6);
  bad_day_ = misfortunes > 0;
  for (std::uint64_t i = 0; i < misfortunes; ++i) {
    lab_->sleep(std::chrono::microseconds(below(60'000)));
    auto& network = lab_->network();
    auto& victim = *places_[below(places_.size())];
    if (victim.crashed || victim.left) continue;
    try {
      switch (below(8)) {
        case 0:
        case 1:
          victim.crashed = true;
          lab_->crash(victim.rank);
          if (once_in(2)) {
            lab_->sleep(std::chrono::milliseconds(below(3'000)));
            auto at = std::make_shared<place>(lab_->join(fmt::format("again{}", i), victim.rank));
            at->incarnation = victim.incarnation + 1;
            places_.push_back(at);
            at->here.watch_members(at->here.spawn(record_members, at->rank, at->incarnation));
            threads_.push_back(lab_->spawn([this, at] { play(at); }));
          }
          break;
        case 2: {
          const auto time = below(3'000);
          if (time > 400) victim.healthy = false;
          lab_->hang(victim.rank, std::chrono::milliseconds(time));
          break;
        }
        case 3: {
          std::set<transport::rank_t> one, other;
          for (const auto& at : places_) (once_in(2) ? one : other).insert(at->rank);
          network.partition({one, other});
          const auto time = below(2'500);
          if (time > 100)
            for (auto& at : places_) at->healthy = false;
          lab_->sleep(std::chrono::milliseconds(time));
          network.heal();
          break;
        }
        case 4: {
          auto& at = *places_[below(places_.size())];
          network.cut(victim.rank, at.rank);
          const auto time = below(2'000);
          if (time > 100) victim.healthy = at.healthy = false;
          lab_->sleep(std::chrono::milliseconds(time));
          network.heal();
          break;
        }
        case 5: lab_->slow(victim.rank, 1 + static_cast<double>(below(100))); break;
        case 6: {
          auto at = std::make_shared<place>(lab_->join(fmt::format("new{}", i)));
          at->incarnation = 1;
          places_.push_back(at);
          at->here.watch_members(at->here.spawn(record_members, at->rank, at->incarnation));
          threads_.push_back(lab_->spawn([this, at] { play(at); }));
          break;
        }
        default:
          if (victim.rank == 0) break;
          victim.healthy = false;  // as long as it is about to go
          victim.here.leave(5s);
          victim.left = true;
      }
    } catch (const error&) {
      // Not admitted, or not let go: the job may have ended.
    }
  }
}

// ---- What must be
// -----------------------------------------------------------------------------------

void random_run::check_calls() {
  for (const auto& at : places_) {
    for (auto& call : at->calls) {
      bool answered = false;
      if (!call.answer.wait_for(patience)) {
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
        wrong(fmt::format("{} {} was answered by nobody", call.what, call.id));
    }
    at->calls.clear();
  }
}

void random_run::check_notes() {
  // Between nodes that live all is there in the end.
  const auto all_there = [&](bool report) {
    bool all = true;
    for (const auto& [way, sent] : book_->told) {
      const auto& [rank, incarnation, id, where] = way;
      const auto from = std::find_if(places_.begin(), places_.end(),
                                     [&, r = rank, i = incarnation](const auto& p) {
                                       return p->rank == r && p->incarnation == i;
                                     });
      const auto heard = book_->heard.find(way);
      const auto got = heard == book_->heard.end() ? 0 : heard->second;
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
  if (!lab_->wait_until([&] { return all_there(false); }, 10s)) all_there(true);
  for (const auto& text : book_->wrong) wrong(text);
  // Who watches hears of an end once; for certain if its own node is well.
  const auto told_once = [&](bool report) {
    bool good = true;
    for (const auto& [number, watch] : book_->watches) {
      const bool ended = book_->recorders[watch.whom].ended;
      const bool must =
          ended && std::any_of(places_.begin(), places_.end(), [&](const auto& p) {
            return p->rank == watch.rank && p->incarnation == watch.incarnation && sound(*p);
          });
      if (watch.downs <= 1 && (!must || watch.downs == 1)) continue;
      good = false;
      if (report) wrong(fmt::format("watch {} heard of the end {} times", number, watch.downs));
    }
    return good;
  };
  if (!lab_->wait_until([&] { return told_once(false); }, 10s)) told_once(true);
}

bool random_run::sound(const place& p) {
  return p.healthy && !p.crashed && !p.left && p.here.in_job();
}

std::uint64_t random_run::incarnation_of(std::uint32_t rank) const {
  std::uint64_t latest = 0;
  for (const auto& at : places_)
    if (at->rank == rank) latest = std::max(latest, at->incarnation);
  return latest;
}

void random_run::check_members() {
  // Those that are in the job agree in the end who else is.
  const auto agree = [&] {
    std::set<std::pair<std::uint32_t, std::vector<std::uint32_t>>> views;
    for (const auto& at : places_) {
      if (at->crashed || at->left || !at->here.in_job()) continue;
      std::vector<std::uint32_t> ranks;
      for (const auto& worker : at->here.workers()) ranks.push_back(worker.id);
      views.insert({at->here.epoch(), ranks});
    }
    return views.size() <= 1;
  };
  if (!lab_->wait_until(agree, 20s)) wrong("the nodes do not agree who belongs to the job");
  lab_->sleep(1ms);  // until those who watch have heard of it
  check_stories();
}

// All have heard of the same changes, in the same order. Who is no more may have heard of some
// changes of its last epoch alone.
void random_run::check_stories() {
  using changes = std::vector<std::string>;
  std::map<std::uint32_t, changes> whole;
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::map<std::uint32_t, changes>> heard;
  for (const auto& [who, story] : book_->members) {
    auto& mine = heard[who];
    std::uint32_t last = 0;
    for (const auto& event : story) {
      if (event.epoch < last)
        wrong(fmt::format("rank {} hears of epoch {} after {}", who.first, event.epoch, last));
      if (last != 0 && event.epoch > last + 1)
        wrong(fmt::format("rank {} misses an epoch after {}", who.first, last));
      last = event.epoch;
      mine[event.epoch].push_back(event.text);
    }
    for (const auto& [epoch, some] : mine)
      if (some.size() > whole[epoch].size()) whole[epoch] = some;
  }
  for (const auto& [who, mine] : heard) {
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
  for (auto& at : places_) at->recorders.clear();
  book_->handles.clear();
  for (const auto& at : places_) {
    if (at->crashed || at->left) continue;
    debug_info left;
    const auto nothing_left = [&] {
      if (!at->here.in_job()) return true;
      left = at->here.debug_info();
      return left.calls_in_flight == 0 && left.actors_held == 0 && left.remote_handles == 0;
    };
    if (!lab_->wait_until(nothing_left, 70s))
      wrong(fmt::format("rank {} is left with {} calls, {} actors held, {} handles", at->rank,
                        left.calls_in_flight, left.actors_held, left.remote_handles));
  }
  std::vector<future<void>> ends;
  for (const auto& at : places_)
    if (!at->crashed && !at->left && at->here.in_job())
      ends.push_back(lab_->spawn([at] { at->here.shutdown(true, 30s); }));
  for (auto& end : ends) {
    if (!end.wait_for(patience)) wrong("a shutdown does not end");
    try {
      if (end.ready()) end.get();
    } catch (const error& e) {
      // The job may have ended meanwhile, or shut it out, after a bad day.
      const bool over = e.code() == errc::peer_lost || e.code() == errc::fenced;
      if (!over || !bad_day_) wrong(fmt::format("a shutdown failed: {}", e.what()));
    }
  }
}

}  // namespace troupe::test
