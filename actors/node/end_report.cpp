#include "troupe/actors/node/end_report.hpp"

#include <algorithm>

#include "troupe/actors/rref/rref_table.hpp"

namespace troupe::detail {

namespace {

std::string count_of(std::size_t count, const std::string& one) {
  return count == 1 ? "1 " + one : std::to_string(count) + ' ' + one + 's';
}

}  // namespace

std::string text_of_leaks(const std::vector<rref_leak>& leaks, std::size_t most) {
  std::string out =
      leaks.front().holder + " still has " + count_of(leaks.size(), "rref") +
      " at the shutdown: drop them before it; otherwise the values live until their owners end";
  for (std::size_t i = 0; i < std::min(most, leaks.size()); ++i) {
    const auto& one = leaks[i];
    out += "; Leaking RRef " + one.text + ", held by " + one.holder +
           (one.site == "received" ? ", received" : ", made at " + one.site);
  }
  if (leaks.size() > most)
    out += "; and " + std::to_string(leaks.size() - most) + " others, which node::rrefs() lists";
  return out;
}

std::string text_of_loss(const std::string& here, const peer& lost, bool replaced) {
  const auto& name = lost.info.name;
  const auto unanswered = lost.losses.requests.load();
  return here + ": " +
         (replaced ? "an earlier " + name + " was lost"
                   : "shut down without " + name + ", which was lost") +
         "; its remaining work is lost; " +
         (unanswered == 1 ? "1 call or request to it was"
                          : std::to_string(unanswered) + " calls and requests to it were") +
         " unanswered; " + lost.loss().text;
}

std::exception_ptr broken_promises(const std::vector<const peer*>& gone) {
  fault why;
  why.code = errc::peer_lost;
  why.node = gone.front()->info.name;
  for (const auto* one : gone) {
    const auto calls = one->losses.promised.load();
    if (!why.text.empty()) why.text += "; ";
    why.text += one->info.name + (one->losses.lost ? " was lost" : " has left") +
                " before it had answered " +
                (calls == 1 ? "a call" : std::to_string(calls) + " calls") +
                " that this shutdown waited for: " + one->loss().text;
  }
  return to_exception(std::move(why));
}

}  // namespace troupe::detail
