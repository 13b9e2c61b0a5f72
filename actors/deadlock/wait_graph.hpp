#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>

#include "troupe/actors/deadlock/wait_messages.hpp"

namespace troupe::deadlock {

/// Which handlers of the job wait for which, as far as the nodes have told. A handler waits for one
/// answer; a call that has come to a node whose threads are all held waits for any of those.
class wait_graph {
public:
  /// A handler: its node, and the number of its wait there.
  using place = std::pair<incarnation, std::uint64_t>;

  void add(const incarnation& node, const held_handler& one);

  /// What `node` says of `asked`, which has as many questions as it has outlooks; others are left
  /// out.
  void add(const incarnation& node, const std::vector<question>& asked, const report& what);

  /// Questions that nobody has been asked yet, by the node that can tell: of each no more than a
  /// note may list, the others next time. They count as asked.
  std::map<incarnation, std::vector<question>> take_open_questions();

  /// Handlers that wait, directly or not, for nothing but each other, by node. Pre: all questions
  /// have been answered. If all of these have gone on waiting since they were added, none of them
  /// can ever go on.
  std::map<incarnation, std::vector<std::uint64_t>> find_stuck();

  /// How to end it, after `find_stuck`: the waits that are to fail, or the calls that are not to
  /// run. Every node that looks chooses the same.
  struct remedy {
    std::string text;        ///< why: names limits and handlers
    std::string handler;     ///< whose wait, or call, it is
    incarnation node;        ///< where
    std::uint64_t wait = 0;  ///< 0: the calls
    std::vector<question> calls;
  };
  /// `name_of` a node.
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
  std::set<question> heard_of_;
  std::map<incarnation, std::vector<question>> open_;  // of these, nobody has been asked
  std::set<place> stuck_;
};

}  // namespace troupe::deadlock
