#include "troupe/actors/rpc/rpc_agent.hpp"

#include "troupe/actors/future/timer_futures.hpp"
#include "troupe/actors/messaging/call_control.hpp"
#include "troupe/actors/messaging/due.hpp"
#include "troupe/actors/messaging/no_reply_sink.hpp"
#include "troupe/actors/messaging/request_table.hpp"
#include "troupe/actors/profiling/profile_event.hpp"
#include "troupe/actors/remote/outgoing_message.hpp"
#include "troupe/actors/remote/remote_actors.hpp"
#include "troupe/actors/rpc/call_ranges.hpp"
#include "troupe/actors/rpc/call_server.hpp"
#include "troupe/actors/rpc/function_table.hpp"
#include "troupe/actors/scheduler/node_lifecycle.hpp"
#include "troupe/actors/scheduler/work_item.hpp"
#include "troupe/messages/base/random.hpp"

namespace troupe {

namespace {

std::string structure_of(std::uint64_t target) {
  const auto* function = find_function(target);
  return function ? function->structure() : std::string();
}

}  // namespace

rpc_agent::rpc_agent(const parts& node, std::chrono::milliseconds limit, std::uint64_t seed)
    : node_(node),
      server_(std::make_shared<call_server>(node.actors)),
      self_(node.peers.find(node.actors->out().self().rank)),
      rpc_timeout_ms_(limit.count()),
      sleepers_(std::make_unique<sleepers>()),
      random_(seed) {}

rpc_agent::~rpc_agent() = default;

active_calls& rpc_agent::active() const noexcept { return server_->active; }

void rpc_agent::belongs_to(const std::shared_ptr<void>& node) {
  self_of_ = std::shared_ptr<rpc_agent>(node, this);
}

const worker_info& rpc_agent::self() const noexcept { return self_->info; }

void rpc_agent::check_open() const { node_.life.check_open(); }

bool rpc_agent::is_open() const noexcept { return node_.life.is_open(); }

future<void> rpc_agent::sleep_for(std::chrono::nanoseconds time) {
  return sleepers_->add(node_.driver, time.count() > 0 ? deadline_after(time) : clock::now());
}

future<void> rpc_agent::wake_at(clock::time_point until) {
  return sleepers_->add(node_.driver, until);
}

void rpc_agent::forget(const future<void>& one, clock::time_point until) {
  sleepers_->remove(one, until);
}

bool rpc_agent::waits_for_answers() const {
  return retries_ > 0 || node_.requests->size() > 0 || expiring_;
}

void rpc_agent::close(const fault& why) { sleepers_->end(why); }

peer& rpc_agent::find(const destination& to) const {
  forked::check();
  return node_.peers.find(to);
}

std::uint64_t rpc_agent::call(peer& to, std::uint64_t hash, std::string_view name,
                              const std::shared_ptr<reply_sink>& sink, const call_options& how,
                              function_ref<void(encoder&, handle_scope&)> write) {
  try {
    check_open();
    gate::pass pass(actors().entrance());
    if (!pass) throw not_initialized("the node has been shut down");
    detail::outgoing_message message(actors().as_sender(), to, detail::current_context());
    write(message.body(), message.handles());
    return send_call(to, hash, name, sink, how, message);
  } catch (const error& e) {
    auto why = e.fault();
    if (why.node.empty()) why.node = to.info.name;
    if (why.function.empty()) why.function = name;
    sink->on_fault(std::move(why));
    return 0;
  }
}

std::uint64_t rpc_agent::send_call(peer& to, std::uint64_t hash, std::string_view name,
                                   const std::shared_ptr<reply_sink>& sink, const call_options& how,
                                   detail::outgoing_message& message) {
  envelope_header header;
  header.kind = envelope_kind::call;
  header.urgent = how.urgent;
  header.uses_reply_route = how.uses_reply_route;
  header.target = hash;
  message.finish(header);
  if (!message.in_context())
    actors().lost().check_request(actors().contexts(), to, name, message.tensors());
  if (sink == detail::no_reply_sink()) {
    if (message.handles().holds_any())
      throw invalid_argument("a one-way call cannot carry handles or references");
    message.send(0, header, {how.wait && actors().senders_wait(), never, {}, how.exceeds_window});
    return 0;
  }
  pending_request pending;
  pending.references = message.handles().references();
  pending.peer = to.rank();
  pending.function = name;
  pending.target = hash;
  pending.structure_here = &structure_of;
  pending.sink = sink;
  pending.looked_after = how.again;
  detail::caller_range range(pending.sink, how.sync);
  range.ask(header);
  pending.limit = how.limit.count() < 0 ? rpc_timeout() : how.limit;
  send_wait until{how.wait && actors().senders_wait(), never, pending.limit, how.exceeds_window};
  if (until.limit.count() > 0) pending.deadline = until.deadline = deadline_after(until.limit);
  header.limit = limit_in(until.limit);
  header.request = actors().expect(std::move(pending));
  try {
    range.begin(name, self().name, to.info.name,
                detail::range_number(self_->rank(), header.request));
    message.send(0, header, until);
    return header.request;
  } catch (...) {
    // Unless another thread has answered it already.
    if (requests().take(header.request, to.rank())) throw;
    return 0;
  }
}

void rpc_agent::deliver_control(decoder& in, peer& from) {
  switch (in.get<call_control>()) {
    case call_control::cancel: {
      // Not here: what is cancelled may run code of the program's.
      if (auto call = active().cancel({&from, in.get<std::uint64_t>()})) {
        auto* work =
            make_work_item([call = std::move(call)](caf::execution_unit*) { call->cancel(); });
        if (!driver()->push_if_open(work)) intrusive_ptr_release(work);
      }
      return;
    }
    case call_control::profile: {
      const auto request = in.get<std::uint64_t>();
      auto events = in.get<std::vector<profile_event>>();
      in.expect_end();
      if (const auto sink = requests().sink_of(request, from.rank()))
        sink->on_profile(std::move(events));
      return;
    }
  }
  throw decode_error("a message about calls of unknown kind");
}

clock::time_point rpc_agent::run_timers(clock::time_point now) {
  auto next = sleepers_->run_due(now);
  // Until the last of them has been let go, with the references that it held.
  expiring_ = true;
  for (auto& request : requests().take_expired(now, next)) {
    fault why;
    why.code = errc::rpc_timeout;
    why.node = node_.peers.name_of(request.peer);
    why.function = request.function;
    why.limit = request.limit;
    why.text = "RPC ran for more than set timeout (" + std::to_string(request.limit.count()) +
               " ms) and will now be marked with an error";
    request.sink->on_expiry(std::move(why));
  }
  expiring_ = false;
  return next;
}

// splitmix64, see messages/base/random.hpp.
std::uint64_t rpc_agent::random() noexcept {
  return splitmix64(random_.fetch_add(0x9e3779b97f4a7c15));
}

void rpc_agent::set_rpc_timeout(std::chrono::milliseconds limit) {
  if (limit.count() < 0) throw invalid_argument("RPC Timeout must be non-negative");
  rpc_timeout_ms_ = limit.count();
}

}  // namespace troupe
