#pragma once

#include <troupe/troupe.hpp>

namespace troupe::test {

/// Names functions that other programs call here, so that the linker keeps them.
template <auto... F>
bool served() {
  return (true && ... && (callable<F>::registered && troupe::detail::enter_short_calls<F>()));
}

}  // namespace troupe::test
