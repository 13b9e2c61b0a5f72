#include "troupe/autograd/context/recorded_graph.hpp"

#include "troupe/autograd/context/participant.hpp"
#include "troupe/autograd/context/send_recv_nodes.hpp"
#include "troupe/messages/base/forked.hpp"

namespace troupe::autograd::detail {

recorded_graph recorded_by(const participant& part) {
  forked::check();
  recorded_graph out;
  for (const auto& [number, one] : part.sends())
    out.sends.emplace(message_key{one->to(), number}, one);
  for (const auto& one : part.receives())
    out.receives.emplace(message_key{one->from().id, one->number()}, one);
  for (const auto* member : part.known())  // several incarnations of a rank are neighbours
    if (out.workers.empty() || out.workers.back() != member->rank())
      out.workers.push_back(member->rank());
  return out;
}

}  // namespace troupe::autograd::detail
