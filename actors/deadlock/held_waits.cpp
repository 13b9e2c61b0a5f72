#include "actors/deadlock/held_waits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <caf/scheduled_actor.hpp>
#include <utility>

#include "actors/current.hpp"
#include "actors/deadlock/queued_call.hpp"
#include "actors/request.hpp"
#include "actors/thread_identity.hpp"
#include "messages/type_table.hpp"

namespace troupe::deadlock {

namespace {

using namespace std::chrono_literals;

// After so long it is asked whether a wait can end, and again after twice the time.
constexpr clock::duration first_look = 80ms;
constexpr clock::duration longest_pause = 1600ms;

thread_local const running_call* call_here = nullptr;
thread_local held_waits::scope* wait_here = nullptr;

bool asks(const caf::strong_actor_ptr& sender, const question& one) {
  if (!sender) return false;
  if (one.asker != one.at) {
    const auto* from = dynamic_cast<const reply_address*>(sender->get());
    return from && from->asked_as(one.asker, one.request);
  }
  const auto* cell = dynamic_cast<const detail::local_asker*>(sender->get());
  return cell && reinterpret_cast<std::uintptr_t>(cell->future()) == one.request;
}

// Is it in the mailbox, or does the handler that runs answer it? Nobody else may use the mailbox
// meanwhile.
bool has(caf::scheduled_actor& actor, const question& one, bool running) {
  if (running) {
    const auto* now = actor.current_mailbox_element();
    if (now && !now->mid.is_answered() && asks(now->sender, one)) return true;
  }
  actor.mailbox().fetch_more();
  bool found = false;
  const auto look = [&](const caf::mailbox_element& x) { found = found || asks(x.sender, one); };
  actor.get_urgent_queue().peek_all(look);
  actor.get_normal_queue().peek_all(look);
  return found;
}

// On the thread that runs the actor.
std::string name_of_handler(caf::scheduled_actor& actor) {
  auto* current = actor.current_mailbox_element();
  const type_entry* type = nullptr;
  if (current && current->content().size() > 0) type = find_type(current->content().type(0));
  return fmt::format("{} of actor {}", type ? type->name : "a handler", actor.id());
}

bool is(const caf::resumable& job, caf::actor_id id) {
  return job.subtype() == caf::resumable::scheduled_actor &&
         static_cast<const caf::scheduled_actor&>(job).id() == id;
}

}  // namespace

running_call::running_call(transport::rank_t from_, std::uint64_t request_,
                           std::string_view function_) noexcept
    : from(from_),
      request(request_),
      function(function_),
      before_(std::exchange(call_here, this)) {}
running_call::~running_call() { call_here = before_; }

held_waits::scope::scope(held_waits* in, detail::future_core& what, const question& waits_for)
    : in_(in) {
  if (!in_) return;
  entry mine;
  mine.what.waits_for = waits_for;
  mine.future = &what;
  if (self.actor && self.actor->id() == current_actor()) {
    mine.actor = self.actor;
    mine.what.name = name_of_handler(*self.actor);
  } else if (call_here) {
    if (call_here->request != 0) mine.call.emplace(call_here->from, call_here->request);
    mine.what.name = call_here->function;
  } else {
    mine.what.name = "a continuation";
  }
  mine.due = clock::now() + first_look;
  mine.pause = 2 * first_look;
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

// A wait that has been interrupted is another one afterwards.
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
    auto place = in.entries_.extract(waiting_->number_);
    waiting_->number_ = ++in.last_number_;
    place.key() = place.mapped().what.number = waiting_->number_;
    place.mapped().waits = true;
    due = place.mapped().due;
    in.entries_.insert(std::move(place));
  }
  in.engine_.set_timer(due);  // it may have passed meanwhile, when this was no wait
}

report held_waits::look_at(const std::vector<question>& asked) {
  report out;
  const std::lock_guard lock(mutex_);
  for (const auto& one : asked) out.outlooks.push_back(look_at(one, out));
  const auto for_thread = [](const outlook& one) {
    return one.what == prospect::thread || one.what == prospect::thread_actor;
  };
  if (!std::any_of(out.outlooks.begin(), out.outlooks.end(), for_thread)) return out;
  out.max_threads = engine_.most_handlers();
  out.handlers.clear();
  for (const auto& [number, one] : entries_)
    if (one.waits) out.handlers.push_back(one.what);
  return out;
}

// No handler that waits goes on while the lock is held; so actors whose handlers wait do not use
// their mailboxes, and where handlers that wait have all threads, nobody takes jobs out of the
// queue.
outlook held_waits::look_at(const question& one, report& out) {
  if (one.at != self_) return {};
  for (const auto& [number, held] : entries_) {
    const bool holds = one.actor == 0 ? held.call && *held.call == std::pair(one.asker, one.request)
                                      : held.actor && held.actor->id() == one.actor;
    if (!holds) continue;
    if (!held.waits || (held.actor && !has(*held.actor, one, true))) return {};
    out.handlers.push_back(held.what);
    return {prospect::handler, number};
  }
  const auto waiting = std::count_if(entries_.begin(), entries_.end(),
                                     [](const auto& held) { return held.second.waits; });
  const auto most = engine_.most_handlers();
  if (most == 0 || static_cast<std::size_t>(waiting) < most) return {};
  const bool queued = engine_.any_queued([&](caf::resumable& job) {
    if (one.actor != 0)
      return is(job, one.actor) && has(static_cast<caf::scheduled_actor&>(job), one, false);
    const auto* call = dynamic_cast<const queued_call*>(&job);
    return call && call->from() == one.asker && call->request() == one.request;
  });
  if (!queued) return {};
  return {one.actor != 0 ? prospect::thread_actor : prospect::thread, 0};
}

std::vector<held_handler> held_waits::take_due(clock::time_point now, clock::time_point& next) {
  std::vector<held_handler> out;
  const std::lock_guard lock(mutex_);
  for (auto& [number, one] : entries_) {
    if (one.due <= now && one.waits) {
      out.push_back(one.what);
      one.due = now + one.pause;
      one.pause = std::min(2 * one.pause, longest_pause);
    }
    if (one.waits) next = std::min(next, one.due);
  }
  return out;
}

bool held_waits::still_wait(const std::vector<std::uint64_t>& numbers) const {
  const std::lock_guard lock(mutex_);
  return std::all_of(numbers.begin(), numbers.end(), [&](std::uint64_t number) {
    const auto place = entries_.find(number);
    return place != entries_.end() && place->second.waits;
  });
}

// Who waits cannot leave while the lock is held, so the future lives.
void held_waits::fail(std::uint64_t number, fault why) {
  const std::lock_guard lock(mutex_);
  const auto place = entries_.find(number);
  if (place == entries_.end() || !place->second.waits) return;
  place->second.future->set_exception(to_exception(std::move(why)));
}

}  // namespace troupe::deadlock
