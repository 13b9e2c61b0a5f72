#pragma once

#include "troupe/actors/messaging/call_options.hpp"
#include "troupe/actors/remote/answer_state.hpp"
#include "troupe/actors/rpc/call_checks.hpp"
#include "troupe/actors/rpc/retry.hpp"
#include "troupe/actors/rpc/rpc_agent.hpp"
#include "troupe/actors/scheduler/execution_context.hpp"
#include "troupe/messages/tensor/device_streams.hpp"

// How the calls of `node` and `rref` are put together.
namespace troupe {

namespace detail {

template <class T>
inline constexpr bool is_rref = false;
template <class T>
inline constexpr bool is_rref<rref<T>> = true;

/// The error of a call that its caller has given up.
fault cancelled_call(std::string node, std::string_view function);
fault cancelled_call_to(const peer& callee, std::string_view function);

/// An answer has come for `state`, of which `asked` is a part, with references that wait for
/// `claims`. Calls `set` when all of these are ready. `state` fails with the error of a claim, or
/// with rpc_timeout when `limit` passes first, counted anew from here.
void await_claims(rpc_agent& agent, const std::shared_ptr<future_core>& state,
                  const question_to_peer& asked, std::chrono::milliseconds limit,
                  handle_scope::claims&& claims, std::function<void()> set);

/// The future of a call: reads the value when the answer comes. What is in `kept` lives until then,
/// also when nobody waits for it any more; a future that is kept for longer does not hold it.
template <class T>
class call_state final : public remote_answer_state<T>,
                         public std::enable_shared_from_this<call_state<T>> {
public:
  /// `function`: static text.
  call_state(rpc_agent& agent, peer& callee, std::string_view function, const call_options& how,
             std::shared_ptr<void> kept = nullptr)
      : remote_answer_state<T>(agent.actors(), callee, function),
        agent_(agent),
        limit_(how.limit.count() < 0 ? agent.rpc_timeout() : how.limit),
        kept_(std::move(kept)) {}

  /// The same with a name that was made at run time, and that lives as long as this.
  call_state(rpc_agent& agent, peer& callee, std::shared_ptr<const std::string> function,
             const call_options& how)
      : remote_answer_state<T>(agent.actors(), callee, *function),
        agent_(agent),
        limit_(how.limit.count() < 0 ? agent.rpc_timeout() : how.limit),
        name_(std::move(function)) {}

  void cancel() override {
    auto why = cancelled_call({}, this->name_asked());
    if (this->name_callee(why) && this->give_up(std::move(why))) this->tell_callee(this->request());
  }

  void fail_early(const std::exception_ptr& why) override {
    if (this->set_exception(why)) this->tell_callee(this->request());
  }

  void on_value(opened_envelope& answer) noexcept override {
    if constexpr (std::is_void_v<T>)
      this->set_value();
    else
      this->take_apart(answer, [this](decoder& in, handle_scope& handles) {
        auto value = in.get<T>();
        in.expect_end();
        in.let_tensors_go();  // before the caller has the value, and may write to its tensors
        auto claims = handles.take_claims();
        if (claims.empty())
          this->set_value(std::move(value));
        else
          set_value_after(std::move(claims), std::move(value));
      });
    kept_ = nullptr;
  }

  void on_fault(fault&& why) noexcept override {
    remote_answer_state<T>::on_fault(std::move(why));
    kept_ = nullptr;
  }
  void on_expiry(fault&& why) noexcept override {
    remote_answer_state<T>::on_fault(std::move(why));
  }

private:
  void set_value_after(handle_scope::claims&& claims, stored<T>&& value) {
    const auto self = this->shared_from_this();
    const auto waiting = std::make_shared<stored<T>>(std::move(value));
    await_claims(agent_, self, *this, limit_, std::move(claims),
                 [state = self.get(), waiting, copies = current_work()] {
                   const stream_scope devices(copies.get());
                   state->set_value(std::move(*waiting));
                 });
  }

  rpc_agent& agent_;  // there for as long as answers come
  const std::chrono::milliseconds limit_;
  const std::shared_ptr<const std::string> name_;  // null: static text
  std::shared_ptr<void> kept_;  // of whoever takes the answer; those who give the call up leave it
};

/// An argument whose value is a T that the callee fetches from its owner; the caller lends it its
/// reference.
template <class T>
struct loan {
  rref_id id;
  friend constexpr auto troupe_fields(const loan*) { return std::make_tuple(&loan::id); }
};

/// The same for a function that is called by a registered name: one entry of the callee takes
/// either the value, or the reference that names it.
template <class T>
struct value_or_loan {
  std::optional<T> value;
  rref_id id{};
  friend constexpr auto troupe_fields(const value_or_loan*) {
    return std::make_tuple(&value_or_loan::value, &value_or_loan::id);
  }
};

template <class T>
inline constexpr bool is_value_or_loan = false;
template <class T>
inline constexpr bool is_value_or_loan<value_or_loan<T>> = true;

template <class T>
inline constexpr bool is_loan = false;
template <class T>
inline constexpr bool is_loan<loan<T>> = true;

/// What travels for a parameter: a value of its type, or a loan of the reference that was given for
/// it.
template <class Parameter, class Given>
struct wire_of {
  using type = Parameter;
};
template <class Parameter, class T>
requires(!is_rref<Parameter>) struct wire_of<Parameter, rref<T>> {
  using type = loan<T>;
};

template <class Parameters, class Given, class Places>
struct wire_types;
template <class Parameters, class Given, std::size_t... I>
struct wire_types<Parameters, Given, std::index_sequence<I...>> {
  using type = std::tuple<typename wire_of<std::tuple_element_t<I, Parameters>,
                                           std::tuple_element_t<I, Given>>::type...>;
};

/// The types that travel when a function with such parameters is called with `Given`, behind which
/// options may stand.
template <class Parameters, class... Given>
using wire_for = typename wire_types<Parameters, std::tuple<Given...>,
                                     std::make_index_sequence<std::tuple_size_v<Parameters>>>::type;

/// For calls that must not be made twice.
template <class... Given>
constexpr void check_no_retry() {
  static_assert(!asks_for_retry<Given...>,
                "retry is for calls of functions, rpc_sync and rpc_async of a node");
}

template <class Wanted, class Given>
void write_argument(encoder& out, [[maybe_unused]] handle_scope& handles, Given&& x) {
  using T = std::remove_cvref_t<Given>;
  if constexpr (is_loan<Wanted>) {
    out.put(Wanted{handles.lend(x.core())});
  } else if constexpr (is_value_or_loan<Wanted>) {
    using parameter = typename decltype(Wanted::value)::value_type;
    if constexpr (is_rref<T> && !is_rref<parameter>)
      out.put(Wanted{std::nullopt, handles.lend(x.core())});
    else
      out.put(Wanted{static_cast<parameter>(x)});
  } else if constexpr (std::is_same_v<T, Wanted>) {
    out.put_argument(std::forward<Given>(x));
  } else {
    out.put(static_cast<const Wanted&>(static_cast<Wanted>(x)));
  }
}

/// Writes the arguments as `Wire`; options behind them are left out. Those that are given away are
/// moved from.
template <class Wire, class... Given>
void write_arguments(encoder& out, handle_scope& handles, Given&&... given) {
  auto all = std::forward_as_tuple(std::forward<Given>(given)...);
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (write_argument<std::tuple_element_t<I, Wire>>(out, handles, std::get<I>(std::move(all))), ...);
  }
  (std::make_index_sequence<std::tuple_size_v<Wire>>());
}

// Copied as the function wants them: what they refer to may be gone when the call is made.
template <class Parameters, std::size_t I, class T>
auto keep_argument(const T& x) {
  if constexpr (is_future<T> || is_rref<T> || I >= std::tuple_size_v<Parameters>)
    return x;
  else
    return static_cast<std::tuple_element_t<I, Parameters>>(x);
}

template <class T>
const T& value_in(const T& x) {
  return x;
}
template <class T>
const T& value_in(const future<T>& x) {
  return *x.state().value();
}

/// Calls `make` with the node and the values of `given`, once those that are futures are ready, on
/// a thread of the node; `fail` with their first error, or what `make` throws.
template <class Parameters, class Make, class Fail, class... Given>
void when_given(rpc_agent& agent, Make make, Fail fail, const Given&... given) {
  std::vector<std::shared_ptr<future_core>> awaited;
  const auto await = [&](const auto& x) {
    if constexpr (is_future<std::decay_t<decltype(x)>>) {
      x.state();  // throws when it belongs to no call
      awaited.push_back(x.shared());
    }
  };
  (await(given), ...);
  auto kept = [&]<std::size_t... I>(std::index_sequence<I...>) {
    return std::make_tuple(keep_argument<Parameters, I>(given)...);
  }
  (std::index_sequence_for<Given...>());
  const auto& driver = agent.driver();
  auto call = [awaited, make = std::move(make), fail = std::move(fail),
               weak = agent.weak_from_this(), kept = std::move(kept), by_program = !in_handler()] {
    try {
      if (const auto why = first_failure(awaited)) std::rethrow_exception(why);
      const auto here = weak.lock();
      if (!here) throw not_initialized("the node has been shut down");
      const put_off_call now(by_program);
      std::apply([&](const auto&... xs) { make(*here, value_in(xs)...); }, kept);
    } catch (...) {
      fail(std::current_exception());
    }
  };
  when_all_ready(awaited, [driver, call = std::move(call)] { run_on_thread_of(*driver, call); });
}

}  // namespace detail

}  // namespace troupe
