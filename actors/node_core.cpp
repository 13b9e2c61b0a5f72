#include "actors/node_core.hpp"

#include <caf/actor_cast.hpp>
#include <caf/actor_registry.hpp>
#include <caf/send.hpp>

#include <unistd.h>

#include <cstring>
#include <random>
#include <set>
#include <system_error>
#include <thread>

#include "actors/current.hpp"
#include "actors/job.hpp"
#include "actors/thread_state.hpp"
#include "messages/log.hpp"
#include "transport/rendezvous/meeting.hpp"
#include "transport/rendezvous/rendezvous.hpp"
#include "transport/ucx/ucx_transport.hpp"

namespace troupe {

namespace {

constexpr std::uint64_t shutdown_channel = 1;
constexpr auto farewell = std::chrono::milliseconds(5000);

}  // namespace

/// Received tensors land in recycled memory.
struct node_core::pool final : transport::payload_pool {
  std::shared_ptr<std::byte> allocate(std::size_t size, memory_place place) override {
    if (place.where != memory_place::kind::host)
      throw transport_error("tensors on a GPU cannot be received yet");
    return memory.allocate(size);
  }

  storage_pool memory;
};

node_core::node_core(node_identity identity, std::vector<worker_info> workers,
                     std::vector<std::uint64_t> incarnations, const rpc_options& options)
    : identity_(identity),
      workers_(std::move(workers)),
      incarnations_(std::move(incarnations)),
      rpc_timeout_ms_(options.rpc_timeout.count()),
      pool_(std::make_shared<pool>()),
      process_(getpid()) {
  if (options.rpc_timeout.count() < 0) throw invalid_argument("RPC Timeout must be non-negative");
  for (const auto& worker : workers_) by_name_.emplace(worker.name, worker.id);
  engine_ = std::make_shared<engine>(static_cast<dispatcher&>(*this), engine_options{});
  mail_ = std::make_unique<mail>(identity_, *engine_);
  remoting_ =
      std::make_shared<remoting>(*mail_, engine_, [names = workers_](transport::rank_t rank) {
        return rank < names.size() ? names[rank].name : "rank " + std::to_string(rank);
      });
  quiescence_ = std::make_unique<quiescence>(*mail_, *engine_);
}

std::shared_ptr<node_core> node_core::join(const rpc_options& options) {
  transport::rendezvous_options meet;
  meet.init_method = options.init_method;
  meet.rank = options.rank;
  meet.world_size = options.world_size;
  meet.name = options.name;
  meet.timeout = options.init_timeout;
  meet.job = options.job;
  std::shared_ptr<node_core> core;
  std::unique_ptr<transport::transport> net;
  auto roster = transport::rendezvous(meet, [&](const transport::pre_roster& known) {
    std::vector<worker_info> workers;
    std::vector<std::uint64_t> incarnations;
    for (const auto& member : known.members) {
      workers.push_back({member.name, member.rank});
      incarnations.push_back(member.incarnation);
    }
    node_identity self{known.rank, known.world_size, known.job_id, incarnations[known.rank]};
    core.reset(new node_core(self, std::move(workers), std::move(incarnations), options),
               &node_core::destroy);
    transport::ucx_options ucx;
    ucx.rank = known.rank;
    ucx.one_host = known.all_on_one_host;
    ucx.net_devices = options.net_devices;
    const auto proof = known.secret.subkey("transport").sign({});
    static_assert(sizeof proof == sizeof ucx.key);
    std::memcpy(ucx.key.data(), &proof, sizeof proof);
    ucx.kind = options.transport == backend::tcp             ? transport::ucx_kind::tcp
               : options.transport == backend::shared_memory ? transport::ucx_kind::shared_memory
                                                             : transport::ucx_kind::automatic;
    net = transport::make_ucx_transport(ucx, core->engine_->as_sink(), *core->pool_);
    return net->address();
  });
  for (const auto& member : roster.members)
    if (member.rank != roster.rank) net->add_peer(member.rank, member.address);
  core->leave_ = [roster](std::chrono::milliseconds wait_for_others) mutable {
    roster.close(wait_for_others);
  };
  core->open(std::move(net));
  return core;
}

std::vector<std::shared_ptr<node_core>> node_core::join_loopback(
    const std::vector<std::string>& names, const rpc_options& options) {
  auto network = std::make_shared<transport::loopback_network>();
  std::random_device random;
  const auto job = std::uint64_t{random()} << 32 | random();
  std::vector<worker_info> workers;
  std::set<std::string_view> known;
  for (const auto& name : names) {
    if (const auto problem = transport::worker_name_problem(name); !problem.empty())
      throw invalid_argument("a worker's name " + problem);
    if (!known.insert(name).second) throw invalid_argument("two workers are called '" + name + "'");
  }
  for (const auto& name : names)
    workers.push_back({name, static_cast<std::uint32_t>(workers.size())});
  std::vector<std::uint64_t> incarnations(names.size(), 1);
  const auto size = static_cast<transport::rank_t>(names.size());
  std::vector<std::shared_ptr<node_core>> cores;
  std::vector<std::unique_ptr<transport::transport>> nets;
  for (transport::rank_t rank = 0; rank < size; ++rank) {
    cores.emplace_back(new node_core({rank, size, job, 1}, workers, incarnations, options),
                       &node_core::destroy);
    nets.push_back(transport::make_loopback_transport(
        network, rank, cores.back()->engine_->as_sink(), *cores.back()->pool_));
  }
  for (transport::rank_t a = 0; a < size; ++a)
    for (transport::rank_t b = 0; b < size; ++b)
      if (a != b) nets[a]->add_peer(b, nets[b]->address());
  for (transport::rank_t rank = 0; rank < size; ++rank) cores[rank]->open(std::move(nets[rank]));
  return cores;
}

void node_core::open(std::unique_ptr<transport::transport> net) {
  net_ = std::move(net);
  mail_->attach(*net_, *pool_);
  host_ = std::make_unique<caf_host>(remoting_, identity_);
  std::vector<caf::node_id> nodes;
  for (transport::rank_t rank = 0; rank < identity_.world_size; ++rank)
    nodes.push_back(caf_host::id_of(identity_.job, incarnations_[rank], rank));
  remoting_->attach(host_->system(), std::move(nodes));
  // Only now: messages may be waiting already.
  open_ = true;
  engine_->start(*net_);
}

node_core::~node_core() {
  try {
    shutdown(false, std::chrono::milliseconds(0));
  } catch (const std::exception& e) {
    log().error("{}: {}", self().name, e.what());
  }
}

// A handler that drops the last copy of its node cannot wait for itself: a thread of its own ends
// the node. The process's end waits for that thread, which waits for the one before it.
void node_core::destroy(node_core* core) noexcept {
  // The node of the process that forked this one: its threads are not here.
  if (core->process_ != getpid()) return;
  if (!core->engine_->is_own_thread()) {
    delete core;
    return;
  }
  static std::mutex mutex;
  static std::jthread last;
  std::lock_guard guard(mutex);
  try {
    last = std::jthread([core, before = std::move(last)] { delete core; });
  } catch (const std::system_error& e) {
    log().error("{}: the node stays, since no thread can end it: {}", core->self().name, e.what());
  }
}

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

// ---- Calls
// ------------------------------------------------------------------------------------------

// Hot path. False: the call has failed meanwhile, and its sink has heard of it.
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
      if (engine::may_run_inline(unit)) {
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

void node_core::peer_lost(transport::rank_t peer, const std::string& reason) {
  const auto failed = remoting_->peer_lost(peer, reason);
  // A peer that has nothing left to do for this node may well go.
  log().log(failed > 0 ? spdlog::level::warn : spdlog::level::debug,
            "{}: lost {}: {}; {} requests failed", self().name, workers_[peer].name, reason,
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

// ---- The end
// ----------------------------------------------------------------------------------------

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

void node_core::shutdown(bool graceful, std::chrono::milliseconds limit) {
  if (!open_) return;
  if (engine_->is_own_thread())
    throw deadlock_error("shutdown was called inside of a handler, which it would wait for");
  std::lock_guard guard(shutdown_mutex_);
  if (!open_) return;
  std::exception_ptr failure;
  if (graceful) {
    auto deadline = limit.count() > 0 ? deadline_after(limit) : clock::time_point::max();
    try {
      quiescence_->wait(
          [&] {
            // Sent is read last: what is sent meanwhile is then missing at the receiver.
            quiescence::report r;
            r.idle = engine_->quiet() && remoting_->requests().size() == 0;
            r.received = mail_->received_total();
            r.sent = mail_->sent_total();
            return r;
          },
          deadline);
      quiescence_->leave(clock::now() + farewell);
    } catch (const error&) {
      failure = std::current_exception();
    }
  }
  close(graceful && !failure);
  if (failure) std::rethrow_exception(failure);
}

void node_core::close(bool together) {
  open_ = false;
  remoting_->close();
  fault why;
  why.code = errc::not_initialized;
  why.node = self().name;
  why.text = "the node has been shut down";
  remoting_->fail_pending(why);
  engine_->end_waits();
  uses_.close();
  uses_.wait_until_empty();
  end_actors();
  host_.reset();  // stops the engine
  net_.reset();
  if (leave_) leave_(together ? farewell : std::chrono::milliseconds(0));
  leave_ = nullptr;
}

void node_core::end_actors() {
  std::vector<caf::weak_actor_ptr> actors;
  {
    std::lock_guard guard(actors_mutex_);
    actors.swap(spawned_);
  }
  for (auto& weak : actors)
    if (auto actor = caf::actor_cast<caf::strong_actor_ptr>(weak))
      actor->enqueue(nullptr, caf::make_message_id(),
                     caf::make_message(caf::exit_msg{actor->address(), caf::exit_reason::kill}),
                     nullptr);
  // Those that the program made by CAF's own means are given a moment.
  auto& registry = host_->system().registry();
  const auto until = clock::now() + farewell;
  while (registry.running() > 0 && clock::now() < until) {
    completion never;
    engine_->wait(never, clock::now() + std::chrono::milliseconds(1));
  }
  if (auto left = registry.running(); left > 0) {
    log().warn("{}: {} actors did not end at the shutdown", self().name, left);
    host_->system().await_actors_before_shutdown(false);
  }
}

// ---- For people
// -------------------------------------------------------------------------------------

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
