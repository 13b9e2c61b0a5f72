#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "troupe/actors/cluster/peer_table.hpp"
#include "troupe/autograd/context/gradients.hpp"
#include "troupe/autograd/context/pass_worker.hpp"

namespace troupe::autograd::detail {

class default_scope;
class recv_rpc_backward;
class send_rpc_backward;

/// Throws unknown_context.
[[noreturn]] void throw_ended(std::uint64_t context);

/// One node's part in a context: what it has sent and received in it, the members it has exchanged
/// messages with, and the gradients of its own leaves. Thread-safe. Backward passes run in its
/// worker, an actor.
class participant {
public:
  participant(std::uint64_t id, peer& opener) : id_(id), opener_(opener) {}

  std::uint64_t id() const noexcept { return id_; }
  peer& opener() const noexcept { return opener_; }

  /// `member` takes part too. Throws unknown_context: the context has ended.
  void know(peer& member);
  /// By rank, then by incarnation.
  std::vector<peer*> known() const;

  /// Refuses new members from now on. Returns those that must be notified of the end.
  std::vector<peer*> close();

  /// Records a message to `to`, with those of its tensors that require gradients.
  void add_send(std::uint64_t number, peer& to, const std::vector<at::Tensor>& sent);
  void remove_send(std::uint64_t number);
  void add_receive(std::shared_ptr<recv_rpc_backward> one);

  /// nullptr: no message of that number was recorded.
  std::shared_ptr<send_rpc_backward> find_send(std::uint64_t number) const;
  std::map<std::uint64_t, std::shared_ptr<send_rpc_backward>> sends() const;
  std::vector<std::shared_ptr<recv_rpc_backward>> receives() const;

  /// Makes this a default context. Call it before another thread has the participant.
  void belong_to(std::weak_ptr<default_scope> scope);
  /// Expired: this is no default context, or its scope is over.
  std::weak_ptr<default_scope> scope() const;

  /// Adds to the gradient of a leaf of this node.
  void add_gradient(const at::Tensor& of, at::Tensor&& gradient);
  gradients all_gradients() const;

  /// The actor that runs its passes; `make` provides one at the first call, under the participant's
  /// lock. nullptr: the context has ended.
  caf::strong_actor_ptr worker(const std::function<pass_worker()>& make);

  /// The passes that this node has started, by number. nullptr: the pass is over. Throws
  /// unknown_context: the context has ended.
  void track(std::uint64_t pass, const std::shared_ptr<started_pass>& how);
  std::shared_ptr<started_pass> tracked(std::uint64_t pass) const;

  /// A node is lost. Returns whether it took part, as far as this node knows.
  bool evict(const peer& lost);

  /// Releases the graph and fails the passes under way with `why`. Returns the worker, whose actor
  /// is nullptr if there is none.
  pass_worker end(const std::string& why);

private:
  // Not by address, so that a simulation takes the same course each time.
  struct by_rank {
    bool operator()(const peer* a, const peer* b) const noexcept {
      return std::pair(a->rank(), a->incarnation) < std::pair(b->rank(), b->incarnation);
    }
  };

  const std::uint64_t id_;
  peer& opener_;
  // Nothing else is locked under it, but for what pass_workers::take needs.
  mutable std::mutex mutex_;
  std::set<peer*, by_rank> known_;
  std::map<std::uint64_t, std::shared_ptr<send_rpc_backward>> sends_;
  std::vector<std::shared_ptr<recv_rpc_backward>> receives_;  // for recorded_graph only
  std::weak_ptr<default_scope> scope_;
  gradients gradients_;
  std::map<std::uint64_t, std::shared_ptr<started_pass>> started_;
  pass_worker worker_;
  bool ended_ = false;
};

}  // namespace troupe::autograd::detail
