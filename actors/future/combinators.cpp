#include "troupe/actors/future/combinators.hpp"

#include <atomic>

#include "troupe/actors/scheduler/engine.hpp"
#include "troupe/actors/scheduler/work_item.hpp"

namespace troupe::detail {

void when_all_ready(const std::vector<std::shared_ptr<future_core>>& what,
                    std::function<void()> next) {
  struct countdown {
    std::atomic<std::size_t> missing;
    std::function<void()> next;
    void arrived() {
      if (--missing == 0) std::exchange(next, nullptr)();
    }
  };
  const auto left = std::make_shared<countdown>(what.size() + 1, std::move(next));
  for (const auto& one : what) one->when_ready(make_continuation([left] { left->arrived(); }));
  left->arrived();
}

std::exception_ptr first_failure(const std::vector<std::shared_ptr<future_core>>& what) {
  for (const auto& one : what)
    if (one->failure()) return one->failure();
  return nullptr;
}

void after(std::vector<std::shared_ptr<future_core>>&& what,
           std::function<void(const std::exception_ptr&)> next) {
  const auto all =
      std::make_shared<const std::vector<std::shared_ptr<future_core>>>(std::move(what));
  when_all_ready(*all, [all, next = std::move(next)] { next(first_failure(*all)); });
}

namespace {

// Several futures, of which the first counts.
class race : public std::enable_shared_from_this<race> {
public:
  explicit race(const std::vector<std::shared_ptr<future_core>>& all)
      : out_(std::make_shared<future_state<std::size_t>>(all.front()->driver())),
        all_(all.begin(), all.end()) {}

  future<std::size_t> begin() {
    future<std::size_t> first(out_);
    for (std::size_t i = 0; i < all_.size() && wanted_; ++i)
      if (const auto one = all_[i].lock())
        one->when_ready(make_continuation([me = shared_from_this(), i] { me->won_by(i); }),
                        &wanted_);
    return first;
  }

private:
  // A future that others stay with, such as that of a stop, does not collect what has lost.
  void won_by(std::size_t i) {
    if (!wanted_.exchange(nullptr)) return;
    std::exchange(out_, nullptr)->set_value(i);
    for (const auto& other : all_)
      if (const auto one = other.lock()) one->abandoned();
  }

  std::shared_ptr<future_state<std::size_t>> out_;  // only the winner moves it
  const std::vector<std::weak_ptr<future_core>> all_;
  std::atomic<void*> wanted_{this};
};

}  // namespace

future<std::size_t> first_ready(const std::vector<std::shared_ptr<future_core>>& what) {
  return std::make_shared<race>(what)->begin();
}

void run_on_thread_of(engine& driver, std::function<void()> body) {
  if (driver.is_own_thread()) return body();
  run_soon(driver, std::move(body));
}

void run_soon(engine& driver, std::function<void()> body) {
  auto* item = make_continuation(std::move(body));
  if (driver.push_if_open(item)) return;
  item->resume(nullptr, 1);
  intrusive_ptr_release(item);
}

}  // namespace troupe::detail
