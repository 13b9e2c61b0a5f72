#include "troupe/actors/rpc/retry.hpp"

#include <algorithm>
#include <cmath>

#include "troupe/actors/cluster/peer_table.hpp"
#include "troupe/actors/rpc/rpc_agent.hpp"

namespace troupe::detail {

namespace {

constexpr std::chrono::nanoseconds longest_pause = std::chrono::minutes(1);

}  // namespace

retry_plan::retry_plan(const retry& how, rpc_agent& agent, destination to,
                       std::string_view function)
    : how_(how), agent_(agent.weak_from_this()), to_(std::move(to)), function_(function) {
  if (how.attempts < 1) throw invalid_argument("a call needs at least one attempt");
  if (how.first_pause.count() < 0)
    throw invalid_argument("a pause between attempts must be non-negative");
  if (!(how.factor >= 1 && std::isfinite(how.factor)))
    throw invalid_argument("pauses between attempts must not become shorter");
  agent.begin_retries();
}

retry_plan::~retry_plan() {
  if (const auto agent = agent_.lock()) agent->end_retries();
}

std::shared_ptr<rpc_agent> retry_plan::begin_attempt() {
  auto agent = agent_.lock();
  if (!agent) throw not_initialized("the node has been shut down");
  callee_ = agent->find(to_).info.name;
  ++made_;
  return agent;
}

std::shared_ptr<future_state<void>> retry_plan::pause_after(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const error& why) {
    const auto agent = agent_.lock();
    if (!agent || !agent->is_open() || !may_go_on(why)) return nullptr;
    const double most = static_cast<double>(how_.first_pause.count()) *
                        std::pow(how_.factor, static_cast<double>(made_ - 1));
    const double pause = std::min(most, static_cast<double>(longest_pause.count()));
    const double chance = static_cast<double>(agent->random() >> 11) * 0x1.0p-53;
    return agent
        ->sleep_for(std::chrono::nanoseconds(static_cast<std::int64_t>(pause * (1 + chance) / 2)))
        .shared();
  } catch (...) {
    return nullptr;
  }
}

bool retry_plan::ends_with(const std::exception_ptr& failure) const {
  try {
    std::rethrow_exception(failure);
  } catch (const error& why) {
    return !may_go_on(why);
  } catch (...) {
    return true;
  }
}

// What the callee says of calls of its own is not about this one.
bool retry_plan::may_go_on(const error& why) const {
  if (made_ >= how_.attempts || why.node() != callee_ || why.function() != function_ ||
      !why.fault().via.empty())
    return false;
  return why.code() == errc::rpc_timeout || why.code() == errc::peer_lost ||
         why.code() == errc::overloaded;
}

std::exception_ptr retry_plan::described(const std::exception_ptr& failure) const {
  if (made_ < 2) return failure;
  try {
    std::rethrow_exception(failure);
  } catch (const error& e) {
    auto why = e.fault();
    why.text += " (after " + std::to_string(made_) + " attempts)";
    return to_exception(std::move(why));
  } catch (...) {
    return failure;
  }
}

}  // namespace troupe::detail
