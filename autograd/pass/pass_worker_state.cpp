#include "troupe/autograd/pass/pass_worker_state.hpp"

#include <algorithm>

#include "troupe/actors/remote/inline_run.hpp"
#include "troupe/actors/remote/spawn.hpp"
#include "troupe/autograd/pass/pass_steps.hpp"

namespace troupe::autograd::detail {

void pass_desk::leave() {
  passes_.clear();
  forgotten_.clear();
  order_.clear();
  part_ = nullptr;
}

pass_part& pass_desk::pass_of(const pass_info& what) {
  if (!works_for(what.context)) throw_ended(what.context);
  if (forgotten_.contains(what.number))
    throw invalid_argument("the backward pass has failed on another node");
  auto& place = passes_[what.number];
  if (!place) place = std::make_unique<pass_part>(node_, part_, what);
  return *place;
}

void pass_desk::forget(const forget_pass& what) {
  if (!works_for(what.context)) return;
  passes_.erase(what.number);
  if (!forgotten_.insert(what.number).second) return;
  order_.push_back(what.number);
  if (order_.size() > most_forgotten) {
    forgotten_.erase(order_.front());
    order_.pop_front();
  }
  for (auto* whom : part_->known())
    if (whom->rank() != node_.self().id) tell_forget(node_, *whom, what.context, what.number);
}

namespace {

caf::strong_actor_ptr handle_of(const pass_worker& one) {
  return caf::actor_cast<caf::strong_actor_ptr>(one.actor);
}

// Does nobody else have its handle? Then nobody tells it anything, and it does not run.
bool is_alone(const pass_worker& one) {
  return caf::actor_cast<caf::actor_control_block*>(one.actor)->strong_refs.load() == 1;
}

}  // namespace

pass_worker pass_actors::take(std::shared_ptr<participant> part) {
  pass_worker one;
  {
    const std::lock_guard lock(mutex_);
    // Whoever was late with a word for its last context has it for a moment.
    if (!idle_.empty() && is_alone(idle_.back())) {
      one = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  auto desk = one.desk.lock();
  if (!desk || !desk->is_free()) {  // it has ended, and has not heard
    desk = std::make_shared<pass_desk>(node_);
    one.actor = troupe::detail::spawn_function<caf::lazy_init>(node_, &run_passes, desk);
    one.desk = desk;
  }
  desk->sit_down(std::move(part));
  return one;
}

void pass_actors::take_back(pass_worker&& one) noexcept {
  try {
    const bool open = troupe::detail::inline_run::tell(
        node_, handle_of(one),
        caf::make_mailbox_element(nullptr, caf::make_message_id(caf::message_priority::high), {},
                                  caf::make_message(leave_context{})));
    const std::lock_guard lock(mutex_);
    if (open && !closed_ && idle_.size() < most_idle) {
      idle_.push_back(std::move(one));
      return;
    }
  } catch (const std::bad_alloc&) {
    return;  // it ends when nobody has its handle any more
  }
  troupe::detail::end_inline(node_, handle_of(one));
}

std::size_t pass_actors::count_free() {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(std::count_if(idle_.begin(), idle_.end(), &is_alone));
}

void pass_actors::close() {
  decltype(idle_) idle;
  const std::lock_guard lock(mutex_);
  closed_ = true;
  idle.swap(idle_);
}

}  // namespace troupe::autograd::detail
