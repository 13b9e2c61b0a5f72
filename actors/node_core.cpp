// What a node does while it lives: calls out, messages in, timers.

#include "actors/node_core.hpp"

#include <caf/actor_cast.hpp>

#include "actors/current.hpp"
#include "actors/job.hpp"
#include "actors/thread_state.hpp"
#include "messages/log.hpp"

namespace troupe {

namespace {

constexpr std::uint64_t shutdown_channel = 1;

}  // namespace

caf::actor_system& node_core::system() {
  check_open();
  return host_->system();
}

void node_core::check_open() const {
  if (!open_.load(std::memory_order_acquire))
    throw not_initialized(
        "RPC has not been initialized, or has been shut down. Call init_rpc first.");
}

transport::rank_t node_core::find(const destination& to) const {
  if (const auto* rank = std::get_if<std::int64_t>(&to.value())) {
    if (*rank >= 0 && *rank < identity_.world_size) return static_cast<transport::rank_t>(*rank);
    throw unknown_worker("could not find destination: rank " + std::to_string(*rank) +
                         " in a job of " + std::to_string(identity_.world_size));
  }
  const auto& name = std::get<std::string>(to.value());
  auto place = by_name_.find(name);
  if (place == by_name_.end())
    throw unknown_worker("could not find destination: no worker is called '" + name + "'");
  return place->second;
}

bool node_core::send_call(transport::rank_t to, std::uint64_t hash, std::string_view name,
                          const std::shared_ptr<reply_sink>& sink, std::chrono::milliseconds limit,
                          letter& text) {
  pending_request pending;
  pending.peer = to;
  pending.function = name;
  pending.sink = sink;
  pending.limit = limit.count() < 0 ? rpc_timeout() : limit;
  envelope_header header;
  header.kind = envelope_kind::call;
  header.target = hash;
  header.request = remoting_->expect(std::move(pending));
  try {
    mail_->send(to, 0, header, &text);
    return true;
  } catch (...) {
    // Unless somebody else has answered it already.
    if (remoting_->requests().take(header.request, to)) throw;
    return false;
  }
}

// Hot path, at the callee.
void node_core::dispatch(transport::incoming_message&& message, engine_unit& unit) {
  const auto from = message.from;
  bool opens = false;
  try {
    opened_envelope opened(std::move(message.envelope), std::move(message.payloads));
    const auto& header = opened.header();
    opens = true;
    if (header.job != identity_.job || from >= identity_.world_size ||
        header.incarnation != incarnations_[from])
      throw decode_error("a message of another job or incarnation");
    if (header.kind != envelope_kind::control) mail_->count_received();
    if (header.kind == envelope_kind::call) {
      if (engine_->may_run_inline(unit)) {
        engine_->run_handler(unit, [&] { execute(opened, from); });
      } else {
        // Opened again where it runs: an envelope does not move.
        unit.exec_later(
            make_job([this, again = opened.give_back(), from](caf::execution_unit*) mutable {
              opened_envelope message(std::move(again.first), std::move(again.second));
              execute(message, from);
            }));
      }
    } else if (header.kind == envelope_kind::control && header.target == shutdown_channel) {
      decoder in(opened.body(), nullptr, nullptr);
      quiescence_->deliver(in, from);
    } else {
      remoting_->deliver(opened, from, &unit);
    }
  } catch (...) {
    // Somebody has counted it as sent, and a shutdown would wait for it for ever. It is taken for a
    // program's message: the runtimes' own are too plain to be damaged.
    if (!opens) mail_->count_received();
    log().warn("{}: dropped a message from rank {}: {}", self().name, from,
               describe(std::current_exception(), {}, {}).text);
  }
}

void node_core::execute(opened_envelope& message, transport::rank_t from) noexcept {
  const auto& header = message.header();
  const auto* function = find_function(header.target);
  reply_token reply(remoting_, from, header.request, function ? function->name : "");
  if (!function) {
    fault why;
    why.text = self().name + " has no function that the caller means (hash " +
               std::to_string(header.target) + "): do both run the same program?";
    why.node = self().name;
    reply.fail(std::make_exception_ptr(unknown_function(std::move(why))));
    return;
  }
  try {
    border handles(*remoting_, from);
    decoder in(message.body(), message.tensors(), &handles);
    function->invoke(in, std::move(reply));
  } catch (...) {
    reply.fail(std::current_exception());
  }
}

void node_core::peer_lost(transport::rank_t peer, const transport::peer_loss& why) {
  const auto failed = remoting_->peer_lost(peer, why.text);
  // A peer that has nothing left to do for this node may well go.
  log().log(failed > 0 ? spdlog::level::warn : spdlog::level::debug,
            "{}: lost {}: {}; {} requests failed", self().name, workers_[peer].name, why.text,
            failed);
  quiescence_->peer_lost(peer);
}

clock::time_point node_core::run_timers(clock::time_point now) {
  auto next = host_ ? host_->clock().run_due() : clock::time_point::max();
  for (auto& request : remoting_->requests().take_expired(now, next)) {
    fault why;
    why.code = errc::rpc_timeout;
    why.node = workers_[request.peer].name;
    why.function = request.function;
    why.limit = request.limit;
    why.text = "RPC ran for more than set timeout (" + std::to_string(request.limit.count()) +
               " ms) and will now be marked with an error";
    request.sink->on_fault(std::move(why));
  }
  return next;
}

void node_core::prepare_thread() noexcept {
  clean_thread_state();
  detail::set_current_node(this);
  detail::set_current_actor(0);
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
  return {
      threads.threads,      threads.idle, remoting_->requests().size(), remoting_->exports().held(),
      remoting_->proxies(), net_->count()};
}

void node_core::set_rpc_timeout(std::chrono::milliseconds limit) {
  if (limit.count() < 0) throw invalid_argument("RPC Timeout must be non-negative");
  rpc_timeout_ms_ = limit.count();
}

}  // namespace troupe
