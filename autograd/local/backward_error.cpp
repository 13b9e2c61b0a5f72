#include "troupe/autograd/local/backward_error.hpp"

#include <c10/util/Exception.h>

#include <utility>

namespace troupe::autograd {

namespace {

// The text without the stack frames of libtorch, which the what() of a c10::Error includes.
std::string text_of(const std::exception_ptr& cause, std::string otherwise) {
  try {
    std::rethrow_exception(cause);
  } catch (const c10::Error& e) {
    return e.what_without_backtrace();
  } catch (...) {
    return otherwise;
  }
}

// What Engine::queue_callback throws outside of a pass of the engine.
constexpr const char* no_callbacks = "Final callbacks can only be installed during backward pass";

struct fault fault_of(const std::string& operation, const std::exception_ptr& cause) {
  auto f = describe(cause, {}, {});
  const auto text = text_of(cause, std::move(f.text));
  f.text = "backward failed";
  if (!operation.empty()) f.text += " in " + operation;
  f.text += ": " + text;
  if (text.find(no_callbacks) != std::string::npos)
    f.text +=
        " (autograd::executor has no such callbacks: use autograd::run_in_engine where every "
        "gradient is there at once, or do the work when the executor is done)";
  return f;
}

}  // namespace

backward_error::backward_error(std::string operation, std::exception_ptr cause)
    : error(fault_of(operation, cause)),
      operation_(std::move(operation)),
      cause_(std::move(cause)) {}

}  // namespace troupe::autograd
