#include "troupe/actors/deadlock/held_waits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <caf/scheduled_actor.hpp>
#include <utility>

#include "troupe/actors/deadlock/queued_call.hpp"
#include "troupe/actors/deadlock/requester.hpp"
#include "troupe/actors/future/future_core.hpp"
#include "troupe/actors/scheduler/engine.hpp"
#include "troupe/actors/scheduler/execution_context.hpp"
#include "troupe/actors/scheduler/thread_identity.hpp"
#include "troupe/messages/codec/type_registration.hpp"

namespace troupe::deadlock {

namespace {

using namespace std::chrono_literals;

// The node looks whether a wait can end after so long, and again each time after twice the time.
constexpr clock::duration first_look = 80ms;
constexpr clock::duration longest_pause = 1600ms;

thread_local const running_call* call_here = nullptr;
thread_local held_waits::scope* wait_here = nullptr;

// Stands for every actor: the one that is asked may delegate the request to another one.
constexpr std::uint64_t any_actor = 1;
question whoever_answers(question one) {
  if (one.actor != 0) one.actor = any_actor;
  return one;
}

// The question that a message asks its actor, on this node; empty: it asks none that is known here.
std::optional<question> asked_by(const caf::strong_actor_ptr& sender, const incarnation& self) {
  const auto* from = sender ? dynamic_cast<const requester*>(sender->get()) : nullptr;
  if (!from) return std::nullopt;
  auto one = from->question_at(self);
  one.actor = any_actor;
  return one;
}

// Takes those out of `asked` that are in the mailbox, or that the running handler is to answer.
// Pre: no other thread uses the mailbox meanwhile.
std::vector<question> take_found(caf::scheduled_actor& actor, bool running, const incarnation& self,
                                 std::set<question>& asked) {
  std::vector<question> out;
  const auto look = [&](const caf::mailbox_element& x) {
    const auto one = asked_by(x.sender, self);
    if (one && asked.erase(*one) != 0) out.push_back(*one);
  };
  const auto* now = running ? actor.current_mailbox_element() : nullptr;
  if (now && !now->mid.is_answered()) look(*now);
  actor.mailbox().fetch_more();
  actor.get_urgent_queue().peek_all(look);
  actor.get_normal_queue().peek_all(look);
  return out;
}

// Called on the thread that runs the actor.
std::string name_of_handler(caf::scheduled_actor& actor) {
  auto* current = actor.current_mailbox_element();
  const type_entry* type = nullptr;
  if (current && current->content().size() > 0) type = find_type(current->content().type(0));
  return fmt::format("{} of actor {}", type ? type->name : "a handler", actor.id());
}

}  // namespace

running_call::running_call(const peer& from_, std::uint64_t request_,
                           std::string_view function_) noexcept
    : from(from_),
      request(request_),
      function(function_),
      before_(std::exchange(call_here, this)) {}
running_call::~running_call() { call_here = before_; }

held_waits::scope::scope(held_waits* in, const std::shared_ptr<detail::future_core>& what,
                         const question& waits_for)
    : in_(in) {
  if (!in_) return;
  entry mine;
  mine.what.waits_for = waits_for;
  mine.future = what;
  if (self.actor && self.actor->id() == current_actor()) {
    mine.actor = self.actor;
    mine.what.name = name_of_handler(*self.actor);
  } else if (call_here) {
    if (call_here->request != 0)
      mine.call = question{incarnation_of(call_here->from), in_->self_, call_here->request, 0};
    mine.what.name = call_here->function;
  } else {
    mine.what.name = "a continuation";
  }
  mine.due = clock::now() + first_look;
  mine.pause = 2 * first_look;
  mine.where = this;
  before_ = std::exchange(wait_here, this);
  const auto due = mine.due;
  {
    const std::lock_guard lock(in_->mutex_);
    mine.what.number = number_ = ++in_->last_number_;
    in_->entries_.emplace(number_, std::move(mine));
  }
  in_->engine_.set_timer(due);
}

held_waits::scope::~scope() {
  if (!in_) return;
  wait_here = before_;
  const std::lock_guard lock(in_->mutex_);
  in_->entries_.erase(number_);
}

// After an interruption the wait counts as another one, with a new number: a report that names the
// old one says nothing about it.
held_waits::interruption::interruption() : waiting_(std::exchange(wait_here, nullptr)) {
  if (!waiting_) return;
  const std::lock_guard lock(waiting_->in_->mutex_);
  waiting_->in_->entries_.at(waiting_->number_).waits = false;
}
held_waits::interruption::~interruption() {
  wait_here = waiting_;
  if (!waiting_) return;
  auto& in = *waiting_->in_;
  clock::time_point due;
  {
    const std::lock_guard lock(in.mutex_);
    auto& again = in.renumber(*waiting_);
    again.waits = true;
    due = again.due;
  }
  in.engine_.set_timer(due);  // it may have passed during the interruption
}

held_waits::entry& held_waits::renumber(scope& wait) {
  auto place = entries_.extract(wait.number_);
  wait.number_ = ++last_number_;
  place.key() = place.mapped().what.number = wait.number_;
  return entries_.insert(std::move(place)).position->second;
}

// A wait for another answer is another wait, with a new number: the one before may have made
// progress.
void held_waits::ask_again() {
  std::vector<scope*> changed;
  for (auto& [number, one] : entries_) {
    if (!one.future || !one.future->asks_on()) continue;
    const auto now = one.future->asks_now();
    if (now == one.what.waits_for) continue;
    one.what.waits_for = now;
    changed.push_back(one.where);
  }
  for (auto* one : changed) renumber(*one);
}

// No handler that waits goes on while the lock is held: it would have to leave its scope first. So
// actors whose handlers wait do not use their mailboxes meanwhile, and where handlers that wait
// hold all threads, no thread takes work out of the queue. Lock order: `mutex_`, then the run
// queue's.
report held_waits::look_at(const std::vector<question>& asked) {
  report out;
  outlooks found;
  open_questions open;
  for (const auto& one : asked)
    if (one.at == self_) open[one.actor != 0 ? any_actor : 0].insert(whoever_answers(one));
  const std::lock_guard lock(mutex_);
  ask_again();
  std::size_t waiting = 0;
  for (const auto& [number, held] : entries_) {
    if (look_in_handler(held, open, found)) out.handlers.push_back(held.what);
    if (held.asks()) ++waiting;
  }
  const auto most = engine_.most_handlers();
  if (most != 0 && waiting >= most && look_in_queue(open, found)) {
    out.max_threads = most;
    out.handlers.clear();
    for (const auto& [number, held] : entries_)
      if (held.asks()) out.handlers.push_back(held.what);
  }
  for (const auto& one : asked) out.outlooks.push_back(found[whoever_answers(one)]);
  return out;
}

// Finds the questions that a waiting handler is to answer, or that lie in its actor's mailbox. The
// actor may have taken out and kept a question that is in neither: that may be answered at any
// time. True: there is one.
bool held_waits::look_in_handler(const entry& held, open_questions& asked, outlooks& found) const {
  std::vector<question> mine;
  if (held.actor) {
    const auto actors = asked.find(any_actor);
    if (actors != asked.end() && held.asks())
      mine = take_found(*held.actor, true, self_, actors->second);
  } else if (held.call) {
    const auto functions = asked.find(0);
    if (functions != asked.end() && functions->second.erase(*held.call) != 0 && held.asks())
      mine.push_back(*held.call);
  }
  for (const auto& one : mine) found[one] = {prospect::handler, held.what.number};
  return !mine.empty();
}

// Finds those that lie in the run queue. True: there are some.
bool held_waits::look_in_queue(open_questions& asked, outlooks& found) const {
  std::erase_if(asked, [](const auto& one) { return one.second.empty(); });
  if (asked.empty()) return false;
  const auto before = found.size();
  (void)engine_.any_queued([&](caf::resumable& item) {
    auto* actor = item.subtype() == caf::resumable::scheduled_actor
                      ? static_cast<caf::scheduled_actor*>(&item)
                      : nullptr;
    const auto place = asked.find(actor ? any_actor : 0);
    if (place == asked.end()) return false;
    if (actor) {
      for (const auto& one : take_found(*actor, false, self_, place->second))
        found[one] = {prospect::thread_actor, 0};
    } else if (const auto* call = dynamic_cast<const queued_call*>(&item)) {
      const auto one = call->asked_at(self_);
      if (place->second.erase(one) != 0) found[one] = {prospect::thread, 0};
    }
    if (place->second.empty()) asked.erase(place);
    return asked.empty();
  });
  return found.size() > before;
}

std::vector<held_handler> held_waits::take_due(clock::time_point now, clock::time_point& next) {
  std::vector<held_handler> out;
  const std::lock_guard lock(mutex_);
  ask_again();
  for (auto& [number, one] : entries_) {
    if (one.due <= now && one.waits) {
      if (one.asks()) out.push_back(one.what);
      one.due = now + one.pause;
      one.pause = std::min(2 * one.pause, longest_pause);
    }
    if (one.waits) next = std::min(next, one.due);
  }
  return out;
}

bool held_waits::still_wait(const std::vector<std::uint64_t>& numbers) {
  const std::lock_guard lock(mutex_);
  ask_again();
  return std::all_of(numbers.begin(), numbers.end(), [&](std::uint64_t number) {
    const auto place = entries_.find(number);
    return place != entries_.end() && place->second.waits;
  });
}

// Completes the future outside of the lock: its continuations may run here, and may look at the
// waits or end another one. The waiting thread may leave meanwhile, so the future is shared with
// the entry.
void held_waits::fail(std::uint64_t number, fault why) {
  std::shared_ptr<detail::future_core> future;
  {
    const std::lock_guard lock(mutex_);
    const auto place = entries_.find(number);
    if (place == entries_.end() || !place->second.waits) return;
    future = place->second.future;
  }
  future->set_exception(to_exception(std::move(why)));
}

}  // namespace troupe::deadlock
