// What a node does as the membership decides: who is let in, shut out and buried.

#include <caf/send.hpp>

#include "troupe/actors/messaging/control_channel.hpp"
#include "troupe/actors/membership/message_codec.hpp"
#include "troupe/actors/membership/member_descriptor.hpp"
#include "troupe/actors/node/node_core.hpp"
#include "troupe/messages/base/log.hpp"
#include "troupe/transport/system/descriptors.hpp"
#include "troupe/messages/base/worker_name.hpp"

namespace troupe {

void node_core::add_peer(const member& who) {
  const auto names = transport::worker_names(who.name);
  detail::device_owner owner{who.rank, names, {}};
  try {
    owner = detail::owner_of(who);
  } catch (const decode_error& e) {
    // It cannot be connected to either, and is lost in a moment.
    log().warn("{}: the card of {} cannot be read: {}", self().name, who.name, e.what());
  }
  auto& added =
      peers_.add(std::make_unique<peer>(worker_info{names.front(), who.rank}, who.incarnation,
                                        caf_host::id_of(identity_.job, who.incarnation, who.rank),
                                        detail::devices_between(own_devices_, owner)),
                 names);
  remote_actors_->flow()->open(added);
}

void node_core::peer_lost(transport::rank_t rank, const transport::peer_loss& why) {
  if (parting_ || termination_->decided())
    termination_->has_left(rank);
  else
    membership_->lost(rank, {why.kind, transport::with_descriptor_shortage(why.text)});
}

void node_core::send_membership_message(transport::rank_t to, const membership_message& note) noexcept {
  auto* there = peers_.find(to);
  if (!there) return;
  gate::pass pass(remote_actors_->entrance());
  if (!pass) return;
  try {
    message_builder text(nullptr);
    write_message(text.body(), note);
    envelope_header header;
    header.target = membership_channel;
    remote_actors_->out().send(*there, 0, header, &text);
  } catch (const error& e) {
    // Its connection is broken: the transport says so as well.
    log().debug("{}: a note to {} was not sent: {}", self().name, there->info.name, e.what());
  }
}

void node_core::connect(const member& who) {
  net_->add_peer(who.rank, detail::read_card(who.address).address);
}

void node_core::fence(const member& who, const fault& why) noexcept {
  if (auto* whom = peers_.find(who.rank, who.incarnation)) fence(*whom, why.text);
  net_->close_peer(who.rank, false);
}

// Nothing of it is taken from now on, and nobody waits for it.
void node_core::fence(peer& whom, const std::string& cause) {
  if (!peers_.fence(whom, cause)) return;
  remote_actors_->flow()->give_up(&whom);
  // Before those who wait hear of it: they may go on to the shutdown.
  const bool shutting_down = waits_for_the_end_;
  whom.losses.lost = true;
  const auto failed = remote_actors_->fail_requests(whom);
  whom.losses.requests = failed.all;
  if (shutting_down) whom.losses.promised = failed.of_program;
  // A peer that has nothing left to do for this node may well go.
  log().log(failed.all > 0 ? spdlog::level::warn : spdlog::level::debug,
            "{}: {}; {} requests failed", self().name, cause, failed.all);
}

// What it held is dropped, and who watches it is told.
void node_core::evict(peer& whom) {
  if (peers_.evict(whom)) remote_actors_->evict(whom);
}

void node_core::apply(const std::vector<membership_change>& changes,
                      const membership_view& view) noexcept {
  // Before a newcomer can be found: whoever finds it must not speak of an epoch before it came.
  remote_actors_->out().set_epoch(view.epoch);
  for (const auto& change : changes) {
    if (!change.removes()) {
      add_peer(change.who);
    } else if (auto* whom = peers_.find(change.who.rank, change.who.incarnation)) {
      if (change.what == membership_change::kind::left) whom->losses.lost = false;
      evict(*whom);
    }
  }
  applied_ = view.epoch;
  leader_ = view.leader;
  look_again_at_early();
  termination_->members_changed(view.leader);
  tell_watchers(changes, view.epoch);
}

// An empty message to itself has the leading thread look.
void node_core::look_again_at_early() {
  transport::incoming_message look;
  look.from = identity_.rank;
  engine_->deliver_locally(std::move(look));
}

void node_core::tell_watchers(const std::vector<membership_change>& changes, std::uint32_t epoch) {
  const std::lock_guard lock(watchers_mutex_);
  for (const auto& change : changes) {
    member_event event;
    event.epoch = epoch;
    event.what = static_cast<member_change>(change.what);
    event.who = {transport::worker_names(change.who.name).front(), change.who.rank};
    event.incarnation = change.who.incarnation;
    event.cause = change.cause;
    for (const auto& watcher : watchers_) caf::anon_send(watcher, event);
  }
}

void node_core::watch_members(member_watcher watcher) {
  check_open();
  const std::lock_guard lock(watchers_mutex_);
  watchers_.push_back(std::move(watcher));
}

// The job goes on without this node, or not at all: whatever waits here ends.
void node_core::job_ended(const fault& why) noexcept {
  {
    const std::lock_guard lock(end_mutex_);
    ended_ = why;
  }
  open_ = false;
  log().error("{}: {}", self().name, why.text);
  remote_actors_->fail_others(why);
  for (auto* one : peers_.all()) {
    if (one->rank() == identity_.rank) continue;
    fence(*one, why.text);
    net_->close_peer(one->rank(), false);
    evict(*one);
  }
  termination_->leader_lost();
}

// What is wrong with the rules or the device maps between a newcomer and the members, on either
// side.
std::string node_core::problem_of(const join_request& request) const {
  const member newcomer{request.rank.value_or(0), 0, request.name, request.address};
  const member us{identity_.rank, 0, self().name, {}};
  if (auto problem = detail::rules_problem(describe(us), rules_, describe(newcomer),
                                           detail::read_card(request.address).rules);
      !problem.empty())
    return problem;
  const auto owner = detail::owner_of(newcomer);
  if (auto problem = detail::own_device_problem(owner); !problem.empty()) return problem;
  for (const auto* one : peers_.all()) {
    if (!one->live()) continue;
    const auto& known = one->devices.owner;
    for (auto problem : {detail::device_problem_between(owner, known),
                         detail::device_problem_between(known, owner)})
      if (!problem.empty()) return problem;
  }
  return "";
}

void node_core::admit(join_request&& request, join_reply&& then) {
  fault why;
  why.code = errc::rendezvous_error;
  try {
    why.text = problem_of(request);
  } catch (const decode_error& e) {
    why.text = "the card of '" + request.name + "' cannot be read: " + e.fault().text;
  }
  if (!why.text.empty()) {
    log().warn("{} does not let '{}' in: {}", self().name, request.name, why.text);
    then(nullptr, why);
    return;
  }
  membership_->admit(std::move(request), std::move(then));
}

// Ranks that nobody has had are given once, whatever becomes of those who ask for them.
std::uint32_t node_core::reserve_rank(std::optional<std::uint32_t> wanted) {
  check_open();
  if (wanted) {
    if (peers_.find(*wanted)) return *wanted;
    throw rendezvous_error("rank " + std::to_string(*wanted) +
                           " was never in this job: who names no rank gets the next");
  }
  while (peers_.find(next_rank_)) ++next_rank_;
  return next_rank_++;
}

void node_core::let_in(std::uint32_t rank, const std::string& name,
                       std::vector<std::byte>&& address,
                       std::function<void(transport::door_answer&&)> then) {
  if (termination_->decided()) {
    then({"the job is over", rank, 0, {}});
    return;
  }
  admit({rank, name, std::move(address)}, [job = identity_.job, rank, then = std::move(then)](
                                              const membership_view* view, const fault& why) {
    transport::door_answer answer;
    answer.rank = rank;
    answer.job_id = job;
    answer.failure = why.text;
    if (view) {
      encoder out(nullptr, nullptr);
      write_view(out, *view);
      answer.welcome = out.take();
    } else if (answer.failure.empty()) {
      answer.failure = "the job is over";
    }
    then(std::move(answer));
  });
}

void node_core::leave(std::chrono::milliseconds limit) {
  check_open();
  if (engine_->runs_here())
    throw deadlock_error("leave was called inside of a handler, which it would wait for");
  const auto deadline = limit.count() > 0 ? deadline_after(limit) : never;
  // What this node has asked others for comes first, and what it has sent.
  const auto busy = [&] {
    gate::pass pass(uses_);
    return pass && open_ && !(engine_->quiet() && !waits_for_answers() && net_->delivered());
  };
  completion nothing;
  while (busy() && clock::now() < deadline)
    engine_->wait(nothing, std::min(deadline, clock::now() + std::chrono::milliseconds(1)));
  check_open();
  struct outcome {
    completion done;
    std::optional<fault> why;
  };
  const auto result = std::make_shared<outcome>();
  membership_->leave([result, driver = engine_](const fault* why) {
    if (why) result->why = *why;
    driver->finish(result->done);
  });
  const bool answered = engine_->wait(result->done, deadline);
  if (answered && !result->why) parting_ = true;
  if (answered && result->why) std::rethrow_exception(to_exception(*result->why));
  shutdown(false, {});
  if (answered) return;
  fault why;
  why.code = errc::rpc_timeout;
  why.node = self().name;
  why.limit = limit;
  why.text = "the job did not let " + self().name + " go within the limit";
  throw troupe::rpc_timeout(std::move(why));
}

}  // namespace troupe
