#pragma once

#include <span>

#include "troupe/actors/future/combinators.hpp"
#include "troupe/actors/future/task.hpp"
#include "troupe/actors/future/wait_all.hpp"
#include "troupe/actors/node/debug_info.hpp"
#include "troupe/actors/node/member_event.hpp"
#include "troupe/actors/node/options.hpp"
#include "troupe/actors/node/worker_collectives.hpp"
#include "troupe/actors/operators/operator_call.hpp"
#include "troupe/actors/remote/request.hpp"
#include "troupe/actors/remote/spawn.hpp"
#include "troupe/actors/rpc/current_call.hpp"
#include "troupe/actors/rref/function_calls.hpp"
#include "troupe/actors/rref/rref.hpp"

namespace troupe {

class node_core;
class process_group;

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
                         " is not a member of the job");
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
/// same node. Thread-safe. If the last copy is dropped without `shutdown`, the node ends at once;
/// in one of its own handlers or continuations another thread ends it, and the process waits for
/// both.
class node {
public:
  explicit node(std::shared_ptr<node_core> core) : core_(std::move(core)) {}

  std::uint32_t rank() const { return self().id; }
  /// Members of the job.
  std::uint32_t world_size() const { return static_cast<std::uint32_t>(workers().size()); }
  const std::string& name() const { return self().name; }
  worker_list workers() const;

  /// This node, or the one named. Throws unknown_worker ("could not find destination").
  const worker_info& get_worker_info() const;
  const worker_info& get_worker_info(const destination& who) const;

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
  auto rpc_sync(const destination& to, Args&&... args) const {
    return rpc_async<F>(to, std::forward<Args>(args)..., detail::sync).get();
  }

  /// The same without waiting for the answer; when the callee's window is full, for room in it. At
  /// most once: a call is never sent again, unless a `retry` asks for it. The contents of tensors
  /// must stay as they are until the future is ready. An argument may be a future of the value: the
  /// call is made once it is there, on a thread of the node, and nothing waits for it (for room in
  /// the window, perhaps); its error becomes the call's.
  template <auto F, class... Args>
  auto rpc_async(const destination& to, Args&&... args) const {
    static_assert(!detail::target_for<F, void, std::remove_cvref_t<Args>...>::is_member,
                  "a member function is called on an rref: r.rpc_sync<&T::f>(x)");
    const bool sync = detail::options_in(args...).sync;
    return detail::awaited_later(detail::begin_call<F>(agent(), to, std::forward<Args>(args)...),
                                 sync);
  }

  /// The same with a lambda as an argument: `rpc_sync("w1", [](int x) { return x + 1; }, 2)`.
  template <detail::captureless F, class... Args>
  auto rpc_sync(const destination& to, F, Args&&... args) const {
    return rpc_sync<F{}>(to, std::forward<Args>(args)...);
  }
  template <detail::captureless F, class... Args>
  auto rpc_async(const destination& to, F, Args&&... args) const {
    return rpc_async<F{}>(to, std::forward<Args>(args)...);
  }

  // Anything else does not compile; the error says why.
  template <detail::deduced = detail::deduced(), detail::not_to_be_called F, class... Args>
  auto rpc_sync(const destination&, const F&, Args&&...) const {
    return detail::uncallable<F>();
  }
  template <detail::deduced = detail::deduced(), detail::not_to_be_called F, class... Args>
  auto rpc_async(const destination&, const F&, Args&&...) const {
    return detail::uncallable<F>();
  }
  template <detail::deduced = detail::deduced(), detail::not_to_be_called F, class... Args>
  auto remote(const destination&, const F&, Args&&...) const {
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
  auto rpc_sync(const destination& to, function_label name, Args&&... args) const {
    return rpc_async<Signature>(to, name, std::forward<Args>(args)..., detail::sync).get();
  }
  template <class Signature, class... Args>
  requires std::is_function_v<Signature>
  auto rpc_async(const destination& to, function_label name, Args&&... args) const {
    detail::check_no_retry<std::remove_cvref_t<Args>...>();
    const bool sync = detail::options_in(args...).sync;
    return detail::awaited_later(
        detail::begin_named_call<Signature>(agent(), to, name.text, std::forward<Args>(args)...),
        sync);
  }

  // A name that is no literal.
  template <class Signature, detail::no_literal Name, class... Args>
  requires std::is_function_v<Signature>
  auto rpc_sync(const destination&, const Name&, Args&&...) const {
    return detail::unnamable<Name>();
  }
  template <class Signature, detail::no_literal Name, class... Args>
  requires std::is_function_v<Signature>
  auto rpc_async(const destination&, const Name&, Args&&...) const {
    return detail::unnamable<Name>();
  }
  template <class Signature, detail::no_literal Name, class... Args>
  requires std::is_function_v<Signature>
  auto remote(const destination&, const Name&, Args&&...) const {
    return detail::unnamable<Name>();
  }

  /// Calls F on another node (or this one) and leaves the result there. Returns a reference at
  /// once; errors are thrown where it is used. A `timeout` limits the creation. Arguments as for
  /// `rpc_async`. Throws unknown_worker, not_initialized.
  template <auto F, class... Args>
  auto remote(const destination& to, Args&&... args) const {
    using target = detail::target_for<F, void, std::remove_cvref_t<Args>...>;
    static_assert(!target::is_member, "a member function is called on an rref: r.remote<&T::f>(x)");
    using answer = typename callable<F>::answer;
    if constexpr (!target::is_member &&
                  detail::call_check<target, void, std::remove_cvref_t<Args>...>::ok)
      return rref<answer>(detail::create<target, void>(agent(), agent().find(to), to.site(),
                                                       nullptr, std::forward<Args>(args)...));
    else
      return rref<answer>();  // does not compile: said above
  }
  template <detail::captureless F, class... Args>
  auto remote(const destination& to, F, Args&&... args) const {
    return remote<F{}>(to, std::forward<Args>(args)...);
  }
  template <class Signature, class... Args>
  requires std::is_function_v<Signature>
  auto remote(const destination& to, function_label name, Args&&... args) const {
    using named = detail::named_function<Signature>;
    detail::check_no_retry<std::remove_cvref_t<Args>...>();
    using answer = typename named::answer;
    if constexpr (detail::named_arguments_check<typename named::parameters,
                                                std::remove_cvref_t<Args>...>::ok) {
      return rref<answer>(detail::create_by_name<Signature>(
          agent(), agent().find(to), to.site(), name.text, std::forward<Args>(args)...));
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
            detail::create<target, void>(agent(), agent().find(to), to.site(), nullptr, args...));
      else
        return rref<T>();  // does not compile: said above
    }
    (std::make_index_sequence<sizeof...(Args) - detail::option_count<Args...>>());
  }

  /// A reference to a value of this node, which it owns from now on.
  template <class T>
  rref<std::decay_t<T>> make_rref(
      T&& value, const std::source_location& site = std::source_location::current()) const {
    return rref<std::decay_t<T>>(
        detail::own_value<std::decay_t<T>>(agent(), site, std::forward<T>(value)));
  }
  /// The same with one that is made in place: `make_rref(std::in_place_type<model>, 128, 10)`.
  template <class T, class... Args>
  rref<T> make_rref(std::in_place_type_t<T>, Args&&... args) const {
    return rref<T>(detail::own_value<T>(agent(), {}, std::forward<Args>(args)...));
  }

  /// The references that are here. After a graceful shutdown: those that the program still has.
  std::vector<rref_leak> rrefs() const;

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
    return detail::awaited_later(detail::call_operator(agent(), to, {name, args...}, how),
                                 how.sync);
  }
  /// Its result stays there, as what is asked for: `remote<at::Tensor>("ps", "aten::add", a, b)` is
  /// an rref<at::Tensor>, `remote<std::tuple<at::Tensor, at::Tensor>>` one of two values, and
  /// without a type it is an rref<op_result>, of whatever comes; see rref::as. When the operator
  /// returns something else, invalid_argument is thrown where the reference is used.
  template <class Result = op_result, class... Args>
  requires detail::is_kept_result<Result>
  auto remote(const destination& to, std::string_view name, const Args&... args) const {
    detail::check_no_retry<Args...>();
    return rref<Result>(detail::create_by_operator<Result>(agent(), to, {name, args...},
                                                           detail::options_in(args...)));
  }

  /// Makes an actor on this node: from a behaviour function and its arguments, or from an actor
  /// class.
  template <class F, class... Args>
  auto spawn(F f, Args&&... args) const {
    if constexpr (detail::behavior_check<F, std::decay_t<Args>...>::ok)
      return detail::spawn_function(spawner(), f, std::decay_t<Args>(std::forward<Args>(args))...);
  }
  template <class T, class... Args>
  requires std::is_base_of_v<caf::local_actor, T>
  auto spawn(Args&&... args) const {
    if constexpr (detail::actor_class_check<T, std::decay_t<Args>...>::ok)
      return detail::spawn_class<T>(spawner(), std::decay_t<Args>(std::forward<Args>(args))...);
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

  /// Ends this node. Graceful: blocks until all nodes have called `shutdown` and no work remains,
  /// within `limit` (0: without one; rpc_timeout when it passes, and the node still ends).
  /// Nodes that were lost are not waited for: the log names them, and if calls of the program,
  /// other than those with a `retry`, were lost with one, or left by it, while this waited for
  /// them, it throws peer_lost when all the rest is done and the node has ended; or else
  /// leaked_rref_error, if rpc_options::on_leaked_rref asks for that. Otherwise at once: calls
  /// under way fail, here and at their callers.
  void shutdown(bool graceful = true, std::chrono::milliseconds limit = {}) const;

  /// Leaves the job, which goes on: waits until what this node has asked for is answered and the
  /// other nodes have been notified, within `limit` (0: without one), and ends the node. Others
  /// find its actors ended, and calls to it fail with peer_lost. Throws rpc_timeout (the node
  /// still ends), and invalid_argument on the leader's node, which can only leave last.
  void leave(std::chrono::milliseconds limit = {}) const;

  /// Ready after `time`; no thread waits for it. Fails with not_initialized if the node ends
  /// before.
  future<void> sleep_for(std::chrono::nanoseconds time) const { return agent().sleep_for(time); }

  /// Waits until all nodes of these names, this one included, have called it with the same names;
  /// empty: until all members have. The node of the smallest name leads. Several threads of a node
  /// may call it at once: the nth call of a node meets the nth of the others. The limit is as for
  /// calls; the shortest one of those who have come ends it for all, with rpc_timeout ("Followers
  /// [w2, w3] timed out in _barrier after 5.00 seconds"), and one whose leader does not answer ends
  /// a second later. Throws peer_lost if a node is lost before it has come, invalid_argument,
  /// unknown_worker, not_initialized.
  void barrier(const std::vector<std::string>& names = {},
               const std::optional<timeout>& limit = {}) const;

  /// The same, and returns the objects that they have given, by name: any type that can be sent.
  /// Throws type_mismatch as well, if they are of different types, and encode_error.
  template <class T>
  std::map<std::string, T> all_gather(const std::vector<std::string>& names, const T& object,
                                      const std::optional<timeout>& limit = {}) const {
    return detail::gather_among(agent(), "_all_gather", names, object, limit);
  }

  /// The process group of all nodes that began the job together: its ranks are theirs. Does not
  /// wait; its first collective waits for all. <troupe/collectives.hpp> has what can be done with
  /// it. Throws not_initialized, and invalid_argument on a node that has joined later.
  process_group world() const;

  /// Is this node a member: neither shut down nor fenced, and the job still runs?
  bool in_job() const;

  /// The epoch of the membership: grows each time that nodes join, leave or die.
  std::uint32_t epoch() const;

  /// Notifies `watcher` of each change of the membership from now on.
  void watch_members(const member_watcher& watcher) const;

  /// For calls made from now on that name no limit; 0: none.
  void set_rpc_timeout(std::chrono::milliseconds limit) const;
  std::chrono::milliseconds rpc_timeout() const;

  /// How each peer is reached, and why.
  std::vector<transport::route> routes() const;

  /// How tensors reach another node, by kind and size, and why so; the smallest first. Throws
  /// unknown_worker, and invalid_argument for this node itself, which gets copies.
  std::vector<transport::tensor_way> transport_plan(const destination& to) const;

  troupe::debug_info debug_info() const;

  /// CAF's actor system of this node, for CAF's own means (`caf::scoped_actor`, groups). What is
  /// made with it must go before the node ends. CAF's logger stays with a thread that has used it,
  /// and the shutdown waits a second for such threads to end before it leaves CAF's system behind.
  caf::actor_system& system() const;

  /// What is behind it, for other modules. Throws not_initialized when there is nothing.
  node_core& core() const {
    if (!core_) throw not_initialized("RPC has not been initialized. Call init_rpc first.");
    return *core_;
  }

private:
  const worker_info& self() const;

  // For an open node. Throw not_initialized.
  rpc_agent& agent() const;
  actor_spawner& spawner() const;

  std::shared_ptr<node_core> core_;
};

namespace detail {

/// The node that `agent` is a part of.
node node_of(const std::shared_ptr<rpc_agent>& agent);

}  // namespace detail

/// Joins the job and returns this process's node, once all nodes are there. Several nodes may live
/// in one process. Throws rendezvous_error, transport_error, invalid_argument; the other founders
/// get the reason; notifying them takes at most 3 s.
node init_rpc(const rpc_options& options = {});

/// The node whose handler or function the caller runs in; it does not keep the node alive. Throws
/// not_initialized elsewhere: threads of the program take a copy of what `init_rpc` has returned.
node this_node();

/// node::sleep_for of this_node(): `co_await troupe::sleep_for(10ms)` in a coroutine that began in
/// a handler. Throws not_initialized elsewhere.
inline future<void> sleep_for(std::chrono::nanoseconds time) { return this_node().sleep_for(time); }

/// Nodes that live in this process alone, on a network without a wire; for tests and for trying
/// things.
std::vector<node> local_nodes(const std::vector<std::string>& names,
                              const rpc_options& options = {});

}  // namespace troupe
