#include "troupe/actors/membership/membership_actor.hpp"

#include <caf/actor_system.hpp>
#include <caf/send.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "troupe/messages/base/log.hpp"

namespace troupe {

namespace {

// The unit is there because CAF would take arguments out of nothing if there were none.
membership_actor::behavior_type decide(membership_actor::pointer, caf::unit_t) {
  return {[](const membership_work& work) { work.run(); }};
}

}  // namespace

membership_host::membership_host(membership_view start, transport::rank_t self,
                                 const membership_options& options, engine& driver,
                                 membership_duties& node)
    : engine_(driver), node_(node), membership_(start, self, options, *this) {
  for (const auto& [rank, who] : start.members) connected_[rank] = who.incarnation;
}

void membership_host::open(caf::actor_system& system) {
  actor_ = system.spawn<caf::hidden>(decide, caf::unit);
  engine_.favour(actor_.id());
  post([] {});
}

void membership_host::close() { caf::anon_send_exit(actor_, caf::exit_reason::kill); }

// After each piece of work: has a connection failed, and when is the next thing due?
void membership_host::post(std::function<void()> work) {
  if (!actor_) return;
  caf::anon_send(actor_, membership_work{[this, work = std::move(work)] {
                   work();
                   for (const auto& who : std::exchange(unreachable_, {}))
                     membership_.lost(who.rank, who.incarnation,
                                      {transport::loss_kind::broken, "it cannot be reached"},
                                      clock::now());
                   look_at_time();
                 }});
}

void membership_host::look_at_time() {
  const auto next = membership_.tick(clock::now());
  due_.store(next.time_since_epoch().count());
  if (next != never) engine_.set_timer(next);
}

clock::time_point membership_host::run_timer(clock::time_point now) {
  const clock::time_point due{clock::duration(due_.load())};
  if (due > now) return due;
  due_.store(never.time_since_epoch().count());  // set again by the work
  post([] {});
  return never;
}

void membership_host::abandon() {
  admissions_.clear();
  fault why;
  why.code = errc::not_initialized;
  why.text = "the node has been shut down";
  if (auto then = std::exchange(leaving_, {})) then(&why);
}

void membership_host::receive(transport::rank_t from, std::uint64_t incarnation,
                              membership_note&& note) {
  {
    const std::lock_guard lock(mutex_);
    const auto place = connected_.find(from);
    if (place == connected_.end() || place->second != incarnation) return;
  }
  post([this, from, note = std::move(note)] { membership_.receive(from, note, clock::now()); });
}

void membership_host::lost(transport::rank_t rank, const transport::peer_loss& why) {
  std::uint64_t incarnation = 0;
  {
    const std::lock_guard lock(mutex_);
    incarnation = connected_[rank];
  }
  post([this, rank, incarnation, why] { membership_.lost(rank, incarnation, why, clock::now()); });
}

void membership_host::admit(application&& wish, admission&& then) {
  post([this, wish = std::move(wish), then = std::move(then)] {
    applicant_ = {wish.name, then};
    const auto answer = membership_.admit(wish, clock::now());
    if (!std::exchange(applicant_.then, nullptr)) return;
    if (const auto* who = std::get_if<member>(&answer))
      admissions_[{who->rank, who->incarnation}] = then;
    else
      then(nullptr, std::get<fault>(answer));
  });
}

void membership_host::leave(std::function<void(const fault*)> then) {
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

// ---- What the membership wants
// ----------------------------------------------------------------------

void membership_host::send(transport::rank_t to, const membership_note& note) {
  node_.send_note(to, note);
}

void membership_host::fence(const member& who, const fault& why) { node_.fence(who, why); }

void membership_host::connect(const member& who) {
  {
    const std::lock_guard lock(mutex_);
    connected_[who.rank] = who.incarnation;
  }
  try {
    node_.connect(who);
  } catch (const error& e) {
    log().warn("{} joins, but cannot be reached: {}", who.name, e.what());
    unreachable_.push_back(who);
  }
}

void membership_host::apply(const std::vector<membership_change>& changes,
                            const membership_view& view) {
  node_.apply(changes, view);
}

void membership_host::answer(const member& who, const membership_view* view, const fault& why) {
  auto place = admissions_.extract({who.rank, who.incarnation});
  if (place)
    place.mapped()(view, why);
  else if (applicant_.then && applicant_.name == who.name)  // a leader alone decides at once
    std::exchange(applicant_.then, nullptr)(view, why);
}

void membership_host::welcome(const member& who, const membership_view& view) {
  answer(who, &view, {});
}

void membership_host::refused(const member& who, const fault& why) { answer(who, nullptr, why); }

void membership_host::left() {
  if (auto then = std::exchange(leaving_, {})) then(nullptr);
}

void membership_host::ended(const fault& why) {
  if (auto then = std::exchange(leaving_, {})) then(&why);
  for (auto& [who, then] : std::exchange(admissions_, {})) then(nullptr, why);
  node_.job_ended(why);
}

}  // namespace troupe
