#pragma once

#include <mutex>
#include <tuple>

#include "troupe/actors/deadlock/wait_messages.hpp"
#include "troupe/actors/future/future.hpp"

namespace troupe {

namespace detail {

/// Runs `next` once all of `what` are ready, with a value or an error; at once when they are.
void when_all_ready(const std::vector<std::shared_ptr<future_core>>& what,
                    std::function<void()> next);

/// Runs `body` on a thread of `driver`; here, once that has stopped.
void run_on_thread_of(engine& driver, std::function<void()> body);

/// The first error among them, by their order; null: none.
std::exception_ptr first_failure(const std::vector<std::shared_ptr<future_core>>& what);

/// Calls `next` with the first error among `what`, or null, once all of them are ready; at once
/// when they are. Otherwise on a thread of the node.
void after(std::vector<std::shared_ptr<future_core>>&& what,
           std::function<void(const std::exception_ptr&)> next);

/// The outcome of another future that is made later; when it is cancelled, so is that one.
template <class T>
class relayed_state : public future_state<T>,
                      public std::enable_shared_from_this<relayed_state<T>> {
public:
  /// `cancelled`: what it fails with when it is.
  relayed_state(std::shared_ptr<engine> driver, fault cancelled)
      : future_state<T>(std::move(driver)), cancelled_(std::move(cancelled)) {
    this->be_asking_on();
  }

  void take_from(std::shared_ptr<future_state<T>> source) {
    if (!wait_for(source)) return;
    auto* const from = source.get();
    // At once: those who wait may have the last thread.
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
  /// What the other future asks; nothing before it is made, and between two.
  deadlock::question asked() const noexcept override {
    const std::lock_guard guard(mutex_);
    return source_ ? source_->asks_now() : deadlock::question{};
  }

  /// False: it has been cancelled, and so is `source`.
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

  /// The source is ready, and nobody else has it.
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
    if (!detail::first_failure(all))
      out->set_value(*first.state().value(), *second.state().value(), *rest.state().value()...);
  });
  return future<result>(out);
}

/// A future of the place of the first that is ready, with a value or an error: ask that one. Throws
/// invalid_argument when there is none.
template <class T>
future<std::size_t> when_any(const std::vector<future<T>>& futures) {
  if (futures.empty()) throw invalid_argument("when_any of no futures");
  auto out = std::make_shared<detail::future_state<std::size_t>>(futures.front().state().driver());
  for (std::size_t i = 0; i < futures.size(); ++i)
    futures[i].state().when_ready(detail::make_continuation([out, i] { out->set_value(i); }));
  return future<std::size_t>(out);
}

}  // namespace troupe
