#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

namespace torch::autograd {
struct Node;
}

namespace troupe::autograd {

using node_ptr = std::shared_ptr<torch::autograd::Node>;

/// Where gradients enter a backward pass: at a root, or at the node of a message that was sent.
struct entry {
  node_ptr node;
  /// The inputs of `node` that the gradients are for, in their order. Empty: all of them.
  std::vector<std::uint32_t> inputs;
};

/// The part of a graph that a backward pass runs: every node that is reached from its entries, and
/// how many gradients each of them waits for (the dependency counts of libtorch's engine,
/// Engine::compute_dependencies). Holds the entries' nodes, and with them the graph, but no state
/// of a pass: it may be copied and used for several. One thread at a time; several plans may be
/// made over one graph at once.
///
/// A graph is released without recursion only if its nodes were made with the deleter
/// torch::autograd::deleteNode. libtorch's own are; those that a caller adds should be.
class backward_plan {
public:
  using visitor = std::function<void(const node_ptr&)>;

  /// Adds an entry, and walks what no earlier one has reached; calls `reached` for every new node,
  /// the entry's own included. Several entries may have one node, also with the same inputs, and
  /// entries may reach each other. Time and memory are linear in the number of new nodes and edges;
  /// there is no recursion. Returns the entry's number: 0, 1, 2, ...
  /// Throws invalid_argument for no node, a node without inputs, or an input that it does not have.
  std::size_t add(entry from, const visitor& reached = {});

  const std::vector<entry>& entries() const noexcept { return entries_; }
  /// How many nodes there are.
  std::size_t size() const noexcept { return awaited_.size(); }
  bool contains(const torch::autograd::Node* node) const { return awaited_.contains(node); }
  /// How many gradients `node` waits for: one for each edge that leads to it, and one for each of
  /// its entries. 0: it is not in the plan.
  std::size_t awaited(const torch::autograd::Node* node) const;
  /// The nodes of leaves (libtorch's AccumulateGrad), in the order they were reached.
  const std::vector<node_ptr>& leaves() const noexcept { return leaves_; }
  /// The other nodes from which no edge leads on, in the order they were reached.
  const std::vector<node_ptr>& ends() const noexcept { return ends_; }

private:
  friend class executor;

  std::vector<entry> entries_;
  std::unordered_map<const torch::autograd::Node*, std::size_t> awaited_;
  std::vector<node_ptr> leaves_;
  std::vector<node_ptr> ends_;
};

/// A visitor that appends the nodes of class Kind to `into`, which must outlive it.
template <class Kind>
backward_plan::visitor collect(std::vector<std::shared_ptr<Kind>>& into) {
  return [&into](const node_ptr& node) {
    if (auto one = std::dynamic_pointer_cast<Kind>(node)) into.push_back(std::move(one));
  };
}

}  // namespace troupe::autograd
