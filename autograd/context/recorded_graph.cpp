#include "troupe/autograd/context/recorded_graph.hpp"

#include "troupe/autograd/context/participant.hpp"

namespace troupe::autograd::detail {

recorded_graph recorded_by(const participant& part) {
  forked::check();
  recorded_graph out;
  for (const auto& [number, one] : part.sends())
    out.sends.emplace(message_key{one->to(), number}, one);
  for (const auto& one : part.receives())
    out.receives.emplace(message_key{one->from().id, one->number()}, one);
  for (const auto* whom : part.known())  // by rank, then incarnation
    if (out.workers.empty() || out.workers.back() != whom->rank())
      out.workers.push_back(whom->rank());
  return out;
}

}  // namespace troupe::autograd::detail
