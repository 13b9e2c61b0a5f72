#pragma once

// Ranks of a process group as threads of a test.

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <troupe/collectives.hpp>
#include <vector>

#include "tests/actors/node/job.hpp"
#include "troupe/actors/simulation/simulation.hpp"

namespace troupe::test {

inline std::vector<std::string> rank_names(int count) {
  std::vector<std::string> out;
  for (int rank = 0; rank < count; ++rank) out.push_back("w" + std::to_string(rank));
  return out;
}

/// Waits for all of them, then throws the first error.
template <class Future>
void get_all(std::vector<Future>& running) {
  std::exception_ptr first;
  for (auto& one : running) {
    try {
      one.get();
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

/// Runs `body` with each of `things`, and its place, on a thread of its own each. Throws what the
/// first of them threw, when all have ended.
template <class Things, class F>
void on_each(Things& things, F body) {
  std::vector<std::future<void>> running;
  for (std::size_t i = 0; i < things.size(); ++i)
    running.push_back(
        std::async(std::launch::async, [&, i] { body(things[i], static_cast<int>(i)); }));
  get_all(running);
}

/// A job of nodes in this process, and a group of all of them.
class local_group {
public:
  explicit local_group(int size, const group_options& options = {})
      : nodes(local_nodes(rank_names(size))), groups(nodes.size()) {
    on_each(nodes, [&](const node& one, int rank) {
      std::vector<int> all(nodes.size());
      for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(i);
      groups[static_cast<std::size_t>(rank)] = one.world().new_group(all, options);
    });
  }

  /// `body(group, rank)` on all ranks.
  template <class F>
  void run(F body) {
    on_each(groups, body);
  }

  std::vector<node> nodes;
  std::vector<process_group> groups;
};

/// What `f` throws as a T; empty if it throws none.
template <class T, class F>
std::string thrown_text(F&& f) {
  try {
    f();
  } catch (const T& e) {
    return e.what();
  }
  return {};
}

/// Runs `body(world, rank)` on all nodes of a simulation, each on a thread of its own, and waits.
template <class F>
void on_simulated(simulation& cluster, const std::vector<node>& nodes, F body) {
  std::vector<future<void>> running;
  for (const auto& one : nodes)
    running.push_back(cluster.spawn([&body, one] { body(one, static_cast<int>(one.rank())); }));
  get_all(running);
}

}  // namespace troupe::test
