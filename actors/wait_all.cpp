#include "actors/wait_all.hpp"

#include "actors/futex.hpp"

namespace troupe::detail {

std::exception_ptr calls_to_await::end() noexcept {
  leave();
  std::exception_ptr first;
  for (const auto& call : std::exchange(calls_, {})) {
    std::exception_ptr why;
    try {
      call->wait_until(never, call);
      why = call->failure();
    } catch (...) {  // nobody is there any more who could answer, or nobody ever will
      why = std::current_exception();
    }
    if (!first) first = why;
  }
  return first;
}

}  // namespace troupe::detail
