#include "autograd/participant.hpp"

#include <caf/exit_reason.hpp>
#include <caf/send.hpp>

namespace troupe::autograd::detail {

void pass_report::add(pass_standing&& one) {
  for (auto& known : all_)
    if (known.rank == one.rank) {
      if (known.arrivals < one.arrivals) known = std::move(one);
      return;
    }
  all_.push_back(std::move(one));
}

void pass_report::merge(pass_report&& other) {
  for (auto& one : other.all_) add(std::move(one));
}

void participant::know(peer& whom) {
  const std::lock_guard lock(mutex_);
  known_.insert(&whom);
}

std::vector<peer*> participant::known() const {
  const std::lock_guard lock(mutex_);
  return {known_.begin(), known_.end()};
}

void participant::add_send(std::uint64_t number, const std::vector<at::Tensor>& sent) {
  const std::shared_ptr<send_node> made(new send_node(sent), torch::autograd::deleteNode);
  const std::lock_guard lock(mutex_);
  if (!ended_) sends_.emplace(number, made);
}

void participant::remove_send(std::uint64_t number) {
  std::shared_ptr<send_node> last;  // a graph is let go of outside of the lock
  const std::lock_guard lock(mutex_);
  if (const auto place = sends_.find(number); place != sends_.end()) {
    last = std::move(place->second);
    sends_.erase(place);
  }
}

std::shared_ptr<send_node> participant::find_send(std::uint64_t number) const {
  const std::lock_guard lock(mutex_);
  const auto place = sends_.find(number);
  return place == sends_.end() ? nullptr : place->second;
}

std::map<std::uint64_t, std::shared_ptr<send_node>> participant::sends() const {
  const std::lock_guard lock(mutex_);
  return sends_;
}

void participant::add_gradient(const at::Tensor& of, at::Tensor&& gradient) {
  const std::lock_guard lock(mutex_);
  if (!ended_) gradients_.add(of, std::move(gradient));
}

gradients participant::all_gradients() const {
  const std::lock_guard lock(mutex_);
  return gradients_;
}

pass_actor participant::actor(const std::function<pass_actor()>& make) {
  const std::lock_guard lock(mutex_);
  if (!actor_ && !ended_) actor_ = make();
  return actor_;
}

void participant::end() {
  decltype(sends_) sends;
  gradients last;
  pass_actor actor;
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    sends.swap(sends_);
    std::swap(last, gradients_);
    std::swap(actor, actor_);
  }
  if (actor) caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
}

}  // namespace troupe::autograd::detail
