// The calls that a node serves.

#include <optional>

#include "troupe/actors/deadlock/held_waits.hpp"
#include "troupe/actors/deadlock/queued_call.hpp"
#include "troupe/actors/messaging/due.hpp"
#include "troupe/actors/profiling/call_profile.hpp"
#include "troupe/actors/remote/incoming_message.hpp"
#include "troupe/actors/rpc/call_ranges.hpp"
#include "troupe/actors/rpc/call_server.hpp"
#include "troupe/actors/rpc/function_table.hpp"
#include "troupe/actors/rpc/reply.hpp"
#include "troupe/actors/rpc/rpc_agent.hpp"
#include "troupe/messages/tensor/device_streams.hpp"

namespace troupe {

/// A call that runs when a thread comes to it.
class rpc_agent::queued_call final : public deadlock::queued_call {
public:
  queued_call(rpc_agent& agent, peer& from, std::uint64_t request,
              std::pair<frame, std::vector<incoming_payload>>&& message, std::size_t size,
              clock::time_point deadline)
      : deadlock::queued_call(from, request),
        agent_(agent),
        caller_(from),
        message_(std::move(message)),
        size_(size),
        deadline_(deadline) {}

  resume_result resume(caf::execution_unit*, std::size_t) override {
    opened_envelope message(std::move(message_.first), std::move(message_.second));
    agent_.execute(message, caller_, size_, deadline_, refusal());
    return done;
  }

private:
  rpc_agent& agent_;
  peer& caller_;
  std::pair<frame, std::vector<incoming_payload>> message_;
  const std::size_t size_;
  const clock::time_point deadline_;
};

// Hot path, at the callee.
void rpc_agent::receive_call(opened_envelope& message, peer& from, std::size_t size,
                             engine_unit& unit, bool may_run_inline) {
  const auto& header = message.header();
  auto& engine = *driver();
  if (may_run_inline && engine.may_run_inline(unit)) {
    engine.run_handler(unit, [&] { execute(message, from, size, due_at(header)); });
  } else if (may_run_inline && unit.expected() && unit.expected()->contain(message)) {
    engine.run_expected(unit, [&] { execute(message, from, size, due_at(header)); });
  } else {
    // Opened again where it runs: an envelope does not move.
    const bool urgent = header.urgent;
    const auto deadline = due_at(header);
    auto* work = new queued_call(*this, from, header.request, message.give_back(), size, deadline);
    urgent ? unit.exec_urgent(work) : unit.exec_later(work);
  }
}

namespace {

// The name of what is called, from a call that carries it; empty: it cannot be read.
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

void rpc_agent::execute(opened_envelope& message, peer& from, std::size_t size,
                        clock::time_point deadline, const fault* refusal) noexcept {
  actors().flow()->taken_up(from, size);
  const auto& header = message.header();
  const auto* function = find_function(header.target);
  std::string_view name = function ? function->name : "";
  std::string own_name;
  if (function && function->called) own_name = name_of_called(message, *function);
  reply_token reply(server_, from, header.request, name);
  if (!own_name.empty()) reply.called(name = own_name);
  reply.due(deadline);
  if (!function) {
    fault why;
    why.text = self().name + " has no function with hash " + std::to_string(header.target) +
               "; do caller and callee run the same program?";
    why.node = self().name;
    reply.fail_unread(std::make_exception_ptr(unknown_function(std::move(why))));
    return;
  }
  if (function->hash != header.target) {
    auto why = mismatch_of(function->name, from.info.name, self().name, function->structure());
    reply.fail_unread(std::make_exception_ptr(type_mismatch(std::move(why))));
    return;
  }
  const active_call call{&from, header.request};
  const deadlock::running_call runs(from, header.request, name);
  try {
    detail::incoming_message in(actors(), actors().contexts(), message, from);
    if (in.context_has_ended()) {
      function->skip(in.body());
      in.check_context();
    }
    reply.in_context(in.tag());
    const detail::call_context_scope now(reply.context());
    if (refusal) {
      // The handles in its arguments are given back as they are read; or else by the caller, which
      // does that for references alone.
      try {
        function->skip(in.body());
      } catch (...) {
        return reply.fail_unread(to_exception(*refusal));
      }
      return reply.fail(to_exception(*refusal));
    }
    if (active().remembers(call)) {
      function->skip(in.body());
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
    const detail::handler_streams devices(in.copies());
    function->invoke(in.body(), in.handles(), std::move(reply));
  } catch (...) {
    reply.fail(std::current_exception());
  }
}

}  // namespace troupe
