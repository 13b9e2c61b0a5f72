#include "troupe/actors/membership/membership_actor.hpp"

#include <caf/actor_system.hpp>
#include <caf/send.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "troupe/messages/base/log.hpp"

namespace troupe {

namespace {

// CAF takes the arguments out of a message, which must not be empty: hence the unit.
membership_handle::behavior_type decide(membership_handle::pointer, const caf::unit_t&) {
  return {[](const membership_work& work) { work.run(); }};
}

}  // namespace

membership_actor::membership_actor(const membership_view& start, transport::rank_t self,
                                   const membership_options& options, engine& driver,
                                   membership_actions& node)
    : engine_(driver), node_(node), membership_(start, self, options, *this) {
  for (const auto& [rank, who] : start.members) connected_[rank] = who.incarnation;
}

void membership_actor::open(caf::actor_system& system) {
  actor_ = system.spawn<caf::hidden>(decide, caf::unit);
  engine_.set_system_actor(actor_.id());
  post([] {});
}

void membership_actor::close() { caf::anon_send_exit(actor_, caf::exit_reason::kill); }

// After each piece of work, reports connections that have failed, and sets the timer.
void membership_actor::post(std::function<void()> work) {
  if (!actor_) return;
  caf::anon_send(actor_, membership_work{[this, work = std::move(work)] {
                   work();
                   for (const auto& who : std::exchange(unreachable_, {}))
                     membership_.lost(who.rank, who.incarnation,
                                      {transport::loss_kind::broken, "it cannot be reached"},
                                      clock::now());
                   tick();
                 }});
}

void membership_actor::tick() {
  const auto next = membership_.tick(clock::now());
  due_.store(next.time_since_epoch().count());
  if (next != never) engine_.set_timer(next);
}

clock::time_point membership_actor::run_timer(clock::time_point now) {
  const clock::time_point due{clock::duration(due_.load())};
  if (due > now) return due;
  due_.store(never.time_since_epoch().count());  // set again by the work
  post([] {});
  return never;
}

void membership_actor::abandon() {
  join_callbacks_.clear();
  fault why;
  why.code = errc::not_initialized;
  why.text = "the node has been shut down";
  if (auto then = std::exchange(leaving_, {})) then(&why);
}

void membership_actor::receive(transport::rank_t from, std::uint64_t incarnation,
                               membership_message&& message) {
  {
    const std::lock_guard lock(mutex_);
    const auto place = connected_.find(from);
    if (place == connected_.end() || place->second != incarnation) return;
  }
  post([this, from, message = std::move(message)] {
    membership_.receive(from, message, clock::now());
  });
}

void membership_actor::lost(transport::rank_t rank, const transport::peer_loss& why) {
  std::uint64_t incarnation = 0;
  {
    const std::lock_guard lock(mutex_);
    incarnation = connected_[rank];
  }
  post([this, rank, incarnation, why] { membership_.lost(rank, incarnation, why, clock::now()); });
}

void membership_actor::admit(join_request&& request, join_callback&& then) {
  post([this, request = std::move(request), then = std::move(then)] {
    joiner_ = {request.name, then};
    const auto answer = membership_.admit(request, clock::now());
    if (!std::exchange(joiner_.then, nullptr)) return;
    if (const auto* who = std::get_if<member>(&answer))
      join_callbacks_[{who->rank, who->incarnation}] = then;
    else
      then(nullptr, std::get<fault>(answer));
  });
}

void membership_actor::leave(std::function<void(const fault*)> then) {
  post([this, then = std::move(then)] {
    if (leaving_) {
      fault twice;
      twice.code = errc::invalid_argument;
      twice.text = "the node is leaving already";
      return then(&twice);
    }
    leaving_ = then;
    if (const auto why = membership_.leave(clock::now())) std::exchange(leaving_, {})(&*why);
  });
}

// ---- membership_callbacks

void membership_actor::send(transport::rank_t to, const membership_message& message) {
  node_.send_membership_message(to, message);
}

void membership_actor::fence(const member& who, const fault& why) { node_.fence(who, why); }

void membership_actor::connect(const member& who) {
  {
    const std::lock_guard lock(mutex_);
    connected_[who.rank] = who.incarnation;
  }
  try {
    node_.connect(who);
  } catch (const std::exception& e) {  // whatever a program's own transport throws
    log().warn("{} joins, but cannot be reached: {}", who.name, e.what());
    unreachable_.push_back(who);
  }
}

void membership_actor::apply(const std::vector<membership_change>& changes,
                             const membership_view& view) {
  node_.apply(changes, view);
}

void membership_actor::answer(const member& who, const membership_view* view, const fault& why) {
  auto place = join_callbacks_.extract({who.rank, who.incarnation});
  if (place)
    place.mapped()(view, why);
  else if (joiner_.then && joiner_.name == who.name)  // a leader that is alone decides at once
    std::exchange(joiner_.then, nullptr)(view, why);
}

void membership_actor::welcome(const member& who, const membership_view& view) {
  answer(who, &view, {});
}

void membership_actor::refused(const member& who, const fault& why) { answer(who, nullptr, why); }

void membership_actor::left() {
  if (auto then = std::exchange(leaving_, {})) then(nullptr);
}

void membership_actor::ended(const fault& why) {
  if (auto then = std::exchange(leaving_, {})) then(&why);
  for (auto& [who, then] : std::exchange(join_callbacks_, {})) then(nullptr, why);
  node_.job_ended(why);
}

}  // namespace troupe
