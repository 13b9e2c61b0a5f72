#include "troupe/autograd/local/backward_error.hpp"

#include <c10/util/Exception.h>

#include <utility>

namespace troupe::autograd {

namespace {

// c10::Error says in what() also where in libtorch it was thrown, frame by frame.
std::string text_of(const std::exception_ptr& cause, std::string otherwise) {
  try {
    std::rethrow_exception(cause);
  } catch (const c10::Error& e) {
    return e.what_without_backtrace();
  } catch (...) {
    return otherwise;
  }
}

// Of Engine::queue_callback outside of a pass of the engine.
constexpr const char* no_callbacks = "Final callbacks can only be installed during backward pass";

struct fault told(const std::string& operation, const std::exception_ptr& cause) {
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
    : error(told(operation, cause)), operation_(std::move(operation)), cause_(std::move(cause)) {}

}  // namespace troupe::autograd
