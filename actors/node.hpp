#pragma once

#include <span>

#include "actors/current.hpp"
#include "actors/request.hpp"
#include "actors/spawn.hpp"
#include "actors/task.hpp"
#include "actors/when.hpp"

namespace troupe {

/// The members of the job, by rank, as they were when it was asked for.
class worker_list {
public:
  worker_list(std::shared_ptr<const std::vector<worker_info>> all, std::uint32_t self)
      : all_(std::move(all)), self_(self) {}

  auto begin() const { return all_->begin(); }
  auto end() const { return all_->end(); }
  std::size_t size() const { return all_->size(); }

  /// The member at `rank`. Throws unknown_worker.
  const worker_info& operator[](std::size_t rank) const {
    for (const auto& worker : *all_)
      if (worker.id == rank) return worker;
    throw unknown_worker("could not find destination: rank " + std::to_string(rank) +
                         " is no member of the job");
  }

  /// All but this node.
  std::vector<worker_info> others() const {
    std::vector<worker_info> out;
    for (const auto& worker : *all_)
      if (worker.id != self_) out.push_back(worker);
    return out;
  }

private:
  std::shared_ptr<const std::vector<worker_info>> all_;
  std::uint32_t self_;
};

namespace detail {

/// The future of a call: reads the value when the answer comes.
template <class T>
class call_state final : public remote_answer_state<T> {
public:
  call_state(node_core& node, peer& callee) : remote_answer_state<T>(node.actors(), callee) {}

  void on_value(opened_envelope& answer) noexcept override {
    if constexpr (std::is_void_v<T>)
      this->set_value();
    else
      this->take_apart(answer, [this](decoder& in) {
        auto value = in.get<T>();
        in.expect_end();
        this->set_value(std::move(value));
      });
  }
};

template <class Arguments, std::size_t I, class T>
void write_argument(encoder& out, const T& x) {
  if constexpr (I < std::tuple_size_v<Arguments>) {
    using wanted = std::tuple_element_t<I, Arguments>;
    static_assert(std::is_convertible_v<const T&, wanted>,
                  "an argument of the call does not convert to the function's parameter");
    if constexpr (std::is_same_v<T, wanted>)
      out.put(x);
    else
      out.put(static_cast<const wanted&>(static_cast<wanted>(x)));
  }
}

}  // namespace detail

/// A member of a job: calls functions of other nodes, makes actors here and there. Copies are the
/// same node. Thread-safe. The last copy that goes without `shutdown` ends the node at once. In one
/// of the node's own handlers or continuations another thread does so, while the handler goes on;
/// the process does not end before both are done.
class node {
public:
  explicit node(std::shared_ptr<node_core> core) : core_(std::move(core)) {}

  std::uint32_t rank() const { return core().self().id; }
  /// Members of the job.
  std::uint32_t world_size() const { return static_cast<std::uint32_t>(core().workers()->size()); }
  const std::string& name() const { return core().self().name; }
  worker_list workers() const { return {core().workers(), rank()}; }

  /// This node, or the one named. Throws unknown_worker ("could not find destination").
  const worker_info& get_worker_info() const { return open().self(); }
  const worker_info& get_worker_info(const destination& who) const { return open().find(who).info; }

  /// Calls F on another node (or this one) and returns its value. Arguments are values: they are
  /// copied to the callee, tensors without a copy in between. A `timeout` and
  /// `no_wait` may follow the arguments. Throws remote_error (what F threw), rpc_timeout,
  /// peer_lost, overloaded_error, unknown_worker, not_initialized.
  template <auto F, class... Args>
  auto rpc_sync(const destination& to, const Args&... args) const {
    return rpc_async<F>(to, args...).get();
  }

  /// The same without waiting for the answer; when the callee's window is full, for room in it. At
  /// most once: a call is never sent again. The contents of tensors must stay as they are until the
  /// future is ready. An argument may be a future of the value: the call is made once it is there,
  /// on a thread of the node, and nothing waits for it (for room in the window, perhaps); its error
  /// becomes the call's.
  template <auto F, class... Args>
  auto rpc_async(const destination& to, const Args&... args) const {
    if constexpr ((detail::is_future<Args> || ...))
      return call_when_ready<F>(to, std::index_sequence_for<Args...>(), args...);
    else
      return call_now<F>(to, args...);
  }

  /// Makes an actor on this node: from a behaviour function and its arguments, or from an actor
  /// class.
  template <class F, class... Args>
  auto spawn(F f, Args&&... args) const {
    return detail::spawn_function(open(), f, std::decay_t<Args>(std::forward<Args>(args))...);
  }
  template <class T, class... Args>
  requires std::is_base_of_v<caf::local_actor, T>
  auto spawn(Args&&... args) const {
    return detail::spawn_class<T>(open(), std::decay_t<Args>(std::forward<Args>(args))...);
  }

  /// Makes an actor on any node, from a behaviour function: `spawn_on<observe>("w1", policy,
  /// seed)`. Returns its handle, which works like that of a local actor. Throws like rpc_sync. The
  /// function runs a moment later, on a thread of that node; when it throws, the actor ends, and
  /// that node's log says why. (What the constructor of an actor class throws is thrown here.)
  template <auto F, class... Args>
  auto spawn_on(const destination& where, const Args&... args) const {
    using given = typename detail::signature<decltype(F)>::arguments;
    using maker = detail::remote_spawn<F, typename detail::without_self<given>::type>;
    return rpc_sync<&maker::here>(where, args...);
  }

  /// The same from an actor class and the arguments of its constructor.
  template <class T, class... Args>
  requires std::is_base_of_v<caf::local_actor, T>
  auto spawn_on(const destination& where, const Args&... args) const {
    using maker = detail::remote_make<
        T, typename caf::detail::implicit_conversions<std::decay_t<Args>>::type...>;
    return rpc_sync<&maker::here>(where, args...);
  }

  /// Ends this node. Graceful: blocks until all nodes have come here and nothing is left to be done
  /// anywhere, within `limit` (0: without one; rpc_timeout when it passes, and the node ends all
  /// the same). Otherwise at once: calls under way fail, here and at their callers.
  void shutdown(bool graceful = true, std::chrono::milliseconds limit = {}) const {
    core().shutdown(graceful, limit);
  }

  /// Leaves the job, which goes on: waits until what this node has asked for is answered and the
  /// others have been told, within `limit` (0: without one), and ends the node. Others find its
  /// actors ended, and calls to it fail with peer_lost. Throws rpc_timeout (the node ends all the
  /// same), and invalid_argument on the leader's node, which can only leave last.
  void leave(std::chrono::milliseconds limit = {}) const { core().leave(limit); }

  /// Does this node belong to its job: neither shut down nor shut out, and the job goes on?
  bool in_job() const { return core().is_open(); }

  /// The epoch of the membership: grows each time that nodes join, leave or die.
  std::uint32_t epoch() const { return core().epoch(); }

  /// From now on `watcher` hears of each change in who belongs to the job.
  void watch_members(const member_watcher& watcher) const { core().watch_members(watcher); }

  /// For calls made from now on that name no limit; 0: none.
  void set_rpc_timeout(std::chrono::milliseconds limit) const { core().set_rpc_timeout(limit); }
  std::chrono::milliseconds rpc_timeout() const { return core().rpc_timeout(); }

  /// How each peer is reached, and why.
  std::vector<transport::route> routes() const { return open().routes(); }

  troupe::debug_info debug_info() const { return open().info(); }

  /// CAF's actor system of this node, for CAF's own means (`caf::scoped_actor`, groups). What is
  /// made with it must go before the node ends. CAF's logger stays with a thread that has used it,
  /// and the shutdown waits a second for such threads to end before it leaves CAF's system behind.
  caf::actor_system& system() const { return open().system(); }

private:
  node_core& core() const {
    if (!core_) throw not_initialized("RPC has not been initialized. Call init_rpc first.");
    return *core_;
  }
  node_core& open() const {
    core().check_open();
    return *core_;
  }

  template <auto F, class... Args>
  future<typename callable<F>::answer> call_now(const destination& to, const Args&... args) const {
    using target = callable<F>;
    using answer = typename target::answer;
    static_assert(sizeof...(Args) - detail::option_count<Args...> == target::function::arity,
                  "the call has too few or too many arguments for the function");
    (void)target::registered;
    open();
    auto& callee = core().find(to);
    auto state = std::make_shared<detail::call_state<answer>>(core(), callee);
    core().call(
        callee, target::hash, target::name, state,
        detail::options_in(args...), [&]<std::size_t... I>(std::index_sequence<I...>) {
          return [&](encoder& out) {
            (detail::write_argument<typename target::arguments, I>(out, args), ...);
          };
        }(std::index_sequence_for<Args...>()));
    return future<answer>(std::move(state));
  }

  // Copied as the function wants them: what they refer to may be gone when the call is made.
  template <auto F, std::size_t I, class T>
  static auto keep(const T& x) {
    if constexpr (detail::is_future<T> || I >= callable<F>::function::arity) {
      return x;
    } else {
      static_assert(
          std::is_convertible_v<const T&, std::tuple_element_t<I, typename callable<F>::arguments>>,
          "an argument of the call does not convert to the function's parameter");
      return static_cast<std::tuple_element_t<I, typename callable<F>::arguments>>(x);
    }
  }

  template <class T>
  static const T& value_of(const T& x) {
    return x;
  }
  template <class T>
  static const T& value_of(const future<T>& x) {
    return *x.state().value();
  }

  template <auto F, std::size_t... I, class... Args>
  auto call_when_ready(const destination& to, std::index_sequence<I...>,
                       const Args&... args) const {
    using answer = typename callable<F>::answer;
    open().find(to);
    std::vector<std::shared_ptr<detail::future_core>> awaited;
    const auto await = [&](const auto& x) {
      if constexpr (detail::is_future<std::decay_t<decltype(x)>>) {
        x.state();  // throws when it belongs to no call
        awaited.push_back(x.shared());
      }
    };
    (await(args), ...);
    const auto driver = core().actors().driver();
    auto out = std::make_shared<detail::future_state<answer>>(driver);
    auto call = [awaited, out, to, weak = core().weak_from_this(),
                 given = std::make_tuple(keep<F, I>(args)...)] {
      try {
        if (const auto why = detail::first_failure(awaited)) std::rethrow_exception(why);
        const auto core = weak.lock();
        if (!core) throw not_initialized("the node has been shut down");
        const auto made = node(core).call_now<F>(to, value_of(std::get<I>(given))...);
        made.state().when_ready(detail::make_continuation([out, from = made.shared()] {
          if (from->failure())
            out->set_exception(from->failure());
          else if constexpr (std::is_void_v<answer>)
            out->set_value();
          else
            out->set_value(std::move(*from->value()));
        }));
      } catch (...) {
        out->set_exception(std::current_exception());
      }
    };
    detail::when_all_ready(
        awaited, [driver, call = std::move(call)] { detail::run_on_thread_of(*driver, call); });
    return future<answer>(out);
  }

  std::shared_ptr<node_core> core_;
};

/// Joins the job and returns this process's node, once all nodes are there. Several nodes may live
/// in one process. Throws rendezvous_error, transport_error, invalid_argument.
node init_rpc(const rpc_options& options = {});

/// The node whose handler or function the caller runs in; it does not keep the node alive. Throws
/// not_initialized elsewhere.
node this_node();

/// Nodes that live in this process alone, on a network without a wire; for tests and for trying
/// things.
std::vector<node> local_nodes(const std::vector<std::string>& names,
                              const rpc_options& options = {});

}  // namespace troupe
