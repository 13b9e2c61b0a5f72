#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "troupe/actors/cluster/worker_info.hpp"
#include "troupe/actors/groups/network/endpoint.hpp"
#include "troupe/actors/groups/process_group/actor_watch.hpp"
#include "troupe/actors/groups/process_group/group_core.hpp"
#include "troupe/actors/groups/process_group/group_options.hpp"
#include "troupe/actors/node/node_protocol.hpp"

namespace troupe::groups {

/// The process groups of one node. Thread-safe.
class group_service final : public troupe::detail::node_protocol {
public:
  explicit group_service(node_core& node);
  ~group_service() override;

  /// That of `node`. Throws not_initialized if it was made before groups were there.
  static group_service& of(node_core& node);

  /// The group of all nodes that began the job together, or what it was shrunk to.
  /// `options`, but for its name, if this is the first call.
  std::shared_ptr<group_core> world(const group_options& options = {});
  void replace_world(std::shared_ptr<group_core> by);

  /// Makes a group of which this node, or an actor of it, is a member. Throws invalid_argument if
  /// the name was used before, on this node or by that actor, or if a member is no node of the job.
  /// `actors`: by rank, if they were not in a group here before.
  std::shared_ptr<group_core> make(group_description about,
                                   const std::vector<caf::strong_actor_ptr>& actors = {});

  /// How many groups this member of this node, an actor or (0) the node, has named by `stem`
  /// before.
  std::uint64_t count(const std::string& stem, std::uint64_t actor = 0);

  /// A name for a group of actors that is made on this node: no other group of the job has it.
  std::string new_actors_name();

  // node_protocol
  void deliver(decoder& body, peer& from) override { endpoint_->deliver(body, from); }
  void evict(const peer& whom) noexcept override { endpoint_->evict(whom); }
  void close() noexcept override { endpoint_->close(); }

private:
  std::shared_ptr<group_core> make_locked(group_description about);
  std::vector<peer*> nodes_of(const group_description& about) const;

  node_core& node_;
  const std::vector<worker_info> founders_;
  const std::uint32_t joined_;  // the epoch
  const std::shared_ptr<network::endpoint> endpoint_;
  const std::shared_ptr<actor_watch> watch_ = std::make_shared<actor_watch>();

  std::mutex mutex_;
  std::shared_ptr<group_core> world_;
  std::vector<std::weak_ptr<group_core>> all_;
  std::map<std::pair<std::string, std::uint64_t>, std::uint64_t> counts_;
};

/// The node that an actor is on, as `here` knows it.
const peer& home_of(node_core& here, const caf::strong_actor_ptr& actor);

}  // namespace troupe::groups
