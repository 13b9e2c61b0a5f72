#include "troupe/autograd/context/participant.hpp"

#include <algorithm>

#include "troupe/autograd/context/send_recv_nodes.hpp"
#include "troupe/messages/base/error.hpp"

namespace troupe::autograd::detail {

void throw_ended(std::uint64_t context) {
  throw unknown_context("Could not find autograd context with id: " + std::to_string(context) +
                        ": it has just ended");
}

void participant::know(peer& member) {
  const std::lock_guard lock(mutex_);
  if (ended_) throw_ended(id_);
  known_.insert(&member);
}

std::vector<peer*> participant::known() const {
  const std::lock_guard lock(mutex_);
  return {known_.begin(), known_.end()};
}

// `know` refuses members from now on, so all of them are in the list.
std::vector<peer*> participant::close() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  return {known_.begin(), known_.end()};
}

void participant::add_send(std::uint64_t number, peer& to, const std::vector<at::Tensor>& sent) {
  const std::shared_ptr<send_rpc_backward> made(new send_rpc_backward(to.rank(), sent),
                                                torch::autograd::deleteNode);
  const std::lock_guard lock(mutex_);
  if (!ended_) sends_.emplace(number, made);
}

void participant::remove_send(std::uint64_t number) {
  std::shared_ptr<send_rpc_backward> last;  // declared first: a graph is released without the lock
  const std::lock_guard lock(mutex_);
  if (const auto place = sends_.find(number); place != sends_.end()) {
    last = std::move(place->second);
    sends_.erase(place);
  }
}

void participant::add_receive(std::shared_ptr<recv_rpc_backward> one) {
  const std::lock_guard lock(mutex_);
  if (!ended_) receives_.push_back(std::move(one));
}

std::shared_ptr<send_rpc_backward> participant::find_send(std::uint64_t number) const {
  const std::lock_guard lock(mutex_);
  const auto place = sends_.find(number);
  return place == sends_.end() ? nullptr : place->second;
}

std::map<std::uint64_t, std::shared_ptr<send_rpc_backward>> participant::sends() const {
  const std::lock_guard lock(mutex_);
  return sends_;
}

std::vector<std::shared_ptr<recv_rpc_backward>> participant::receives() const {
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

// Returns a reference to the actor itself, which counts: an actor that may still be sent a message
// is not given to another context (pass_worker_pool).
caf::strong_actor_ptr participant::worker(const std::function<pass_worker()>& make) {
  const std::lock_guard lock(mutex_);
  if (!worker_.actor && !ended_) worker_ = make();
  return worker_.actor;
}

void participant::track(std::uint64_t pass, const std::shared_ptr<started_pass>& how) {
  const std::lock_guard lock(mutex_);
  if (!how)
    started_.erase(pass);
  else if (ended_)
    throw_ended(id_);
  else
    started_[pass] = how;
}

std::shared_ptr<started_pass> participant::tracked(std::uint64_t pass) const {
  const std::lock_guard lock(mutex_);
  const auto place = started_.find(pass);
  return place == started_.end() ? nullptr : place->second;
}

bool participant::evict(const peer& lost) {
  decltype(started_) started;
  bool took_part = false;
  {
    const std::lock_guard lock(mutex_);
    started = started_;
    took_part = std::any_of(known_.begin(), known_.end(), [&](auto* one) { return one == &lost; });
  }
  // Without the lock: continuations of a pass run as it fails.
  for (const auto& [number, pass] : started) pass->evict(lost);
  return took_part;
}

pass_worker participant::end(const std::string& why) {
  // Released without the lock, at the end of this function: the destructors of a graph and of
  // gradients run code of others.
  decltype(sends_) sends;
  decltype(receives_) receives;
  decltype(started_) started;
  gradients last;
  pass_worker worker;
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    sends.swap(sends_);
    receives.swap(receives_);
    started.swap(started_);
    std::swap(last, gradients_);
    std::swap(worker, worker_);
  }
  for (const auto& [number, pass] : started)
    pass->fail(std::make_exception_ptr(unknown_context(
        "Could not find autograd context with id: " + std::to_string(id_) + ": " + why)));
  return worker;
}

}  // namespace troupe::autograd::detail
