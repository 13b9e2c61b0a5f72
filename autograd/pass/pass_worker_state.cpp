#include "troupe/autograd/pass/pass_worker_state.hpp"

#include "troupe/actors/node/node.hpp"
#include "troupe/actors/node/node_core.hpp"
#include "troupe/autograd/pass/pass_steps.hpp"
#include "troupe/messages/envelope/error_codec.hpp"

namespace troupe::autograd::detail {

void pass_worker_state::leave() {
  passes_.clear();
  forgotten_.clear();
  order_.clear();
  part_ = nullptr;
}

pass_runner& pass_worker_state::pass_of(const pass_info& what) {
  if (!works_for(what.context)) throw_ended(what.context);
  if (forgotten_.contains(what.number))
    throw invalid_argument("the backward pass has failed on another node");
  auto& place = passes_[what.number];
  if (!place) place = std::make_unique<pass_runner>(node_, part_, what);
  return *place;
}

caf::error pass_worker_state::fail(const pass_info& what) {
  const auto why = describe(std::current_exception(), node_.self().name, {});
  forget({what.context, what.number});
  return to_caf(why);
}

void pass_worker_state::forget(const forget_pass& what) {
  if (!works_for(what.context)) return;
  passes_.erase(what.number);
  if (!forgotten_.insert(what.number).second) return;
  order_.push_back(what.number);
  if (order_.size() > most_forgotten) {
    forgotten_.erase(order_.front());
    order_.pop_front();
  }
  for (auto* member : part_->known())
    if (member->rank() != node_.self().id) notify_forget(node_, *member, what.context, what.number);
}

}  // namespace troupe::autograd::detail
