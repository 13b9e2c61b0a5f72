#pragma once

#include <ATen/TensorOperators.h>

#include <caf/typed_response_promise.hpp>

#include "tests/autograd/graphs/small_graphs.hpp"

// Actors that compute with tensors, and answer in all the ways there are.
namespace troupe::test {

struct forward {
  at::Tensor x;
};
TROUPE_MESSAGE(forward, x)
struct which_context {};
TROUPE_MESSAGE(which_context)
struct keep {
  at::Tensor x;
};
TROUPE_MESSAGE(keep, x)

using layer = actor<answers<forward, at::Tensor>, answers<which_context, std::uint64_t>>;

/// How a layer comes to its answer.
enum class answers_by : std::uint8_t {
  value,          ///< at once
  call,           ///< of a function on the next node
  request,        ///< of the next layer, waiting for it
  delegation,     ///< the next layer answers in its place
  promise,        ///< kept when the next layer has answered CAF's own request
  continuation,   ///< the same of `troupe::request`
  coroutine,      ///< kept by a coroutine that waits for the next layer
  promised_turn,  ///< the promise is passed on to the next layer
};
inline constexpr answers_by all_ways[] = {answers_by::value,     answers_by::call,
                                          answers_by::request,   answers_by::delegation,
                                          answers_by::promise,   answers_by::continuation,
                                          answers_by::coroutine, answers_by::promised_turn};

/// Triples what is left after the next layer has had it; without one it answers by itself.
inline layer::behavior_type tripling(layer::pointer self, answers_by how, layer next) {
  using promised = caf::typed_response_promise<at::Tensor>;
  return {
      [=](const forward& what) -> caf::result<at::Tensor> {
        const auto x = 3 * what.x;
        const auto here = this_node();
        switch (how) {
          case answers_by::value: return x;
          case answers_by::call: return here.rpc_sync<&twice>((here.rank() + 1) % 3, x);
          case answers_by::request: return troupe::request(next, forward{x}).get();
          case answers_by::delegation: return self->delegate(next, forward{x});
          case answers_by::promise: {
            auto promise = self->make_response_promise<at::Tensor>();
            self->request(next, caf::infinite, forward{x})
                .then([promise](const at::Tensor& y) mutable { promise.deliver(5 * y); },
                      [promise](caf::error& why) mutable { promise.deliver(std::move(why)); });
            return promise;
          }
          case answers_by::continuation: {
            auto promise = self->make_response_promise<at::Tensor>();
            troupe::request(next, forward{x}).then([promise](const at::Tensor& y) mutable {
              promise.deliver(5 * y);
            });
            return promise;
          }
          case answers_by::coroutine: {
            auto promise = self->make_response_promise<at::Tensor>();
            [](promised kept, layer whom, at::Tensor given) -> task<> {
              const auto asked = troupe::request(whom, forward{given});
              const at::Tensor y = co_await asked;
              const auto here = this_node();
              const auto called = here.rpc_async<&twice>((here.rank() + 1) % 3, y);
              const at::Tensor z = co_await called;
              kept.deliver(z);
            }(promise, next, x);
            return promise;
          }
          case answers_by::promised_turn: {
            auto promise = self->make_response_promise<at::Tensor>();
            return promise.delegate(next, forward{x});
          }
        }
        throw std::logic_error("no such way");
      },
      [](which_context) { return autograd::current_context(); },
  };
}

/// By how much such a layer, with another one that answers at once behind it, multiplies.
inline double factor_of(answers_by how) {
  switch (how) {
    case answers_by::value: return 3;
    case answers_by::call: return 3 * 2;
    case answers_by::promise:
    case answers_by::continuation: return 3 * 3 * 5;
    case answers_by::coroutine: return 3 * 3 * 2;
    default: return 3 * 3;
  }
}

}  // namespace troupe::test
