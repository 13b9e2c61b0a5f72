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

void run_on_thread_of(engine& driver, std::function<void()> body) {
  if (driver.is_own_thread()) return body();
  auto* item = make_continuation(std::move(body));
  if (driver.push_if_open(item)) return;
  item->resume(nullptr, 1);
  intrusive_ptr_release(item);
}

}  // namespace troupe::detail
