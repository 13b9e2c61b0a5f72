#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "troupe/actors/future/future.hpp"
#include "troupe/messages/base/type_name.hpp"
#include "troupe/messages/tensor/device_streams.hpp"

namespace at {
class Tensor;
}

namespace troupe::detail {

/// The state of a value that an rref refers to. Others use it too, so it cannot be cancelled.
template <class T>
class value_state final : public future_state<T> {
public:
  explicit value_state(std::shared_ptr<engine> driver) : future_state<T>(std::move(driver)) {
    this->made_here();
  }
  void cancel() override {}
};

/// A value, or a value to come, or the reason why there is none: a future_state of its type.
using value_cell = std::shared_ptr<future_core>;

/// A type that an rref may refer to.
struct value_type {
  std::uint64_t hash = 0;
  std::string_view name;        ///< static text
  bool runs_user_code = false;  ///< when a value of it is destroyed
  std::shared_ptr<future_core> (*make)(const std::shared_ptr<engine>&) = nullptr;

  template <class T>
  static value_type of() {
    constexpr bool plain = std::is_void_v<T> || std::is_trivially_destructible_v<stored<T>> ||
                           std::is_same_v<T, at::Tensor> || std::is_same_v<T, std::string>;
    return {type_hash<T>(), type_name<T>(), !plain,
            [](const std::shared_ptr<engine>& driver) -> std::shared_ptr<future_core> {
              return std::make_shared<value_state<T>>(driver);
            }};
  }
};

/// A future of a copy of the value in `state`, once that is ready.
template <class T>
future<T> copy_of(const std::shared_ptr<future_state<T>>& state) {
  auto out = std::make_shared<future_state<T>>(state->driver());
  out->made_here();
  const auto copy = [state, out] {
    const stream_scope devices;  // the copy is there when the value is
    if (state->failure())
      out->set_exception(state->failure());
    else if constexpr (std::is_void_v<T>)
      out->set_value();
    else {
      const auto value = [&]() -> const T& { return *state->value(); };
      complete_with(*out, value);
    }
  };
  if (state->ready())
    copy();
  else
    state->when_ready(make_continuation(copy));
  return future<T>(out);
}

/// Ready when `state` is, with its error. Does not keep `state`.
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

}  // namespace troupe::detail
