#include "actors/deadlock/deadlock_search.hpp"

#include "actors/deadlock/queued_call.hpp"
#include "actors/engine.hpp"
#include "messages/archive.hpp"
#include "messages/log.hpp"

namespace troupe::deadlock {

namespace {

// Nodes answer at once, unless they are lost.
constexpr auto longest_search = std::chrono::milliseconds(500);

}  // namespace

search::search(peer_table& peers, engine& driver, sender out, transport::rank_t self)
    : peers_(peers), engine_(driver), out_(std::move(out)), self_(self), waits_(driver, self) {}

template <class... Ts>
void search::send(transport::rank_t to, note what, const Ts&... xs) noexcept {
  out_(to, [&](encoder& out) {
    out.put(what);
    (out.put(xs), ...);
  });
}

clock::time_point search::run_timer(clock::time_point now) noexcept {
  auto next = never;
  const std::lock_guard lock(mutex_);
  if (stage_ != stage::none && now < end_) return end_;
  stage_ = stage::none;
  const auto due = waits_.take_due(now, next);
  if (due.empty()) return next;
  graph_ = {};
  asked_.clear();
  for (const auto& one : due) graph_.add(self_, one);
  ++serial_;
  end_ = now + longest_search;
  stage_ = stage::asking;
  ask_on();
  return stage_ == stage::none ? next : end_;
}

// Until nothing new is heard of.
void search::ask_on() {
  for (;;) {
    auto open = graph_.take_open_questions();
    if (open.empty()) break;
    for (auto& [rank, questions] : open) {
      if (rank == self_) {
        graph_.add(self_, questions, waits_.look_at(questions));
      } else {
        auto& all = asked_[rank];
        all = questions;
        send(rank, note::ask, serial_, questions);
      }
    }
    if (!asked_.empty()) return;
  }
  look_for_stuck();
}

void search::look_for_stuck() {
  const auto stuck = graph_.find_stuck();
  stage_ = stuck.empty() ? stage::none : stage::confirming;
  unconfirmed_.clear();
  for (const auto& [rank, numbers] : stuck) {
    if (rank != self_) {
      unconfirmed_.insert(rank);
      send(rank, note::confirm, serial_, numbers);
    } else if (!waits_.still_wait(numbers)) {
      stage_ = stage::none;
      return;
    }
  }
  if (stage_ == stage::confirming && unconfirmed_.empty()) end_them();
}

void search::end_them() {
  stage_ = stage::none;
  const auto name_of = [this](transport::rank_t rank) { return peers_.name_of(rank); };
  for (const auto& how : graph_.remedies(name_of)) {
    if (how.node == self_ && how.wait != 0)
      fail_wait(how.wait, how.handler, how.text);
    else if (how.node == self_)
      refuse_calls(how.calls, how.text);
    else if (how.wait != 0)
      send(how.node, note::fail_wait, how.wait, how.handler, how.text);
    else
      send(how.node, note::refuse_calls, how.calls, how.text);
  }
}

fault search::deadlock_fault(const std::string& handler, const std::string& text) const {
  fault why;
  why.code = errc::deadlock;
  why.text = text;
  why.node = peers_.name_of(self_);
  why.function = handler;
  return why;
}

void search::fail_wait(std::uint64_t number, const std::string& handler, const std::string& text) {
  waits_.fail(number, deadlock_fault(handler, text));
}

void search::refuse_calls(const std::vector<question>& calls, const std::string& text) {
  const std::set<question> which(calls.begin(), calls.end());
  engine_.take_queued(
      [&](caf::resumable& job) {
        const auto* call = dynamic_cast<const queued_call*>(&job);
        return call && which.count({call->from(), self_, call->request(), 0}) != 0;
      },
      [&](caf::resumable& job) {
        dynamic_cast<queued_call&>(job).refuse(deadlock_fault({}, text));
        job.resume(nullptr, 1);
      });
}

void search::deliver(const peer& from, decoder& in) {
  const auto what = in.get<note>();
  switch (what) {
    case note::ask: {
      const auto serial = in.get<std::uint64_t>();
      send(from.rank(), note::tell, serial, waits_.look_at(in.get<std::vector<question>>()));
      return;
    }
    case note::confirm: {
      const auto serial = in.get<std::uint64_t>();
      send(from.rank(), note::confirmed, serial,
           waits_.still_wait(in.get<std::vector<std::uint64_t>>()));
      return;
    }
    case note::fail_wait: {
      const auto number = in.get<std::uint64_t>();
      const auto handler = in.get<std::string>();
      return fail_wait(number, handler, in.get<std::string>());
    }
    case note::refuse_calls: {
      const auto calls = in.get<std::vector<question>>();
      return refuse_calls(calls, in.get<std::string>());
    }
    case note::tell:
    case note::confirmed: break;
    default: throw decode_error("a note of unknown kind about handlers that wait");
  }
  const std::lock_guard lock(mutex_);
  if (stage_ == stage::none || in.get<std::uint64_t>() != serial_) return;
  if (what == note::tell) {
    const auto asked = asked_.extract(from.rank());
    const auto told = in.get<report>();
    if (stage_ != stage::asking || !asked) return;
    graph_.add(from.rank(), asked.mapped(), told);
    if (asked_.empty()) ask_on();
  } else {
    const bool confirmed = in.get<bool>();
    if (stage_ != stage::confirming || unconfirmed_.erase(from.rank()) == 0) return;
    if (!confirmed)
      stage_ = stage::none;
    else if (unconfirmed_.empty())
      end_them();
  }
  if (stage_ == stage::none) engine_.set_timer(clock::now());  // others may be due
}

}  // namespace troupe::deadlock
