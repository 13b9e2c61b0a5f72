#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "troupe/actors/node/node.hpp"
#include "troupe/autograd/context/send_recv_nodes.hpp"
#include "troupe/autograd/context/gradients.hpp"
#include "troupe/autograd/pass/pass_messages.hpp"

namespace troupe::autograd::detail {

class pass_desk;
class pass_watch;

/// An actor that runs passes, and what it knows, which goes when it ends.
struct pass_worker {
  pass_actor actor;
  std::weak_ptr<pass_desk> desk;
};

/// Throws unknown_context.
[[noreturn]] void throw_ended(std::uint64_t context);

/// One node's part in a context: what it has sent in it and to whom, and the gradients of its own
/// leaves. Thread-safe; the backward passes are its actor's.
class participant {
public:
  participant(std::uint64_t id, peer& opener) : id_(id), opener_(opener) {}

  std::uint64_t id() const noexcept { return id_; }
  peer& opener() const noexcept { return opener_; }

  /// `whom` takes part too. Throws unknown_context: it has ended.
  void know(peer& whom);
  std::vector<peer*> known() const;

  /// It ends, and goes to nobody from now on. Returns all who have to be told of it.
  std::vector<peer*> close();

  /// The message's tensors that require gradients.
  void add_send(std::uint64_t number, peer& to, const std::vector<at::Tensor>& sent);
  void remove_send(std::uint64_t number);
  void add_receive(std::shared_ptr<receive_node> one);

  /// Null: there is none of that number.
  std::shared_ptr<send_node> find_send(std::uint64_t number) const;
  std::map<std::uint64_t, std::shared_ptr<send_node>> sends() const;
  std::vector<std::shared_ptr<receive_node>> receives() const;

  /// It is a default context: before anybody else knows of it.
  void belong_to(std::weak_ptr<default_scope> scope);
  /// Expired: it is none.
  std::weak_ptr<default_scope> scope() const;

  /// Adds to the gradient of a leaf of this node.
  void add_gradient(const at::Tensor& of, at::Tensor&& gradient);
  gradients all_gradients() const;

  /// The actor that runs its passes, which `hire` finds at the first call. Null: it has ended.
  pass_actor actor(const std::function<pass_worker()>& hire);

  /// The passes that this node has started, by number. `watch`: of its latest round; nullptr: it is
  /// over.
  void watch(std::uint64_t pass, const std::shared_ptr<pass_watch>& watch);
  std::shared_ptr<pass_watch> watch_of(std::uint64_t pass) const;

  /// A node is lost.
  void evict(const peer& whom);

  /// Lets go of the graph: what is under way fails for that reason. Returns its actor, if any.
  pass_worker end(const std::string& why);

private:
  // Not by address, so that a simulation does the same each time.
  struct by_rank {
    bool operator()(const peer* a, const peer* b) const noexcept {
      return std::pair(a->rank(), a->incarnation) < std::pair(b->rank(), b->incarnation);
    }
  };

  const std::uint64_t id_;
  peer& opener_;
  mutable std::mutex mutex_;
  std::set<peer*, by_rank> known_;
  std::map<std::uint64_t, std::shared_ptr<send_node>> sends_;
  std::vector<std::shared_ptr<receive_node>> receives_;  // for who looks at the graph
  std::weak_ptr<default_scope> scope_;
  gradients gradients_;
  std::map<std::uint64_t, std::shared_ptr<pass_watch>> watches_;
  pass_worker worker_;
  bool ended_ = false;
};

}  // namespace troupe::autograd::detail
