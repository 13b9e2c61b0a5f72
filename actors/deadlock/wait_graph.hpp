#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>

#include "troupe/actors/deadlock/wait_messages.hpp"
#include "troupe/transport/transport.hpp"

namespace troupe::deadlock {

/// Which handlers of the job wait for which, as the nodes have reported. A handler waits for one
/// answer; a call at a node whose threads are all held waits for any of those.
class wait_graph {
public:
  /// A handler: its node, and the number of its wait there.
  using place = std::pair<incarnation, std::uint64_t>;

  void add(const incarnation& node, const held_handler& one);

  /// What `node` reports of the questions `asked`: an outlook for each, in order. Questions without
  /// one are ignored.
  void add(const incarnation& node, const std::vector<question>& asked, const report& what);

  /// Questions that have not been asked yet, by the node that knows: for each node no more than a
  /// message may list, the others next time. They count as asked from now on.
  std::map<incarnation, std::vector<question>> take_open_questions();

  /// Handlers that wait, directly or indirectly, only for each other, by node. Pre: all questions
  /// have been answered. If all of these have waited without a break since they were added, none of
  /// them can ever go on.
  std::map<incarnation, std::vector<std::uint64_t>> find_stuck();

  /// How to end a deadlock: a wait that is to fail, or calls that are not to run.
  struct remedy {
    std::string text;        ///< the error's: names limits and handlers
    std::string handler;     ///< whose wait, or call, it is
    incarnation node;        ///< where
    std::uint64_t wait = 0;  ///< 0: the calls
    std::vector<question> calls;
  };
  /// After `find_stuck`. Every node that searches finds the same ones. `name_of`: a node's name.
  std::vector<remedy> remedies(const std::function<std::string(transport::rank_t)>& name_of) const;

private:
  struct node_part {
    std::map<std::uint64_t, held_handler> handlers;
    std::uint32_t max_threads = 0;  // if all handlers are known
  };

  const held_handler* find(const place& where) const;
  const outlook& outlook_of(const held_handler& one) const;
  bool stuck(const place& where) const { return stuck_.count(where) != 0; }
  std::string described(const place& where,
                        const std::function<std::string(transport::rank_t)>& name_of) const;

  std::map<incarnation, node_part> nodes_;
  std::map<question, outlook> outlooks_;
  std::set<question> known_;
  std::map<incarnation, std::vector<question>> open_;  // of these, not asked yet
  std::set<place> stuck_;
};

}  // namespace troupe::deadlock
