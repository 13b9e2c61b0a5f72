#include "troupe/actors/node/member_control.hpp"

#include <caf/send.hpp>

#include <algorithm>

#include "troupe/actors/membership/member_descriptor.hpp"
#include "troupe/actors/membership/message_codec.hpp"
#include "troupe/actors/messaging/control_channel.hpp"
#include "troupe/actors/node/message_router.hpp"
#include "troupe/actors/node/node_protocol.hpp"
#include "troupe/actors/node/termination.hpp"
#include "troupe/actors/remote/actor_system_host.hpp"
#include "troupe/actors/remote/remote_actors.hpp"
#include "troupe/actors/scheduler/node_lifecycle.hpp"
#include "troupe/messages/base/log.hpp"
#include "troupe/messages/base/worker_name.hpp"
#include "troupe/transport/system/descriptors.hpp"

namespace troupe {

member_control::member_control(const node_identity& self, const membership_view& start,
                               const membership_options& options, const detail::job_rules& rules,
                               const parts& node)
    : identity_(self),
      own_devices_(detail::owner_of(start.members.at(self.rank))),
      rules_(rules),
      node_(node),
      membership_(start, self.rank, options, node.driver, static_cast<membership_actions&>(*this)),
      leader_(start.leader) {}

member_control::~member_control() = default;

const std::string& member_control::own_name() const { return node_.actors->own_name(); }

void member_control::add_peer(peer_table& peers, flow_control& flow, const node_identity& self,
                              const detail::device_owner& own_devices, const member& who) {
  const auto names = worker_names(who.name);
  detail::device_owner owner{who.rank, names, {}};
  try {
    owner = detail::owner_of(who);
  } catch (const decode_error& e) {
    // It cannot be connected to either, and is lost in a moment.
    log().warn("the descriptor of member {} cannot be read: {}", who.name, e.what());
  }
  auto added = std::make_unique<peer>(worker_info{names.front(), who.rank}, who.incarnation,
                                      actor_system_host::id_of(self.job, who.incarnation, who.rank),
                                      detail::devices_between(own_devices, owner));
  // First: whoever finds it in the table finds its window open, since nobody wakes those who wait
  // for a window to open.
  flow.open(*added);
  peers.add(std::move(added), names);
}

// A member that has died since is lost like any other, a moment later.
member_control::unreachable member_control::connect(transport::transport& net,
                                                    const membership_view& start) {
  net_ = &net;
  unreachable out;
  for (const auto& [rank, who] : start.members) {
    if (rank == identity_.rank) continue;
    try {
      connect(who);
    } catch (const std::exception& e) {
      if (start.epoch == 0) throw;  // a job does not begin without one of its founders
      out.emplace_back(rank, e.what());
    }
  }
  return out;
}

void member_control::serve_joins(std::shared_ptr<transport::store> keys, const std::string& job) {
  joins_ = std::make_unique<transport::join_service>(std::move(keys), job,
                                                     static_cast<transport::join_handler&>(*this));
}

void member_control::deliver(opened_envelope& message, transport::rank_t from) {
  // Some of those that have agreed to end may go before others know that they may.
  if (node_.termination.decided()) return;
  decoder in(message.body(), nullptr, nullptr);
  membership_.receive(from, message.header().incarnation, read_message(in));
}

void member_control::peer_lost(transport::rank_t rank, const transport::peer_loss& why) {
  if (parting_ || node_.termination.decided())
    node_.termination.has_left(rank);
  else
    membership_.lost(rank, {why.kind, transport::with_descriptor_shortage(why.text)});
}

void member_control::send_membership_message(transport::rank_t to,
                                             const membership_message& message) noexcept {
  auto* there = node_.peers.find(to);
  if (!there) return;
  try {
    node_.actors->out().send_control(*there, membership_channel, 0,
                                     [&](encoder& out) { write_message(out, message); });
  } catch (const std::exception& e) {
    // Its connection is broken: the transport says so as well.
    log().debug("{}: a membership message to {} was not sent: {}", own_name(), there->info.name,
                e.what());
  }
}

void member_control::connect(const member& who) {
  net_->add_peer(who.rank, detail::read_descriptor(who.address).address);
}

void member_control::fence(const member& who, const fault& why) noexcept {
  if (auto* whom = node_.peers.find(who.rank, who.incarnation)) fence(*whom, why.text);
  net_->close_peer(who.rank, false);
}

// Nothing of it is taken from now on, and nobody waits for it.
void member_control::fence(peer& whom, const std::string& cause) {
  if (!node_.peers.fence(whom, cause)) return;
  node_.actors->flow()->give_up(&whom);
  // Before those that wait get the error: they may go on to the shutdown.
  const bool shutting_down = waits_for_the_end_;
  whom.losses.lost = true;
  const auto failed = node_.actors->fail_requests(whom);
  whom.losses.requests = failed.all;
  if (shutting_down) whom.losses.promised = failed.of_program;
  // A peer that has nothing left to do for this node may well go.
  log().log(failed.all > 0 ? spdlog::level::warn : spdlog::level::debug,
            "{}: {}; {} requests failed", own_name(), cause, failed.all);
}

// What it held is released, and those who watch it are notified.
void member_control::evict(peer& whom) {
  if (!node_.peers.evict(whom)) return;
  node_.actors->evict(whom);
  node_.protocols.evict(whom);
}

namespace {

bool joins(const std::vector<membership_change>& changes, const member& who) {
  return std::any_of(changes.begin(), changes.end(), [&](const auto& one) {
    return !one.removes() && one.who.rank == who.rank && one.who.incarnation == who.incarnation;
  });
}

}  // namespace

void member_control::apply(const std::vector<membership_change>& changes,
                           const membership_view& view) noexcept {
  // Before a joiner can be found: whoever finds it must not speak of an epoch before it came.
  node_.actors->out().set_epoch(view.epoch);
  for (const auto& change : changes) {
    if (!change.removes()) {
      add_peer(node_.peers, *node_.actors->flow(), identity_, own_devices_, change.who);
    } else if (auto* whom = node_.peers.find(change.who.rank, change.who.incarnation)) {
      // One that joined and died in this step has not been fenced.
      fence(*whom, text_of_removal(change.who, change.cause));
      // Nobody misses one that was never welcomed either.
      if (change.what == membership_change::kind::left || joins(changes, change.who))
        whom->losses.lost = false;
      evict(*whom);
    }
  }
  leader_ = view.leader;
  node_.router.set_epoch(view.epoch);
  node_.termination.members_changed(view.leader);
  notify_watchers(changes, view.epoch);
}

void member_control::notify_watchers(const std::vector<membership_change>& changes,
                                     std::uint32_t epoch) {
  const std::lock_guard lock(watchers_mutex_);
  for (const auto& change : changes) {
    member_event event;
    event.epoch = epoch;
    event.what = static_cast<member_change>(change.what);
    event.who = {worker_names(change.who.name).front(), change.who.rank};
    event.incarnation = change.who.incarnation;
    event.cause = change.cause;
    for (const auto& watcher : watchers_) caf::anon_send(watcher, event);
  }
}

void member_control::watch(member_watcher watcher) {
  node_.life.check_open();
  const std::lock_guard lock(watchers_mutex_);
  watchers_.push_back(std::move(watcher));
}

// The job goes on without this node, or not at all: whatever waits here ends.
void member_control::job_ended(const fault& why) noexcept {
  node_.life.job_ended(why);
  log().error("{}: {}", own_name(), why.text);
  node_.actors->fail_others(why);
  for (auto* one : node_.peers.all()) {
    if (one->rank() == identity_.rank) continue;
    fence(*one, why.text);
    net_->close_peer(one->rank(), false);
    evict(*one);
  }
  node_.termination.leader_lost();
}

// What is wrong with the rules or the device maps between a joiner and the members, on either side.
std::string member_control::problem_of(const join_request& request) const {
  const member joiner{request.rank.value_or(0), 0, request.name, request.address};
  const member us{identity_.rank, 0, own_name(), {}};
  if (auto problem = detail::rules_problem(describe(us), rules_, describe(joiner),
                                           detail::read_descriptor(request.address).rules);
      !problem.empty())
    return problem;
  const auto owner = detail::owner_of(joiner);
  if (auto problem = detail::own_device_problem(owner); !problem.empty()) return problem;
  for (const auto* one : node_.peers.all()) {
    if (!one->live()) continue;
    const auto& known = one->devices.owner;
    for (auto problem : {detail::device_problem_between(owner, known),
                         detail::device_problem_between(known, owner)})
      if (!problem.empty()) return problem;
  }
  return "";
}

void member_control::admit(join_request&& request, join_callback&& then) {
  fault why;
  why.code = errc::rendezvous_error;
  try {
    why.text = problem_of(request);
  } catch (const decode_error& e) {
    why.text = "the descriptor of '" + request.name + "' cannot be read: " + e.fault().text;
  }
  if (!why.text.empty()) {
    log().warn("{} refused to admit '{}': {}", own_name(), request.name, why.text);
    then(nullptr, why);
    return;
  }
  membership_.admit(std::move(request), std::move(then));
}

// Ranks that nobody has had are given once, whatever becomes of those that ask for them.
std::uint32_t member_control::reserve_rank(std::optional<std::uint32_t> wanted) {
  node_.life.check_open();
  if (wanted) {
    if (node_.peers.find(*wanted)) return *wanted;
    throw rendezvous_error("rank " + std::to_string(*wanted) +
                           " was never in this job; omit the rank to get the next free one");
  }
  while (next_rank_ < most_ranks && node_.peers.find(next_rank_)) ++next_rank_;
  if (next_rank_ >= most_ranks)
    throw rendezvous_error("this job has had " + std::to_string(most_ranks) +
                           " ranks; join at a rank whose node has gone");
  return next_rank_++;
}

void member_control::let_in(std::uint32_t rank, const std::string& name,
                            std::vector<std::byte>&& address,
                            std::function<void(transport::join_reply&&)> then) {
  if (node_.termination.decided()) {
    then({"the job is over", rank, 0, {}});
    return;
  }
  admit({rank, name, std::move(address)}, [job = identity_.job, rank, then = std::move(then)](
                                              const membership_view* view, const fault& why) {
    transport::join_reply answer;
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

bool member_control::leave(clock::time_point deadline) {
  struct outcome {
    completion done;
    std::optional<fault> why;
  };
  const auto result = std::make_shared<outcome>();
  membership_.leave([result, &driver = node_.driver](const fault* why) {
    if (why) result->why = *why;
    driver.finish(result->done);
  });
  const bool answered = node_.driver.wait(result->done, deadline);
  if (answered && result->why) std::rethrow_exception(to_exception(*result->why));
  if (answered) parting_ = true;
  return answered;
}

}  // namespace troupe
