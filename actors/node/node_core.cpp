// What a node does while it lives: calls out, messages in, timers.

#include "troupe/actors/node/node_core.hpp"

#include <caf/actor_cast.hpp>

#include "troupe/actors/messaging/control_channel.hpp"
#include "troupe/actors/scheduler/execution_context.hpp"
#include "troupe/actors/deadlock/deadlock_search.hpp"
#include "troupe/actors/deadlock/queued_call.hpp"
#include "troupe/actors/messaging/due.hpp"
#include "troupe/actors/membership/message_codec.hpp"
#include "troupe/actors/rpc/profiling.hpp"
#include "troupe/actors/profiling/call_profile.hpp"
#include "troupe/actors/messaging/window_credit.hpp"
#include "troupe/actors/remote/context_interceptor.hpp"
#include "troupe/actors/rref/rref_table.hpp"
#include "troupe/actors/scheduler/torch_thread_state.hpp"
#include "troupe/actors/rpc/one_way.hpp"
#include "troupe/messages/base/log.hpp"
#include "troupe/messages/base/random.hpp"

namespace troupe {

caf::actor_system& node_core::system() {
  check_open();
  return host_->system();
}

void node_core::check_open() const {
  forked::check();
  if (open_.load(std::memory_order_acquire)) return;
  if (const auto ended = end_of_job()) std::rethrow_exception(to_exception(*ended));
  throw not_initialized(
      "RPC has not been initialized, or has been shut down. Call init_rpc first.");
}

std::uint64_t node_core::call(peer& to, std::uint64_t hash, std::string_view name,
                              const std::shared_ptr<reply_sink>& sink, const call_options& how,
                              function_ref<void(encoder&, handle_scope&)> write) {
  try {
    check_open();
    gate::pass pass(remote_actors_->entrance());
    if (!pass) throw not_initialized("the node has been shut down");
    handle_scope handles(*remote_actors_, to);
    message_builder text(&handles);
    detail::context_header context(*remote_actors_, detail::current_context(), to, text);
    write(text.body(), handles);
    const auto request = send_call(to, hash, name, sink, how, text, handles, context);
    if (request != 0) handles.sent();
    return request;
  } catch (const error& e) {
    auto why = e.fault();
    if (why.node.empty()) why.node = to.info.name;
    if (why.function.empty()) why.function = name;
    sink->on_fault(std::move(why));
    return 0;
  }
}

std::uint64_t node_core::send_call(peer& to, std::uint64_t hash, std::string_view name,
                                   const std::shared_ptr<reply_sink>& sink, const call_options& how,
                                   message_builder& text, const handle_scope& handles,
                                   detail::context_header& context) {
  envelope_header header;
  header.kind = envelope_kind::call;
  header.urgent = how.urgent;
  header.uses_reply_route = how.uses_reply_route;
  header.target = hash;
  context.finish(header);
  if (!context) remote_actors_->lost().check_request(*remote_actors_, to, name, text.tensors());
  if (sink == detail::no_reply_sink()) {
    if (handles.holds_any())
      throw invalid_argument("what nobody waits for can carry no handles and no references");
    const send_wait until{how.wait && remote_actors_->senders_wait(), never, {}, how.exceeds_window};
    remote_actors_->out().send(to, 0, header, &text, nullptr, until);
    context.sent();
    return 0;
  }
  pending_request pending;
  pending.references = handles.references();
  pending.peer = to.rank();
  pending.function = name;
  pending.target = hash;
  pending.sink = sink;
  pending.looked_after = how.again;
  detail::caller_range range(pending.sink, how.sync);
  range.ask(header);
  pending.limit = how.limit.count() < 0 ? rpc_timeout() : how.limit;
  send_wait until{how.wait && remote_actors_->senders_wait(), never, pending.limit, how.exceeds_window};
  if (until.limit.count() > 0) pending.deadline = until.deadline = deadline_after(until.limit);
  header.limit = limit_in(until.limit);
  header.request = remote_actors_->expect(std::move(pending));
  try {
    range.begin(name, self().name, to.info.name,
                detail::range_number(identity_.rank, header.request));
    remote_actors_->out().send(to, 0, header, &text, nullptr, until);
    context.sent();
    return header.request;
  } catch (...) {
    // Unless somebody else has answered it already.
    if (remote_actors_->requests().take(header.request, to.rank())) throw;
    return 0;
  }
}

void node_core::dispatch(transport::incoming_message&& message, engine_unit& unit) {
  const bool only_a_look = message.from == identity_.rank && message.envelope.empty();
  if (early_.empty()) {
    if (!only_a_look) take_apart(std::move(message), unit, true);
    return;
  }
  // What has come too early is first in line. None of it runs here, since the network could go to
  // another thread meanwhile.
  if (!only_a_look) early_.push_back(std::move(message));
  auto waiting = std::exchange(early_, {});
  for (auto& one : waiting) take_apart(std::move(one), unit, false);
}

/// A call that runs when a thread comes to it.
class node_core::waiting_call final : public deadlock::queued_call {
public:
  waiting_call(node_core& node, peer& from, std::uint64_t request,
               std::pair<frame, std::vector<incoming_payload>>&& message, std::size_t size,
               clock::time_point deadline)
      : queued_call(from, request),
        node_(node),
        caller_(from),
        message_(std::move(message)),
        size_(size),
        deadline_(deadline) {}

  resume_result resume(caf::execution_unit*, std::size_t) override {
    opened_envelope message(std::move(message_.first), std::move(message_.second));
    node_.execute(message, caller_, size_, deadline_, refusal());
    return done;
  }

private:
  node_core& node_;
  peer& caller_;
  std::pair<frame, std::vector<incoming_payload>> message_;
  const std::size_t size_;
  const clock::time_point deadline_;
};

namespace {

// Counts a message of a peer as taken in when this goes.
class taken_in_at_end {
public:
  explicit taken_in_at_end(peer* from) noexcept : from_(from) {}
  ~taken_in_at_end() {
    if (from_) from_->counted_received.fetch_add(1, std::memory_order_acq_rel);
  }
  taken_in_at_end(const taken_in_at_end&) = delete;
  taken_in_at_end& operator=(const taken_in_at_end&) = delete;

private:
  peer* const from_;
};

}  // namespace

// Hot path, at the callee.
void node_core::take_apart(transport::incoming_message&& message, engine_unit& unit,
                           bool may_run_inline) {
  const auto rank = message.from;
  std::size_t size = message.envelope.size();
  for (const auto& payload : message.payloads) size += payload.size;
  bool opens = false;
  try {
    opened_envelope opened(std::move(message.envelope), std::move(message.payloads));
    const auto& header = opened.header();
    opens = true;
    if (header.job != identity_.job) throw decode_error("a message of another job");
    if (header.kind == envelope_kind::control && header.target == membership_channel) {
      // Some of those that have agreed to end may go before others have heard that they may.
      if (termination_->decided()) return;
      decoder in(opened.body(), nullptr, nullptr);
      membership_->receive(rank, header.incarnation, read_message(in));
      return;
    }
    const auto epoch = applied_.load();
    if (header.epoch > epoch) {
      // Nobody is further ahead: a step needs all to be ready, who have applied the one before.
      if (header.epoch > epoch + 1) throw decode_error("a message of an epoch far ahead");
      // It knows of a change that this node hears of in a moment.
      auto [envelope, payloads] = opened.give_back();
      early_.push_back({rank, std::move(envelope), std::move(payloads)});
      return;
    }
    auto* from = peers_.find(rank, header.incarnation);
    if (!from || !from->live()) throw decode_error("a message of a node that is not in the job");
    // What was meant for this rank's incarnation before counts as sent to that one.
    const bool of_rrefs = header.kind == envelope_kind::control && header.target == rref_channel;
    const bool counts = counts_at_shutdown(header) && header.epoch >= joined_;
    if (counts && !of_rrefs) from->counted_received.fetch_add(1, std::memory_order_acq_rel);
    if (header.epoch < joined_) {
      turn_away(opened, *from);
    } else if (header.kind == envelope_kind::call) {
      if (may_run_inline && engine_->may_run_inline(unit)) {
        engine_->run_handler(unit, [&] { execute(opened, *from, size, due_at(header)); });
      } else if (may_run_inline && unit.expected() && unit.expected()->contain(opened)) {
        engine_->run_expected(unit, [&] { execute(opened, *from, size, due_at(header)); });
      } else {
        // Opened again where it runs: an envelope does not move.
        const bool urgent = header.urgent;
        const auto deadline = due_at(header);
        auto* job =
            new waiting_call(*this, *from, header.request, opened.give_back(), size, deadline);
        urgent ? unit.exec_urgent(job) : unit.exec_later(job);
      }
    } else if (header.kind == envelope_kind::control && header.target == shutdown_channel) {
      decoder in(opened.body(), nullptr, nullptr);
      termination_->deliver(in, rank);
    } else if (of_rrefs) {
      // Last: what it has this node say has been counted as sent then.
      const taken_in_at_end done(counts ? from : nullptr);
      decoder in(opened.body(), nullptr, nullptr);
      remote_actors_->rrefs().deliver(in, *from);
    } else {
      receipt taken;
      if (header.kind == envelope_kind::actor_message)
        taken = receipt({remote_actors_, remote_actors_->flow().get()}, *from, size);
      remote_actors_->deliver(opened, *from, std::move(taken), &unit);
    }
  } catch (...) {
    // Somebody has counted it as sent, and a shutdown would wait for it for ever. It is taken for a
    // program's message: the runtimes' own are too plain to be damaged.
    if (auto* from = peers_.find(rank); from && !opens) from->counted_received.fetch_add(1);
    log().warn("{}: dropped a message from rank {}: {}", self().name, rank,
               describe(std::current_exception(), {}, {}).text);
  }
}

// It was sent before the sender knew of this node: to its earlier incarnation.
void node_core::turn_away(const opened_envelope& message, peer& from) noexcept {
  const auto& header = message.header();
  if (header.request == 0) return;
  fault why;
  why.code = errc::peer_lost;
  why.node = self().name;
  why.text = "it was meant for an earlier incarnation of " + self().name;
  remote_actors_->out().send_fault(from, header.sender, header.request, why);
}

namespace {

// What is called, of a call that says so itself; empty: it cannot be read.
std::string name_of_called(const opened_envelope& message,
                           const function_entry& function) noexcept {
  try {
    decoder in(message.body(), nullptr, nullptr);
    detail::skip_tag(message, in);
    return function.called(in);
  } catch (const std::exception&) {
    return {};
  }
}

}  // namespace

void node_core::execute(opened_envelope& message, peer& from, std::size_t size,
                        clock::time_point deadline, const fault* refusal) noexcept {
  remote_actors_->flow()->taken_up(from, size);
  const auto& header = message.header();
  const auto* function = find_function(header.target);
  std::string_view name = function ? function->name : "";
  std::string own_name;
  if (function && function->called) own_name = name_of_called(message, *function);
  reply_token reply(remote_actors_, from, header.request, name);
  if (!own_name.empty()) reply.called(name = own_name);
  reply.due(deadline);
  if (!function) {
    fault why;
    why.text = self().name + " has no function that the caller means (hash " +
               std::to_string(header.target) + "): do both run the same program?";
    why.node = self().name;
    reply.fail_unread(std::make_exception_ptr(unknown_function(std::move(why))));
    return;
  }
  if (refusal) return reply.fail_unread(to_exception(*refusal));
  if (function->hash != header.target) {
    auto why = mismatch_of(function->name, from.info.name, self().name, function->structure());
    reply.fail_unread(std::make_exception_ptr(type_mismatch(std::move(why))));
    return;
  }
  const active_call call{&from, header.request};
  const deadlock::running_call runs(from, header.request, name);
  try {
    handle_scope handles(*remote_actors_, from);
    decoder in(message.body(), message.tensors(), &handles);
    try {
      reply.in_context(detail::receive_tag(*remote_actors_, message, in, from));
    } catch (const unknown_context&) {
      function->skip(in);
      throw;
    }
    const detail::call_context_scope now(reply.call_context());
    if (remote_actors_->served().remembers(call)) {
      function->skip(in);
      throw cancelled_error("cancelled before it began");
    }
    const auto profile = detail::profile_of_call(header, self(), from.info, name);
    std::optional<detail::collecting> recorded;
    if (profile) {
      reply.profiled(profile);
      recorded.emplace(profile->events());
    }
    const detail::callee_range range(name, from.info.name, self().name,
                                     detail::range_number(from.rank(), header.request));
    function->invoke(in, handles, std::move(reply));
  } catch (...) {
    reply.fail(std::current_exception());
  }
}

clock::time_point node_core::run_timers(clock::time_point now) {
  const detail::call_context_scope nothing(detail::apart());  // a thread may run them while it waits
  auto* const host = timed_.load();
  auto next = host ? host->clock().run_due() : never;
  if (!termination_->decided()) next = std::min(next, membership_->run_timer(now));
  next = std::min(next, sleepers_.run_due(now));
  next = std::min(next, remote_actors_->deadlocks().run_timer(now));
  // Until the last of them has been let go, with the references that it held.
  expiring_ = true;
  for (auto& request : remote_actors_->requests().take_expired(now, next)) {
    fault why;
    why.code = errc::rpc_timeout;
    why.node = peers_.name_of(request.peer);
    why.function = request.function;
    why.limit = request.limit;
    why.text = "RPC ran for more than set timeout (" + std::to_string(request.limit.count()) +
               " ms) and will now be marked with an error";
    request.sink->on_expiry(std::move(why));
  }
  expiring_ = false;
  return next;
}

// splitmix64, see transport/virtual/random.hpp.
std::uint64_t node_core::random() noexcept {
  return transport::virtual_net::mix(random_.fetch_add(0x9e3779b97f4a7c15));
}

void node_core::prepare_thread() noexcept {
  clean_thread_state();
  detail::collecting::leave();
  detail::set_current_node(this);
  detail::set_current_actor(0);
  detail::clear_current_call_context();
}

// On the thread that has made the actor.
void node_core::adopt(const caf::strong_actor_ptr& actor) {
  caf_host::let_go_of_logger();
  std::lock_guard guard(actors_mutex_);
  // Forget those that are gone, now and then.
  if (spawned_.size() == spawned_.capacity())
    std::erase_if(spawned_, [](const caf::weak_actor_ptr& a) {
      return !caf::actor_cast<caf::strong_actor_ptr>(a);
    });
  spawned_.push_back(caf::actor_cast<caf::weak_actor_ptr>(actor));
}

std::vector<transport::route> node_core::routes() const {
  gate::pass pass(uses_);
  check_open();
  return net_->routes();
}

debug_info node_core::info() const {
  gate::pass pass(uses_);
  check_open();
  auto threads = engine_->count();
  const auto rrefs = remote_actors_->rrefs().count();
  debug_info out;
  out.threads = threads.threads;
  out.idle_threads = threads.idle;
  out.calls_in_flight = remote_actors_->requests().size();
  out.calls_served = remote_actors_->served().size();
  out.actors_held = remote_actors_->exports().held();
  out.remote_handles = remote_actors_->proxies();
  out.owner_rrefs = rrefs.owned;
  out.user_rrefs = rrefs.used;
  out.rref_forks = rrefs.forks;
  if (const auto* records = remote_actors_->records()) {
    const auto contexts = records->count();
    out.autograd_contexts = contexts.contexts;
    out.backward_passes = contexts.passes;
  }
  out.traffic = net_->count();
  return out;
}

void node_core::set_rpc_timeout(std::chrono::milliseconds limit) {
  if (limit.count() < 0) throw invalid_argument("RPC Timeout must be non-negative");
  rpc_timeout_ms_ = limit.count();
}

}  // namespace troupe
