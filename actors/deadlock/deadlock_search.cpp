#include "troupe/actors/deadlock/deadlock_search.hpp"

#include "troupe/actors/deadlock/message_codec.hpp"
#include "troupe/actors/deadlock/queued_call.hpp"
#include "troupe/actors/scheduler/engine.hpp"
#include "troupe/messages/base/log.hpp"

namespace troupe::deadlock {

namespace {

// Nodes answer at once, unless they are lost: a search that takes longer is given up.
constexpr auto longest_search = std::chrono::milliseconds(500);

}  // namespace

search::search(peer_table& peers, engine& driver, sender out, const incarnation& self)
    : peers_(peers), engine_(driver), out_(std::move(out)), self_(self), waits_(driver, self) {}

bool search::observe(const std::shared_ptr<detail::future_core>& what, const question& asked,
                     function_ref<bool()> wait) {
  const held_waits::scope held(&waits_, what, asked);
  return wait();
}

bool search::can_tell(const incarnation& node) const noexcept {
  const auto* known = peers_.find(node.rank, node.number);
  return known && known->live();
}

// A message names the incarnation that it is for: the next one at that rank has waits of the same
// numbers.
template <class... Ts>
void search::send(const incarnation& to, message_kind what, const Ts&... xs) noexcept {
  if (!can_tell(to)) return;
  out_(to.rank, [&](encoder& out) {
    out.put(what);
    out.put(to.number);
    (out.put(xs), ...);
  });
}

clock::time_point search::run_timer(clock::time_point now) noexcept {
  auto next = never;
  remedies how;
  {
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
    how = ask_on();
    if (stage_ != stage::none) next = end_;
  }
  apply(how);
  return next;
}

// Asks until no question is open, or other nodes have to answer first.
search::remedies search::ask_on() {
  for (;;) {
    auto open = graph_.take_open_questions();
    if (open.empty()) return look_for_stuck();
    for (auto& [node, questions] : open) {
      if (node == self_) {
        graph_.add(self_, questions, waits_.look_at(questions));
      } else if (!can_tell(node)) {
        // Lost, or never there: requests to it will fail. The rest may still be a cycle.
        report open;
        open.outlooks.resize(questions.size());
        graph_.add(node, questions, open);
      } else {
        auto& all = asked_[node];
        all = std::move(questions);
        send(node, message_kind::ask, serial_, all);
      }
    }
    if (!asked_.empty()) return {};
  }
}

search::remedies search::look_for_stuck() {
  const auto stuck = graph_.find_stuck();
  stage_ = stuck.empty() ? stage::none : stage::confirming;
  unconfirmed_.clear();
  for (const auto& [node, numbers] : stuck) {
    const bool here = node == self_;
    if (here ? !waits_.still_wait(numbers) : !can_tell(node)) {
      stage_ = stage::none;
      return {};
    }
    if (here) continue;
    in_messages(numbers, [this, &to = node](const std::vector<std::uint64_t>& some) {
      unconfirmed_.insert(to);
      send(to, message_kind::confirm, serial_, some);
    });
  }
  return stage_ == stage::confirming && unconfirmed_.empty() ? conclude() : remedies();
}

search::remedies search::conclude() {
  stage_ = stage::none;
  return graph_.remedies([this](transport::rank_t rank) { return peers_.name_of(rank); });
}

void search::apply(const remedies& all) {
  for (const auto& how : all) {
    if (how.node == self_ && how.wait != 0)
      fail_wait(how.wait, how.handler, how.text);
    else if (how.node == self_)
      refuse_calls(how.calls, how.text);
    else if (how.wait != 0)
      send(how.node, message_kind::fail_wait, how.wait, how.handler, how.text);
    else
      in_messages(how.calls, [&](const std::vector<question>& some) {
        send(how.node, message_kind::refuse_calls, some, how.text);
      });
  }
}

fault search::deadlock_fault(const std::string& handler, const std::string& text) const {
  fault why;
  why.code = errc::deadlock;
  why.text = text;
  why.node = peers_.name_of(self_.rank);
  why.function = handler;
  return why;
}

void search::fail_wait(std::uint64_t number, const std::string& handler, const std::string& text) {
  waits_.fail(number, deadlock_fault(handler, text));
}

void search::refuse_calls(const std::vector<question>& calls, const std::string& text) {
  const std::set<question> which(calls.begin(), calls.end());
  engine_.take_queued(
      [&](caf::resumable& item) {
        const auto* call = dynamic_cast<const queued_call*>(&item);
        return call && which.count(call->asked_at(self_)) != 0;
      },
      [&](caf::resumable& item) {
        dynamic_cast<queued_call&>(item).refuse(deadlock_fault({}, text));
        item.resume(nullptr, 1);
      });
}

void search::deliver(const peer& from, decoder& in) {
  const auto what = in.get<message_kind>();
  const auto other = incarnation_of(from);
  if (in.get<std::uint64_t>() != self_.number) return;  // for an earlier incarnation
  switch (what) {
    case message_kind::ask: {
      const auto serial = in.get<std::uint64_t>();
      return send(other, message_kind::tell, serial, waits_.look_at(get_list<question>(in)));
    }
    case message_kind::tell: {
      const auto serial = in.get<std::uint64_t>();
      return take_report(other, serial, in.get<report>());
    }
    case message_kind::confirm: {
      const auto serial = in.get<std::uint64_t>();
      return send(other, message_kind::confirmed, serial,
                  waits_.still_wait(get_list<std::uint64_t>(in)));
    }
    case message_kind::confirmed: {
      const auto serial = in.get<std::uint64_t>();
      return take_confirmation(other, serial, in.get<bool>());
    }
    case message_kind::fail_wait: {
      const auto number = in.get<std::uint64_t>();
      const auto handler = in.get<std::string>();
      return fail_wait(number, handler, in.get<std::string>());
    }
    case message_kind::refuse_calls: {
      const auto calls = get_list<question>(in);
      return refuse_calls(calls, in.get<std::string>());
    }
  }
  throw decode_error("a message of unknown kind about handlers that wait");
}

void search::take_report(const incarnation& from, std::uint64_t serial, const report& what) {
  std::unique_lock lock(mutex_);
  if (stage_ != stage::asking || serial != serial_) return;
  const auto asked = asked_.extract(from);
  if (!asked) return;
  graph_.add(from, asked.mapped(), what);
  leave(lock, asked_.empty() ? ask_on() : remedies());
}

void search::take_confirmation(const incarnation& from, std::uint64_t serial, bool all_wait) {
  std::unique_lock lock(mutex_);
  if (stage_ != stage::confirming || serial != serial_) return;
  const auto awaited = unconfirmed_.find(from);
  if (awaited == unconfirmed_.end()) return;
  unconfirmed_.erase(awaited);
  if (!all_wait) stage_ = stage::none;
  leave(lock, all_wait && unconfirmed_.empty() ? conclude() : remedies());
}

void search::leave(std::unique_lock<std::mutex>& lock, const remedies& how) {
  const bool over = stage_ == stage::none;
  lock.unlock();
  apply(how);
  if (over) engine_.set_timer(clock::now());  // further waits may be due
}

}  // namespace troupe::deadlock
