#pragma once

#include "troupe/actors/rref/creation.hpp"
#include "troupe/actors/remote/spawn.hpp"
#include "troupe/actors/future/wait_all.hpp"

namespace troupe {

template <class T>
class rref;

/// What a node knows of a reference of its own.
enum class rref_status : std::uint8_t {
  pending,    ///< its value is being made, or the owner has yet to confirm it
  confirmed,  ///< the owner knows of it
  failed,     ///< it refers to nothing: its creation has failed, or its owner has denied it
};

/// What an owner answers with the value.
struct get_value {};
TROUPE_MESSAGE_EXTERN(get_value)

/// The actor that owns a value which is sent: it lives while the value has a reference anywhere, or
/// the actor a handle; who monitors it hears of the value's end.
template <class T>
using rref_owner = actor<answers<get_value, T>>;

namespace detail {

template <class T>
rref_owner<T> own_actor(rref<T> of);

/// A future of a copy of the value that has, or gets, this state.
template <class T>
future<T> copy_of(const std::shared_ptr<future_state<T>>& state) {
  auto out = std::make_shared<future_state<T>>(state->driver());
  out->made_here();
  const auto copy = [state, out] {
    if (state->failure())
      out->set_exception(state->failure());
    else if constexpr (std::is_void_v<T>)
      out->set_value();
    else
      out->set_value(std::as_const(*state->value()));
  };
  if (state->ready())
    copy();
  else
    state->when_ready(make_continuation(copy));
  return future<T>(out);
}

/// Ready when `state` is, with its error; it does not keep that.
inline future<void> end_of(const std::shared_ptr<future_core>& state) {
  auto out = std::make_shared<future_state<void>>(state->driver());
  out->made_here();
  state->when_ready_at_once(make_continuation([from = state.get(), out] {  // run by it
    if (from->failure())
      out->set_exception(from->failure());
    else
      out->set_value();
  }));
  return future<void>(std::move(out));
}

/// Runs the backward pass of a tensor of this node, without a distributed context.
void backward(const at::Tensor& root, bool retain_graph);

}  // namespace detail

/// A reference to a value that lives on one node of the job, its owner: a distributed shared
/// pointer. The value is a T of any class; it lives as long as a reference to it does on any node,
/// and goes when the last has gone. References travel in calls, answers and messages, and no value
/// with them. Those to values on nodes that are lost throw peer_lost, those whose creation has
/// failed throw why, wherever they are used. A circle of references that are inside of each other's
/// values is never dropped.
///
/// A member function may be called from several nodes at once, like any function; the value's class
/// must be made for that, or its functions be called in turn. Copies share one use of the value.
/// Thread-safe.
template <class T>
class rref {
public:
  using element_type = T;
  using is_remote_reference = void;

  rref() = default;
  explicit rref(std::shared_ptr<detail::rref_core> core) : core_(std::move(core)) {}

  /// Does it refer to anything?
  explicit operator bool() const noexcept { return core_ != nullptr; }

  /// Names the value in the whole job.
  const rref_id& id() const { return checked().id(); }

  /// The node that has the value.
  const worker_info& owner() const { return checked().owner().info; }
  const std::string& owner_name() const { return owner().name; }
  bool is_owner() const { return checked().is_owner(); }

  /// Does the owner know of this reference? Those in the arguments of a call are confirmed before
  /// the function runs.
  bool confirmed_by_owner() const { return status() == rref_status::confirmed; }

  /// The same, and whether it is yet to come or never will: `created` says why.
  rref_status status() const {
    const auto& core = checked();
    if (!core.ready()) return rref_status::pending;
    return core.failure() ? rref_status::failed : rref_status::confirmed;
  }

  /// Ready when the owner has made the value, on whichever node this is. Fails with what the
  /// creation threw, peer_lost, and on the node that has asked for the value rpc_timeout when the
  /// limit of that has passed; others know no limit and wait for the owner. It does not keep the
  /// value once it is ready, and cancelling it ends nothing else.
  future<void> created() const {
    auto& core = checked();
    if (core.creates() || core.failed()) return core.outcome();
    if (core.is_owner()) return detail::end_of(local_state());
    core.check();
    using call = detail::await_value<T>;
    (void)call::registered;
    call_options how;
    how.limit = std::chrono::milliseconds(0);  // it is the creation that has one
    auto& node = *core.actors().rrefs().node();
    auto state =
        std::make_shared<detail::call_state<void>>(node, core.owner(), call::name, how, core_);
    state->sent_as(node.call(core.owner(), call::hash(), call::name, state, how,
                             [&](encoder& out, handle_scope&) { out.put(core.id()); }));
    return future<void>(std::move(state));
  }

  /// The value's type.
  static constexpr std::string_view type() { return type_name<T>(); }

  /// A copy of the value, from its owner; of the owner's own value when it is here, which for a
  /// tensor means the same memory. Blocks until the value is there. A `timeout` may be given.
  /// Throws rpc_timeout, what the creation threw, peer_lost, rref_gone.
  template <class... How>
  T to_here(const How&... how) const {
    auto copy = to_here_async(how...);
    if (!is_owner()) return std::move(copy).get();
    const auto given = detail::options_in(how...).limit;
    const auto limit = given.count() < 0 ? checked().actors().rrefs().node()->rpc_timeout() : given;
    return limit.count() > 0 ? copy.get_for(limit) : std::move(copy).get();
  }

  /// The same without waiting. The limit is not for the owner.
  template <class... How>
  future<T> to_here_async(const How&... how) const {
    static_assert(detail::option_count<How...> == sizeof...(How), "to_here takes options only");
    static_assert(std::is_void_v<T> || std::is_copy_constructible_v<detail::stored<T>>,
                  "a value that cannot be copied stays where it is: call its functions there");
    auto& core = checked();
    auto state = value_state(detail::options_in(how...));
    auto out = is_owner() ? detail::copy_of(state) : future<T>(std::move(state));
    core.add_waiting(out.shared());
    return out;
  }

  /// The owner's value itself, for as long as a reference is here. Blocks until it is there. Throws
  /// invalid_argument on other nodes.
  detail::stored<T>& local_value() const {
    auto& core = checked();
    if (!core.is_owner())
      throw invalid_argument("local_value of " + to_string(core.id()) + " on " +
                             core.actors().own_name() + ", but its owner is " + owner_name() +
                             ": use to_here there");
    auto state = local_state();
    if (!state->ready()) created().get();
    const future<T> there(state);
    there.get();
    return *state->value();
  }

  // An overloaded member function does not compile: the class that is wanted says why.
  template <name_the_overload_with_static_cast, class... Args>
  void rpc_sync(const Args&...) const = delete;
  template <name_the_overload_with_static_cast, class... Args>
  void rpc_async(const Args&...) const = delete;
  template <name_the_overload_with_static_cast, class... Args>
  void remote(const Args&...) const = delete;

  /// Calls a member function of T, or of what a T points to; or a function whose first parameter is
  /// a T&. Arguments and options as for node::rpc_sync.
  template <auto F, class... Args>
  auto rpc_sync(const Args&... args) const {
    return rpc_async<F>(args..., detail::sync).get();
  }

  template <auto F, class... Args>
  auto rpc_async(const Args&... args) const {
    detail::check_no_retry<Args...>();
    return detail::awaited_later(begin_call<F>(args...), detail::options_in(args...));
  }

  /// The same, but the result stays on the owner.
  template <auto F, class... Args>
  auto remote(const Args&... args) const {
    using target = detail::target_for<F, T, Args...>;
    using answer = typename detail::answer_of<std::remove_cvref_t<typename target::result>>::type;
    auto node = checked().actors().rrefs().node();
    if constexpr (detail::call_check<target, T, Args...>::ok)
      return rref<answer>(
          detail::create<target, T>(*node, core_->owner(), core_->site(), core_, args...));
    else
      return rref<answer>();  // does not compile: said above
  }

  /// Of what an operator has returned: a reference to its one result as a U (a std::tuple: to all),
  /// or to the one at `place`, from 0; see op_result::to. The owner looks whether it is one: if
  /// not, the reference throws invalid_argument wherever it is used, which names the operator and
  /// what it has returned.
  template <class U>
  rref<U> as() const requires std::is_same_v<T, op_result> {
    return this->template remote<&T::template to<U>>();
  }
  template <class U>
  rref<U> as(std::size_t place) const requires std::is_same_v<T, op_result> {
    return this->template remote<&T::template at<U>>(place);
  }

  /// On the owner of a tensor: its backward pass, gradients into `.grad`. Throws invalid_argument
  /// on other nodes, which need a distributed autograd context for it.
  void backward(bool retain_graph = false) const requires std::is_same_v<T, at::Tensor> {
    if (!is_owner())
      throw invalid_argument("User RRefs require 'dist_autograd_ctx_id' to be specified: " +
                             to_string(id()) + " is owned by " + owner_name());
    detail::backward(local_value(), retain_graph);
  }

  /// On any node: the backward pass of a scalar within a distributed autograd context, or the one
  /// of that id, which begins on the owner; gradients gather in the context. What may follow is
  /// `retain_graph`, a bool, or pass_options. The id -1 stands for no context: as above, with a
  /// bool. Errors as for `autograd::context::backward`. Needs <troupe/autograd.hpp>.
  template <class Context, class... How>
  requires(std::is_same_v<T, at::Tensor> &&
           !std::is_same_v<Context, bool>) void backward(const Context& context,
                                                         const How&... how) const {
    if constexpr (std::is_integral_v<Context>) {
      const auto id = static_cast<std::uint64_t>(static_cast<std::int64_t>(context));
      if (id == ~std::uint64_t{0}) {
        if constexpr ((std::is_same_v<How, bool> && ...) && sizeof...(How) <= 1)
          return backward(how...);
        else
          throw invalid_argument("backward without a context (-1) takes retain_graph alone: " +
                                 to_string(this->id()));
      }
      backward_on_owner(*this, id, how...);
    } else {
      backward_on_owner(*this, context, how...);  // of room autograd
    }
  }

  /// The actor that owns the value, to ask or monitor by CAF's means. A handle of it keeps the
  /// value, like an rref. Throws like a call.
  rref_owner<T> owner_actor() const {
    auto node = checked().actors().rrefs().node();
    checked().check();
    core_->publish();
    using call = callable<&detail::own_actor<T>>;
    (void)call::registered;
    using answer = rref_owner<T>;
    auto state = std::make_shared<detail::call_state<answer>>(*node, core_->owner(), call::name,
                                                              call_options(), core_);
    node->call(core_->owner(), call::hash(), call::name, state, {},
               [&](encoder& out, handle_scope&) { out.put(*this); });
    return future<answer>(std::move(state)).get();
  }

  const std::shared_ptr<detail::rref_core>& core() const noexcept { return core_; }

  /// The state of the value, or of its copy.
  std::shared_ptr<detail::future_state<T>> value_state(const call_options& how) const {
    auto& core = checked();
    if (core.is_owner()) return local_state();
    core.check();
    return detail::fetch_value<T>(*core.actors().rrefs().node(), core.owner(), core.id(), how,
                                  core_);
  }

  /// Do they refer to the same value?
  friend bool operator==(const rref& a, const rref& b) noexcept {
    return a.core_ == b.core_ || (a.core_ && b.core_ && a.core_->id() == b.core_->id());
  }
  friend std::ostream& operator<<(std::ostream& out, const rref& r) {
    if (!r) return out << "rref<" << type() << ">(none)";
    return out << r.core_->text();
  }

private:
  detail::rref_core& checked() const {
    if (!core_) throw invalid_argument("this rref refers to nothing");
    return *core_;
  }

  template <auto F, class... Args>
  auto begin_call(const Args&... args) const {
    using target = detail::target_for<F, T, Args...>;
    using parameters = typename target::template parameters<T>;
    using answer = typename detail::answer_of<std::remove_cvref_t<typename target::result>>::type;
    auto node = checked().actors().rrefs().node();
    checked().check();
    if constexpr (!detail::call_check<target, T, Args...>::ok) {
      return future<answer>();  // does not compile: said above
    } else if constexpr ((detail::is_future<Args> || ...)) {
      auto out = std::make_shared<detail::relayed_state<answer>>(
          node->driver(), detail::cancelled_call(owner_name(), target::name));
      detail::when_given<parameters>(
          *node,
          [self = *this, out](node_core&, const auto&... xs) {
            if (out->ready()) return;  // cancelled
            out->take_from(self.template begin_call<F>(xs...).shared());
          },
          [out](std::exception_ptr why) { out->set_exception(std::move(why)); }, args...);
      return future<answer>(std::move(out));
    } else {
      using wire = detail::wire_for<parameters, Args...>;
      using call = detail::invocation<target, T, false, wire>;
      (void)call::registered;
      auto& owner = core_->owner();
      const auto how = detail::options_in(args...);
      core_->publish();
      auto state =
          std::make_shared<detail::call_state<answer>>(*node, owner, call::name, how, core_);
      state->sent_as(node->call(owner, call::hash(), call::name, state, how,
                                [&](encoder& out, handle_scope& handles) {
                                  out.put(id());
                                  detail::write_arguments<wire>(out, handles, args...);
                                }));
      if (core_->creates()) core_->add_waiting(state);
      return future<answer>(std::move(state));
    }
  }

  std::shared_ptr<detail::future_state<T>> local_state() const {
    return std::static_pointer_cast<detail::future_state<T>>(
        core_->local(detail::value_type::of<T>()));
  }

  std::shared_ptr<detail::rref_core> core_;
};

namespace detail {

/// What an owner's actor does.
template <class T>
typename rref_owner<T>::behavior_type be_owner(std::shared_ptr<future_state<T>> value) {
  return {[value](get_value) -> T {
    const future<T> there(value);
    return there.get();
  }};
}

/// The actor of a value of this node.
template <class T>
rref_owner<T> own_actor(rref<T> of) {
  auto& node = *current_node();
  auto made = node.actors().rrefs().actor(of.id(), [&] {
    return caf::actor_cast<caf::strong_actor_ptr>(
        spawn_function(node, &be_owner<T>, of.value_state({})));
  });
  return caf::actor_cast<rref_owner<T>>(made);
}

}  // namespace detail

}  // namespace troupe

template <class T>
struct std::hash<troupe::rref<T>> {
  std::size_t operator()(const troupe::rref<T>& r) const noexcept {
    return r ? std::hash<troupe::rref_id>()(r.id()) : 0;
  }
};
