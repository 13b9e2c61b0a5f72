#pragma once

#include <span>

#include "troupe/actors/rpc/current_call.hpp"
#include "troupe/actors/rref/named_function.hpp"
#include "troupe/actors/operators/operator_call.hpp"
#include "troupe/actors/remote/request.hpp"
#include "troupe/actors/rref/rref.hpp"
#include "troupe/actors/remote/spawn.hpp"
#include "troupe/actors/future/task.hpp"
#include "troupe/actors/future/wait_all.hpp"
#include "troupe/actors/future/combinators.hpp"

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

/// The name of a function that TROUPE_FUNCTION has registered: a literal.
struct function_label {
  consteval function_label(const char* name) : text(name) {}
  std::string_view text;
};

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

  // Overloaded functions do not compile: the class that is wanted says why, before anything else.
  template <name_the_overload_with_static_cast, class... Args>
  void rpc_sync(const destination&, const Args&...) const = delete;
  template <name_the_overload_with_static_cast, class... Args>
  void rpc_async(const destination&, const Args&...) const = delete;
  template <name_the_overload_with_static_cast, class... Args>
  void remote(const destination&, const Args&...) const = delete;
  template <name_the_overload_with_static_cast, class... Args>
  void spawn_on(const destination&, const Args&...) const = delete;

  /// Calls F, a function or a lambda without captures, on another node (or this one) and returns
  /// its value. Arguments are values: they are copied to the callee, tensors without a copy in
  /// between. Where F wants a value, an rref of one may be given: the callee fetches it from its
  /// owner, and this node sees nothing of it. A `timeout`, a `priority` and `no_wait` may
  /// follow the arguments, the last of which may be left out where TROUPE_DEFAULTS says what they
  /// are. Throws remote_error (what F threw), rpc_timeout, peer_lost, overloaded_error,
  /// unknown_worker, not_initialized.
  template <auto F, class... Args>
  auto rpc_sync(const destination& to, const Args&... args) const {
    return rpc_async<F>(to, args..., detail::sync).get();
  }

  /// The same without waiting for the answer; when the callee's window is full, for room in it. At
  /// most once: a call is never sent again, unless a `retry` asks for it. The contents of tensors
  /// must stay as they are until the future is ready. An argument may be a future of the value: the
  /// call is made once it is there, on a thread of the node, and nothing waits for it (for room in
  /// the window, perhaps); its error becomes the call's.
  template <auto F, class... Args>
  auto rpc_async(const destination& to, const Args&... args) const {
    static_assert(!detail::target_for<F, void, Args...>::is_member,
                  "a member function is called on an rref: r.rpc_sync<&T::f>(x)");
    return detail::awaited_later(begin_call<F>(to, args...), detail::options_in(args...));
  }

  /// The same with a lambda as an argument: `rpc_sync("w1", [](int x) { return x + 1; }, 2)`.
  template <detail::captureless F, class... Args>
  auto rpc_sync(const destination& to, F, const Args&... args) const {
    return rpc_sync<F{}>(to, args...);
  }
  template <detail::captureless F, class... Args>
  auto rpc_async(const destination& to, F, const Args&... args) const {
    return rpc_async<F{}>(to, args...);
  }

  // Whatever else stands there does not compile, and is told why not.
  template <detail::deduced = detail::deduced(), detail::not_to_be_called F, class... Args>
  auto rpc_sync(const destination&, const F&, const Args&...) const {
    return detail::uncallable<F>();
  }
  template <detail::deduced = detail::deduced(), detail::not_to_be_called F, class... Args>
  auto rpc_async(const destination&, const F&, const Args&...) const {
    return detail::uncallable<F>();
  }
  template <detail::deduced = detail::deduced(), detail::not_to_be_called F, class... Args>
  auto remote(const destination&, const F&, const Args&...) const {
    return detail::uncallable<F>();
  }
  template <detail::deduced = detail::deduced(), class F, class... Args>
  auto spawn_on(const destination&, const F&, const Args&...) const {
    return detail::unspawnable<F>();
  }

  /// The same with a function that the callee's program has registered by a name (TROUPE_FUNCTION),
  /// which this program need not have: `rpc_sync<int(int, int)>("w1", "add", 1, 2)`. The name is a
  /// literal. unknown_function when the callee has none of that name and type. An rref may stand
  /// for a value of just its type, and a future for a value.
  template <class Signature, class... Args>
  requires std::is_function_v<Signature>
  auto rpc_sync(const destination& to, function_label name, const Args&... args) const {
    return rpc_async<Signature>(to, name, args..., detail::sync).get();
  }
  template <class Signature, class... Args>
  requires std::is_function_v<Signature>
  auto rpc_async(const destination& to, function_label name, const Args&... args) const {
    detail::check_no_retry<Args...>();
    return detail::awaited_later(begin_named_call<Signature>(to, name.text, args...),
                                 detail::options_in(args...));
  }

  // A name that is no literal.
  template <class Signature, detail::no_literal Name, class... Args>
  requires std::is_function_v<Signature>
  auto rpc_sync(const destination&, const Name&, const Args&...) const {
    return detail::unnamable<Name>();
  }
  template <class Signature, detail::no_literal Name, class... Args>
  requires std::is_function_v<Signature>
  auto rpc_async(const destination&, const Name&, const Args&...) const {
    return detail::unnamable<Name>();
  }
  template <class Signature, detail::no_literal Name, class... Args>
  requires std::is_function_v<Signature>
  auto remote(const destination&, const Name&, const Args&...) const {
    return detail::unnamable<Name>();
  }

  /// Calls F on another node (or this one), where the result stays; the reference to it is there at
  /// once. What goes wrong is thrown where the reference is used. The limit is for the creation.
  /// Arguments as for `rpc_async`. Throws unknown_worker, not_initialized.
  template <auto F, class... Args>
  auto remote(const destination& to, const Args&... args) const {
    using target = detail::target_for<F, void, Args...>;
    static_assert(!target::is_member, "a member function is called on an rref: r.remote<&T::f>(x)");
    using answer = typename callable<F>::answer;
    if constexpr (!target::is_member && detail::call_check<target, void, Args...>::ok)
      return rref<answer>(
          detail::create<target, void>(open(), core().find(to), to.site(), nullptr, args...));
    else
      return rref<answer>();  // does not compile: said above
  }
  template <detail::captureless F, class... Args>
  auto remote(const destination& to, F, const Args&... args) const {
    return remote<F{}>(to, args...);
  }
  template <class Signature, class... Args>
  requires std::is_function_v<Signature>
  auto remote(const destination& to, function_label name, const Args&... args) const {
    using named = detail::named_function<Signature>;
    detail::check_no_retry<Args...>();
    using answer = typename named::answer;
    if constexpr (detail::named_arguments_check<typename named::parameters, Args...>::ok) {
      auto made = open().actors().rrefs().expect(core().find(to), detail::value_type::of<answer>(),
                                                 to.site());
      detail::send_creation_by_name<Signature>(core(), made, name.text, args...);
      return rref<answer>(std::move(made));
    } else {
      return rref<answer>();  // does not compile: said above
    }
  }

  /// Constructs a T on another node (or this one): `remote<torch::nn::Linear>("ps", 128, 10)`.
  template <class T, class... Args>
  requires(!std::is_function_v<T> && !std::is_base_of_v<caf::local_actor, T> &&
           !detail::names_operator<T, Args...>) auto remote(const destination& to,
                                                            const Args&... args) const {
    using check = detail::construction_check<
        T, typename caf::detail::implicit_conversions<std::decay_t<Args>>::type...>;
    return [&]<std::size_t... I>([[maybe_unused]] std::index_sequence<I...> places) {
      using target = detail::constructor_target<
          T, typename caf::detail::implicit_conversions<
                 std::decay_t<std::tuple_element_t<I, std::tuple<Args...>>>>::type...>;
      if constexpr (check::ok)
        return rref<T>(
            detail::create<target, void>(open(), core().find(to), to.site(), nullptr, args...));
      else
        return rref<T>();  // does not compile: said above
    }
    (std::make_index_sequence<sizeof...(Args) - detail::option_count<Args...>>());
  }

  /// A reference to a value of this node, which it owns from now on.
  template <class T>
  rref<std::decay_t<T>> make_rref(
      T&& value, const std::source_location& site = std::source_location::current()) const {
    return own<std::decay_t<T>>(site, std::forward<T>(value));
  }
  /// The same with one that is made in place: `make_rref(std::in_place_type<model>, 128, 10)`.
  template <class T, class... Args>
  rref<T> make_rref(std::in_place_type_t<T>, Args&&... args) const {
    return own<T>({}, std::forward<Args>(args)...);
  }

  /// The references that are here. After a graceful shutdown: those that the program still has.
  std::vector<rref_leak> rrefs() const { return core().actors().rrefs().list(); }

  /// The same for an operator of libtorch, "aten::add.Tensor", or "aten::add" for the overload that
  /// fits the arguments, among which kw("alpha", 2.0) has a name. An argument may be an rref or a
  /// future of a value, as for functions. Throws unknown_function as well, and invalid_argument
  /// when no overload fits.
  template <class... Args>
  op_result rpc_sync(const destination& to, std::string_view name, const Args&... args) const {
    return rpc_async(to, name, args..., detail::sync).get();
  }
  template <class... Args>
  future<op_result> rpc_async(const destination& to, std::string_view name,
                              const Args&... args) const {
    detail::check_no_retry<Args...>();
    const auto how = detail::options_in(args...);
    return detail::awaited_later(detail::call_operator(open(), to, {name, args...}, how), how);
  }
  /// Its result stays there, as what is asked for: `remote<at::Tensor>("ps", "aten::add", a, b)` is
  /// an rref<at::Tensor>, `remote<std::tuple<at::Tensor, at::Tensor>>` one of two values, and
  /// without a type it is an rref<op_result>, of whatever comes; see rref::as. When the operator
  /// returns something else, invalid_argument is thrown where the reference is used.
  template <class Result = op_result, class... Args>
  requires detail::is_kept_result<Result>
  auto remote(const destination& to, std::string_view name, const Args&... args) const {
    detail::check_no_retry<Args...>();
    return rref<Result>(detail::create_by_operator<Result>(open(), to, {name, args...},
                                                           detail::options_in(args...)));
  }

  /// Makes an actor on this node: from a behaviour function and its arguments, or from an actor
  /// class.
  template <class F, class... Args>
  auto spawn(F f, Args&&... args) const {
    if constexpr (detail::behavior_check<F, std::decay_t<Args>...>::ok)
      return detail::spawn_function(open(), f, std::decay_t<Args>(std::forward<Args>(args))...);
  }
  template <class T, class... Args>
  requires std::is_base_of_v<caf::local_actor, T>
  auto spawn(Args&&... args) const {
    if constexpr (detail::actor_class_check<T, std::decay_t<Args>...>::ok)
      return detail::spawn_class<T>(open(), std::decay_t<Args>(std::forward<Args>(args))...);
  }

  /// Makes an actor on any node, from a behaviour function: `spawn_on<observe>("w1", policy,
  /// seed)`. Returns its handle, which works like that of a local actor. Throws like rpc_sync. The
  /// function runs a moment later, on a thread of that node; when it throws, the actor ends, and
  /// that node's log says why. (What the constructor of an actor class throws is thrown here.)
  template <auto F, class... Args>
  auto spawn_on(const destination& where, const Args&... args) const {
    using function = std::remove_const_t<decltype(F)>;
    using given = typename detail::signature<function>::arguments;
    using rest = typename detail::without_self<given>::type;
    if constexpr (detail::behavior_check_with<function, rest>::ok)
      return rpc_sync<&detail::remote_spawn<F, rest>::here>(where, args...);
  }

  /// The same from an actor class and the arguments of its constructor.
  template <class T, class... Args>
  requires std::is_base_of_v<caf::local_actor, T>
  auto spawn_on(const destination& where, const Args&... args) const {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      using all = std::tuple<std::decay_t<Args>...>;
      using check = detail::actor_class_check<
          T, typename caf::detail::implicit_conversions<std::tuple_element_t<I, all>>::type...>;
      using maker = detail::remote_make<
          T, typename caf::detail::implicit_conversions<std::tuple_element_t<I, all>>::type...>;
      if constexpr (check::ok) return rpc_sync<&maker::here>(where, args...);
    }
    (std::make_index_sequence<sizeof...(Args) - detail::option_count<Args...>>());
  }

  /// Ends this node. Graceful: blocks until all nodes have come here and nothing is left to be done
  /// anywhere, within `limit` (0: without one; rpc_timeout when it passes, and the node ends all
  /// the same). Nodes that were lost are not waited for: the log names them, and if calls of the
  /// program, other than those with a `retry`, were lost with one, or left by it, while this waited
  /// for them, it throws peer_lost when all the rest is done and the node has ended; or else
  /// leaked_rref_error, if rpc_options::on_leaked_rref asks for that. Otherwise at once: calls
  /// under way fail, here and at their callers.
  void shutdown(bool graceful = true, std::chrono::milliseconds limit = {}) const {
    core().shutdown(graceful, limit);
  }

  /// Leaves the job, which goes on: waits until what this node has asked for is answered and the
  /// others have been told, within `limit` (0: without one), and ends the node. Others find its
  /// actors ended, and calls to it fail with peer_lost. Throws rpc_timeout (the node ends all the
  /// same), and invalid_argument on the leader's node, which can only leave last.
  void leave(std::chrono::milliseconds limit = {}) const { core().leave(limit); }

  /// A future that is ready after so long, for which no thread waits: `co_await` it. Fails with
  /// not_initialized when the node ends before.
  future<void> sleep_for(std::chrono::nanoseconds time) const { return open().sleep_for(time); }

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

  /// What is behind it, for other rooms. Throws not_initialized when there is nothing.
  node_core& core() const {
    if (!core_) throw not_initialized("RPC has not been initialized. Call init_rpc first.");
    return *core_;
  }

private:
  node_core& open() const {
    core().check_open();
    return *core_;
  }

  template <auto F, class... Args>
  auto begin_call(const destination& to, const Args&... args) const {
    using target = detail::target_for<F, void, Args...>;
    using check = detail::call_check<target, void, Args...>;
    if constexpr (detail::asks_for_retry<Args...>)
      static_assert(is_idempotent<F>,
                    "retry may run a function twice: say that this one is made for it, with "
                    "TROUPE_IDEMPOTENT(&f) outside of all namespaces and before the call");
    using parameters = typename target::template parameters<void>;
    using answer = typename callable<F>::answer;
    auto& callee = open().find(to);
    if constexpr (target::is_member || !check::ok)
      return future<answer>();  // does not compile: said above
    else if constexpr ((detail::is_future<Args> || ...))
      return when_values_come<answer, parameters>(
          callee, target::name,
          [to](const node& here, const auto&... xs) { return here.begin_call<F>(to, xs...); },
          args...);
    else if constexpr (detail::asks_for_retry<Args...>)
      return call_again<F>(to, args...);
    else
      return call_once<F>(callee, args...);
  }

  template <class Signature, class... Args>
  auto begin_named_call(const destination& to, std::string_view name, const Args&... args) const {
    using named = detail::named_function<Signature>;
    using parameters = typename named::parameters;
    using answer = typename named::answer;
    auto& callee = open().find(to);
    if constexpr (!detail::named_arguments_check<parameters, Args...>::ok) {
      return future<answer>();  // does not compile: said above
    } else if constexpr ((detail::is_future<Args> || ...)) {
      return when_values_come<answer, parameters>(
          callee, name,
          [to, name](const node& here, const auto&... xs) {
            return here.begin_named_call<Signature>(to, name, xs...);
          },
          args...);
    } else {
      using wire = typename named::template wire<Args...>;
      return send_call<answer, wire>(callee, named::template hash<wire>(name), name, args...);
    }
  }

  template <class Answer, class Wire, class... Args>
  future<Answer> send_call(peer& callee, std::uint64_t hash, std::string_view name,
                           const Args&... args) const {
    auto state = std::make_shared<detail::call_state<Answer>>(core(), callee, name,
                                                              detail::options_in(args...));
    state->sent_as(core().call(callee, hash, name, state, detail::options_in(args...),
                               [&](encoder& out, handle_scope& handles) {
                                 detail::write_arguments<Wire>(out, handles, args...);
                               }));
    return future<Answer>(std::move(state));
  }

  // Calls `make` with this node and the arguments when those that are futures have their values.
  template <class Answer, class Parameters, class Make, class... Args>
  future<Answer> when_values_come(const peer& callee, std::string_view name, Make make,
                                  const Args&... args) const {
    auto out = std::make_shared<detail::relayed_state<Answer>>(
        core().driver(), detail::cancelled_call(callee.info.name, name));
    detail::when_given<Parameters>(
        core(),
        [out, make = std::move(make)](node_core& here, const auto&... xs) {
          if (out->ready()) return;  // cancelled
          out->take_from(make(node(here.shared_from_this()), xs...).shared());
        },
        [out](std::exception_ptr why) { out->set_exception(std::move(why)); }, args...);
    return future<Answer>(std::move(out));
  }

  template <class T, class... Args>
  rref<T> own(const std::source_location& site, Args&&... args) const {
    auto state = std::make_shared<detail::value_state<T>>(open().driver());
    state->set_value(std::forward<Args>(args)...);
    if (state->failure()) std::rethrow_exception(state->failure());
    return rref<T>(core().actors().rrefs().own(state, detail::value_type::of<T>(), site));
  }

  template <auto F, class... Args>
  auto call_once(peer& callee, const Args&... args) const {
    using target = detail::target_for<F, void, Args...>;
    using parameters = typename target::template parameters<void>;
    using wire = detail::wire_for<parameters, Args...>;
    using call = std::conditional_t<std::is_same_v<wire, typename callable<F>::arguments>,
                                    callable<F>, detail::invocation<target, void, false, wire>>;
    (void)call::registered;
    return send_call<typename callable<F>::answer, wire>(callee, call::hash(), call::name, args...);
  }

  template <auto F, class... Args>
  auto call_again(const destination& to, const Args&... args) const {
    using answer = typename callable<F>::answer;
    using parameters = typename detail::target_for<F, void, Args...>::template parameters<void>;
    auto why = detail::cancelled_call(open().find(to).info.name, callable<F>::name);
    auto given = [&]<std::size_t... I>(std::index_sequence<I...>) {
      return std::make_tuple(detail::keep_argument<parameters, I>(args)...);
    }
    (std::index_sequence_for<Args...>());
    auto out = std::make_shared<detail::retried_state<answer>>(
        core().driver(), std::move(why),
        std::make_unique<detail::retry_plan>(detail::retry_in(args...), core(), to,
                                             callable<F>::name),
        [to, given = std::move(given)](std::shared_ptr<node_core> core) {
          const node here(std::move(core));
          auto& callee = here.open().find(to);
          return std::apply(
              [&](const auto&... xs) { return here.call_once<F>(callee, xs...).shared(); }, given);
        });
    out->go();
    return future<answer>(std::move(out));
  }

  std::shared_ptr<node_core> core_;
};

/// Joins the job and returns this process's node, once all nodes are there. Several nodes may live
/// in one process. Throws rendezvous_error, transport_error, invalid_argument; the other founders
/// hear why this one does not come, for which it looks for them for three seconds at most.
node init_rpc(const rpc_options& options = {});

/// The node whose handler or function the caller runs in; it does not keep the node alive. Throws
/// not_initialized elsewhere: threads of the program take a copy of what `init_rpc` has returned.
node this_node();

/// Of this node: `co_await troupe::sleep_for(10ms)` in a coroutine that began in a handler. Throws
/// not_initialized elsewhere.
inline future<void> sleep_for(std::chrono::nanoseconds time) { return this_node().sleep_for(time); }

/// Nodes that live in this process alone, on a network without a wire; for tests and for trying
/// things.
std::vector<node> local_nodes(const std::vector<std::string>& names,
                              const rpc_options& options = {});

}  // namespace troupe
