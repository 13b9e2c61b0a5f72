#pragma once

#include <memory>
#include <string>

#include "troupe/actors/cluster/peer_table.hpp"
#include "troupe/actors/contexts/context_interceptor.hpp"

namespace troupe::detail {

/// A node's part in distributed autograd contexts, if its program knows any, and the node's name
/// for errors. Set up before the node is open; thread-safe afterwards.
class node_contexts {
public:
  node_contexts(const peer_table& peers, transport::rank_t self) noexcept
      : peers_(peers), self_(self) {}

  /// nullptr: none has been provided.
  context_interceptor* records() const noexcept { return records_.get(); }
  void set_interceptor(std::unique_ptr<context_interceptor> records) {
    records_ = std::move(records);
  }

  const std::string& own_name() const { return peers_.find(self_)->info.name; }

private:
  const peer_table& peers_;
  const transport::rank_t self_;
  std::unique_ptr<context_interceptor> records_;
};

}  // namespace troupe::detail
