#pragma once

#include "troupe/actors/future/wait_all.hpp"
#include "troupe/actors/rref/creation.hpp"
#include "troupe/actors/rref/function_calls.hpp"
#include "troupe/actors/rref/owner_actor.hpp"
#include "troupe/actors/tensors/tensor_part.hpp"

namespace troupe {

/// The state of a reference on its node.
enum class rref_status : std::uint8_t {
  pending,    ///< its value is being created, or the owner has yet to confirm it
  confirmed,  ///< the owner knows of it
  failed,     ///< it refers to nothing: its creation has failed, or its owner has denied it
};

namespace detail {

/// Runs the backward pass of a tensor of this node, without a distributed context.
void backward(const at::Tensor& root, bool retain_graph);

/// Of what is given to `rref::read`: the slices, which come before the options of the call.
template <class... Given>
std::vector<slice> slices_in(const Given&... given) {
  static_assert(((std::is_same_v<Given, slice> || is_call_option<Given>)&&...),
                "what is read is named by slices: r.read(slice{0, 10}, slice{2, 4})");
  static_assert(options_are_last<Given...>(), "slices come before the options of the call");
  std::vector<slice> out;
  [[maybe_unused]] const auto take = [&](const auto& one) {
    if constexpr (std::is_same_v<std::decay_t<decltype(one)>, slice>) out.push_back(one);
  };
  (take(given), ...);
  return out;
}

}  // namespace detail

/// A reference to a value that lives on one node of the job, its owner: a distributed shared
/// pointer. The value is a T of any class; it lives while any node has a reference to it.
/// References are sent in calls, answers and messages, without the value. Where it is used, a
/// reference throws peer_lost if the owner is lost, and the error of the creation if that has
/// failed. Reference cycles (references in each other's values) are not collected.
///
/// A member function may be called from several nodes at once, like any function: the value's class
/// must allow that, or the program must call its functions in turn. Copies share one use of the
/// value. Thread-safe.
template <class T>
class rref {
public:
  using element_type = T;
  using is_remote_reference = void;

  rref() = default;
  explicit rref(std::shared_ptr<detail::rref_use> core) : core_(std::move(core)) {}

  /// Does it refer to anything?
  explicit operator bool() const noexcept { return core_ != nullptr; }

  /// Identifies the value in the whole job.
  const rref_id& id() const { return checked().id(); }

  /// The node that has the value.
  const worker_info& owner() const { return checked().owner_info(); }
  const std::string& owner_name() const { return owner().name; }
  bool is_owner() const { return checked().is_owner(); }

  /// Does the owner know of this reference? Those in the arguments of a call are confirmed before
  /// the function runs.
  bool confirmed_by_owner() const { return status() == rref_status::confirmed; }

  /// The same, and if it is not confirmed, whether it will be; `created` has the error.
  rref_status status() const {
    const auto& core = checked();
    if (!core.ready()) return rref_status::pending;
    return core.failure() ? rref_status::failed : rref_status::confirmed;
  }

  /// Ready when the owner has created the value; on any node. Fails with the error of the creation,
  /// with peer_lost, and on the node that has asked for the value with rpc_timeout when the limit
  /// of that call has passed; on other nodes there is no limit. It does not keep the value once it
  /// is ready, and cancelling it ends nothing else.
  future<void> created() const {
    auto& core = checked();
    if (core.creates() || core.failed()) return core.outcome();
    if (core.is_owner()) return detail::end_of(local_state());
    core.check();
    return detail::await_creation<T>(*core.agent(), core.owner(), core.id(), core_);
  }

  /// The value's type.
  static constexpr std::string_view type() { return type_name<T>(); }

  /// A copy of the value, from its owner. On the owner it is a copy of the value itself: of a
  /// tensor, one with the same memory. Blocks until the value is there. A `timeout` may be given.
  /// Throws rpc_timeout, the error of the creation, peer_lost, rref_gone.
  template <class... How>
  T to_here(const How&... how) const {
    auto copy = to_here_async(how...);
    if (!is_owner()) return std::move(copy).get();
    const auto given = detail::options_in(how...).limit;
    const auto limit = given.count() < 0 ? checked().agent()->rpc_timeout() : given;
    return limit.count() > 0 ? copy.get_for(limit) : std::move(copy).get();
  }

  /// The same without waiting. On the owner a limit has no effect.
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

  /// The value itself, on its owner: valid while a reference is here. Blocks until it is there.
  /// Throws invalid_argument on other nodes.
  detail::stored<T>& local_value() const {
    auto& core = checked();
    if (!core.is_owner())
      throw invalid_argument("local_value of " + to_string(core.id()) + " on " + core.node_name() +
                             ", but its owner is " + owner_name() + ": use to_here there");
    auto state = local_state();
    if (!state->ready()) created().get();
    const future<T> there(state);
    there.get();
    return *state->value();
  }

  // An overloaded member function does not compile: the name of the class in the error says why.
  template <name_the_overload_with_static_cast, class... Args>
  void rpc_sync(const Args&...) const = delete;
  template <name_the_overload_with_static_cast, class... Args>
  void rpc_async(const Args&...) const = delete;
  template <name_the_overload_with_static_cast, class... Args>
  void remote(const Args&...) const = delete;

  /// Calls a member function of T, or of what a T points to; or a function whose first parameter is
  /// a T&. Arguments and options as for node::rpc_sync.
  template <auto F, class... Args>
  auto rpc_sync(Args&&... args) const {
    return rpc_async<F>(std::forward<Args>(args)..., detail::sync).get();
  }

  template <auto F, class... Args>
  auto rpc_async(Args&&... args) const {
    detail::check_no_retry<std::remove_cvref_t<Args>...>();
    (void)checked();
    const bool sync = detail::options_in(args...).sync;
    return detail::awaited_later(detail::begin_call_on<F, T>(core_, std::forward<Args>(args)...),
                                 sync);
  }

  /// The same, but the result stays on the owner. See node::remote.
  template <auto F, class... Args>
  auto remote(Args&&... args) const {
    using target = detail::target_for<F, T, std::remove_cvref_t<Args>...>;
    using answer = typename detail::answer_of<std::remove_cvref_t<typename target::result>>::type;
    const auto agent = checked().agent();
    if constexpr (detail::call_check<target, T, std::remove_cvref_t<Args>...>::ok)
      return rref<answer>(detail::create<target, T>(*agent, core_->owner(), core_->site(), core_,
                                                    std::forward<Args>(args)...));
    else
      return rref<answer>();  // does not compile: said above
  }

  /// For the result of an operator: a reference to its one value as a U (a std::tuple: to all
  /// values), or to the one at `place`, from 0; see op_result::to. The owner checks the type: if it
  /// is another, the reference throws invalid_argument where it is used, which names the operator
  /// and what it has returned.
  template <class U>
  rref<U> as() const requires std::is_same_v<T, op_result> {
    return this->template remote<&T::template to<U>>();
  }
  template <class U>
  rref<U> as(std::size_t place) const requires std::is_same_v<T, op_result> {
    return this->template remote<&T::template at<U>>(place);
  }

  /// Of a tensor: the places that `which` names, a `slice` for each dimension from the first on;
  /// without any, all of it. No more is read than these. Where nodes of one host lend each other
  /// tensors, this node reads them from the owner's memory, and the owner touches nothing;
  /// elsewhere the owner sends them. The result has memory of its own if slices were given,
  /// otherwise it is like a copy by `to_here`; it has no gradients.
  ///
  /// While the owner updates the tensor between `begin_update` and `commit`, it is the version
  /// before, never a mixture. Without these the owner must not write at the same time; `write_from`
  /// of other nodes may. After a read or `begin_update`, pointers into the tensor from before are
  /// not the tensor's any more once it is written to.
  ///
  /// Options of a call, such as a `timeout`, may follow. Throws like a call, and invalid_argument
  /// if the slices do not fit.
  template <class... Which>
  T read(const Which&... which) const requires std::is_same_v<T, at::Tensor> {
    return read_versioned(which...).value;
  }

  /// The same with the version that was read: how often the tensor was committed.
  template <class... Which>
  basic_versioned_tensor<T> read_versioned(
      const Which&... which) const requires std::is_same_v<T, at::Tensor> {
    const auto slices = detail::slices_in(which...);
    return detail::taken_from(read_part(slices, detail::options_in(which...)).get(), slices);
  }

  /// `read` without waiting.
  template <class... Which>
  future<T> read_async(const Which&... which) const requires std::is_same_v<T, at::Tensor> {
    auto slices = detail::slices_in(which...);
    return read_part(slices, detail::options_in(which...))
        .then([slices](const detail::basic_tensor_part<T>& part) {
          return detail::taken_from(detail::basic_tensor_part<T>(part), slices).value;
        });
  }

  /// The same straight into `to`, a tensor of this node of the part's sizes and dtype. Returns the
  /// version.
  template <class... Which>
  std::uint64_t read_into(const detail::stored<T>& to,
                          const Which&... which) const requires std::is_same_v<T, at::Tensor> {
    const auto slices = detail::slices_in(which...);
    return detail::take_into(to, read_part(slices, detail::options_in(which...)).get(), slices);
  }

  /// Writes `from`, of the part's sizes and dtype, into the part of the owner's tensor, and waits
  /// until it is there. Writes and reads that overlap must be put in order by the program, as those
  /// of a shared buffer.
  template <class... Which>
  void write_from(const detail::stored<T>& from,
                  const Which&... which) const requires std::is_same_v<T, at::Tensor> {
    const auto slices = detail::slices_in(which...);
    if (is_owner()) return detail::write_part(local_value(), from, slices);
    detail::begin_call_on<&detail::write_part, T>(core_, from, slices, detail::options_in(which...))
        .get();
  }

  /// On the owner, before and after it updates the tensor in place. Both throw invalid_argument on
  /// other nodes, and when they do not follow each other. Until `commit`, who reads gets the tensor
  /// as it is now: the first write copies it, unless its memory cannot be shared, which is copied
  /// at once. `commit` returns the new version, from 1 on.
  void begin_update() const requires std::is_same_v<T, at::Tensor> {
    detail::begin_update(local_value());
  }
  std::uint64_t commit() const requires std::is_same_v<T, at::Tensor> {
    return detail::commit(local_value());
  }

  /// Runs the backward pass of a tensor on its owner: gradients go into `.grad`. Throws
  /// invalid_argument on other nodes, which need a distributed autograd context for it.
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
      backward_on_owner(*this, context, how...);  // of the module autograd
    }
  }

  /// The actor that owns the value, for CAF's requests and monitors. A handle of it keeps the
  /// value, like an rref. Throws like a call.
  rref_owner<T> owner_actor() const {
    const auto agent = checked().agent();
    core_->check();
    core_->publish();
    using call = callable<&detail::own_actor<T>>;
    (void)call::registered;
    using answer = rref_owner<T>;
    auto state = std::make_shared<detail::call_state<answer>>(*agent, core_->owner(), call::name,
                                                              call_options(), core_);
    state->sent_as(agent->call(core_->owner(), call::hash(), call::name, state, {},
                               [&](encoder& out, handle_scope&) { out.put(*this); }));
    return future<answer>(std::move(state)).get();
  }

  const std::shared_ptr<detail::rref_use>& core() const noexcept { return core_; }

  /// The state of the value, or of its copy.
  std::shared_ptr<detail::future_state<T>> value_state(const call_options& how) const {
    auto& core = checked();
    if (core.is_owner()) return local_state();
    core.check();
    return detail::fetch_value<T>(*core.agent(), core.owner(), core.id(), how, core_);
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
  future<detail::basic_tensor_part<detail::stored<T>>> read_part(const std::vector<slice>& which,
                                                                 const call_options& how) const {
    auto& core = checked();
    if (core.is_owner()) {
      auto out = std::make_shared<detail::future_state<detail::basic_tensor_part<T>>>(nullptr);
      out->set_value(detail::read_own_part(local_value(), which));
      return future<detail::basic_tensor_part<T>>(std::move(out));
    }
    return detail::begin_call_on<&detail::read_part, T>(core_, which, how);
  }

  detail::rref_use& checked() const {
    if (!core_) throw invalid_argument("this rref refers to nothing");
    return *core_;
  }

  std::shared_ptr<detail::future_state<T>> local_state() const {
    return std::static_pointer_cast<detail::future_state<T>>(
        core_->local(detail::value_type::of<T>()));
  }

  std::shared_ptr<detail::rref_use> core_;
};

}  // namespace troupe

template <class T>
struct std::hash<troupe::rref<T>> {
  std::size_t operator()(const troupe::rref<T>& r) const noexcept {
    return r ? std::hash<troupe::rref_id>()(r.id()) : 0;
  }
};
