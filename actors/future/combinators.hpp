#pragma once

#include <mutex>
#include <tuple>

#include "troupe/actors/future/future.hpp"
#include "troupe/actors/future/question.hpp"
#include "troupe/messages/tensor/device_streams.hpp"

namespace troupe {

namespace detail {

/// Runs `next` once all of `what` are ready, with a value or an error; at once if they are.
void when_all_ready(const std::vector<std::shared_ptr<future_core>>& what,
                    std::function<void()> next);

/// Pre: `what` is not empty.
future<std::size_t> first_ready(const std::vector<std::shared_ptr<future_core>>& what);

/// Runs `body` on a thread of `driver`; on the calling one, if it is one of these or `driver` has
/// stopped.
void run_on_thread_of(engine& driver, std::function<void()> body);
/// The same, but later also where the calling thread is one of these.
void run_soon(engine& driver, std::function<void()> body);

/// The first error among them, by their order; null: none.
std::exception_ptr first_failure(const std::vector<std::shared_ptr<future_core>>& what);

/// Calls `next` with the first error among `what`, or null, once all of them are ready: at once if
/// they are, otherwise on a thread of the node.
void after(std::vector<std::shared_ptr<future_core>>&& what,
           std::function<void(const std::exception_ptr&)> next);

/// A future with the outcome of another one, the source, that is made later. Cancelling it cancels
/// the source.
template <class T>
class relayed_state : public future_state<T>,
                      public std::enable_shared_from_this<relayed_state<T>> {
public:
  /// `cancelled`: the error after a cancellation.
  relayed_state(std::shared_ptr<engine> driver, fault cancelled)
      : future_state<T>(std::move(driver)), cancelled_(std::move(cancelled)) {
    this->be_asking_on();
  }

  void take_from(std::shared_ptr<future_state<T>> source) {
    if (!wait_for(source)) return;
    auto* const from = source.get();
    // At once: the threads that wait may be the last ones.
    from->when_ready_at_once(
        make_continuation([self = this->shared_from_this(), source = std::move(source)] {
          self->let_go();
          self->be_like(*source);
        }));
  }

  void cancel() override {
    if (!this->give_up(fault(cancelled_))) return;
    if (const auto source = let_go()) source->cancel();
  }

protected:
  /// The question of the source; empty before there is one, and between two.
  question asked() const noexcept override {
    const std::lock_guard guard(mutex_);
    return source_ ? source_->asks_now() : question{};
  }

  /// False: this has been cancelled, and so is `source` now.
  bool wait_for(std::shared_ptr<future_core> source) {
    {
      const std::lock_guard guard(mutex_);
      source_ = source;
    }
    if (!this->cancelled()) return true;
    source->cancel();
    return false;
  }

  std::shared_ptr<future_core> let_go() {
    const std::lock_guard guard(mutex_);
    return std::exchange(source_, nullptr);
  }

  /// Takes the outcome of the source. Pre: it is ready, and no other reference to it is left.
  void be_like(future_state<T>& source) {
    if (source.failure())
      this->set_exception(source.failure());
    else if constexpr (std::is_void_v<T>)
      this->set_value();
    else
      this->set_value(std::move(*source.value()));
  }

private:
  const fault cancelled_;
  mutable std::mutex mutex_;
  std::shared_ptr<future_core> source_;
};

template <class T>
inline constexpr bool is_future = false;
template <class T>
inline constexpr bool is_future<future<T>> = true;

}  // namespace detail

/// A future of all the values, in order (that of a future<void> is an empty struct); the first
/// error wins at once, without waiting for the others.
template <class T, class U, class... Rest>
auto when_all(const future<T>& first, const future<U>& second, const future<Rest>&... rest) {
  using result = std::tuple<detail::stored<T>, detail::stored<U>, detail::stored<Rest>...>;
  auto out = std::make_shared<detail::future_state<result>>(first.state().driver());
  second.state();  // throws when it belongs to no call
  (rest.state(), ...);
  std::vector<std::shared_ptr<detail::future_core>> all{first.shared(), second.shared(),
                                                        rest.shared()...};
  for (const auto& one : all)
    one->when_ready(detail::make_continuation([one, out] {
      if (one->failure()) out->set_exception(one->failure());
    }));
  detail::when_all_ready(all, [all, out, first, second, rest...] {
    const detail::stream_scope devices;  // it is there when all of them are
    if (detail::first_failure(all)) return;
    const auto values = [&] {
      return result(*first.state().value(), *second.state().value(), *rest.state().value()...);
    };
    detail::complete_with(*out, values);
  });
  return future<result>(out);
}

/// A future of the index of the first one that is ready, with a value or an error. Throws
/// invalid_argument if `futures` is empty.
template <class T>
future<std::size_t> when_any(const std::vector<future<T>>& futures) {
  if (futures.empty()) throw invalid_argument("when_any needs at least one future");
  std::vector<std::shared_ptr<detail::future_core>> all;
  for (const auto& one : futures) {
    one.state();  // throws when it belongs to no call
    all.push_back(one.shared());
  }
  return detail::first_ready(all);
}

}  // namespace troupe
