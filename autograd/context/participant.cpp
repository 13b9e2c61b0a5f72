#include "troupe/autograd/context/participant.hpp"

#include "troupe/autograd/pass/pass_tracker.hpp"

namespace troupe::autograd::detail {

void throw_ended(std::uint64_t context) {
  throw unknown_context("Could not find autograd context with id: " + std::to_string(context) +
                        ": it has just ended");
}

void participant::know(peer& whom) {
  const std::lock_guard lock(mutex_);
  if (ended_) throw_ended(id_);
  known_.insert(&whom);
}

std::vector<peer*> participant::known() const {
  const std::lock_guard lock(mutex_);
  return {known_.begin(), known_.end()};
}

std::vector<peer*> participant::close() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  return {known_.begin(), known_.end()};
}

void participant::add_send(std::uint64_t number, peer& to, const std::vector<at::Tensor>& sent) {
  const std::shared_ptr<send_node> made(new send_node(to.rank(), sent),
                                        torch::autograd::deleteNode);
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

void participant::add_receive(std::shared_ptr<receive_node> one) {
  const std::lock_guard lock(mutex_);
  if (!ended_) receives_.push_back(std::move(one));
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

std::vector<std::shared_ptr<receive_node>> participant::receives() const {
  const std::lock_guard lock(mutex_);
  return receives_;
}

void participant::belong_to(std::weak_ptr<default_scope> scope) {
  const std::lock_guard lock(mutex_);
  scope_ = std::move(scope);
}

std::weak_ptr<default_scope> participant::scope() const {
  const std::lock_guard lock(mutex_);
  return scope_;
}

void participant::add_gradient(const at::Tensor& of, at::Tensor&& gradient) {
  const std::lock_guard lock(mutex_);
  if (!ended_) gradients_.add(of, std::move(gradient));
}

gradients participant::all_gradients() const {
  const std::lock_guard lock(mutex_);
  return gradients_;
}

pass_actor participant::actor(const std::function<pass_worker()>& hire) {
  const std::lock_guard lock(mutex_);
  if (!worker_.actor && !ended_) worker_ = hire();
  return worker_.actor;
}

void participant::watch(std::uint64_t pass, const std::shared_ptr<pass_watch>& watch) {
  const std::lock_guard lock(mutex_);
  if (!watch)
    watches_.erase(pass);
  else if (ended_)
    throw_ended(id_);
  else
    watches_[pass] = watch;
}

std::shared_ptr<pass_watch> participant::watch_of(std::uint64_t pass) const {
  const std::lock_guard lock(mutex_);
  const auto place = watches_.find(pass);
  return place == watches_.end() ? nullptr : place->second;
}

void participant::evict(const peer& whom) {
  decltype(watches_) watches;
  {
    const std::lock_guard lock(mutex_);
    watches = watches_;
  }
  for (const auto& [number, watch] : watches) watch->evict(whom);
}

pass_worker participant::end(const std::string& why) {
  decltype(sends_) sends;
  decltype(receives_) receives;
  decltype(watches_) watches;
  gradients last;
  pass_worker worker;
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    sends.swap(sends_);
    receives.swap(receives_);
    watches.swap(watches_);
    std::swap(last, gradients_);
    std::swap(worker, worker_);
  }
  for (const auto& [number, watch] : watches)
    watch->fail(std::make_exception_ptr(unknown_context(
        "Could not find autograd context with id: " + std::to_string(id_) + ": " + why)));
  return worker;
}

}  // namespace troupe::autograd::detail
