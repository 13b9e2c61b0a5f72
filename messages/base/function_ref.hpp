#pragma once

#include <memory>
#include <type_traits>
#include <utility>

namespace troupe {

template <class Signature>
class function_ref;

/// A parameter that refers to something that can be called. Allocates nothing, and is valid until
/// the function it was passed to returns. C++26 has it as std::function_ref (P0792).
template <class R, class... Args>
class function_ref<R(Args...)> {
public:
  template <class F>
  requires(!std::is_same_v<F, function_ref> && std::is_invocable_r_v<R, const F&, Args...>)
      function_ref(const F& f)
  noexcept
      : what_(std::addressof(f)), call_([](const void* what, Args... args) -> R {
          return (*static_cast<const F*>(what))(std::forward<Args>(args)...);
        }) {}

  R operator()(Args... args) const { return call_(what_, std::forward<Args>(args)...); }

private:
  const void* what_;
  R (*call_)(const void*, Args...);
};

}  // namespace troupe
