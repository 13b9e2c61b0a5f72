#pragma once

#include <caf/attachable.hpp>
#include <caf/error.hpp>

#include <functional>
#include <utility>

namespace troupe {

class peer;

/// Reports the end of an actor to a node that watches it. At most one for each actor and node: a
/// node watches again with each new proxy, and the actor may live for long.
class peer_watch final : public caf::attachable {
public:
  using report = std::function<void(const caf::error&)>;

  peer_watch(const peer& by, report how) : by_(&by), report_(std::move(how)) {}

  /// Selects the watch of that node.
  static token of(const peer& by) { return {own_type, &by}; }

  void actor_exited(const caf::error& why, caf::execution_unit*) override { report_(why); }
  bool matches(const token& what) override { return what.subtype == own_type && what.ptr == by_; }

private:
  static constexpr std::size_t own_type = 0x74726f75;  // none of CAF's, which are small

  const peer* const by_;
  const report report_;
};

}  // namespace troupe
