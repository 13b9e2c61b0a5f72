#pragma once

#include <unistd.h>

#include <chrono>
#include <thread>

#include "tests/actors/remote/counter.hpp"

namespace troupe::test {

// What the ranks of rank_program do for the test. Both programs have these under one name.

inline int process_id() { return static_cast<int>(getpid()); }

inline int plus_one(int x) { return x + 1; }

inline at::Tensor same(at::Tensor x) { return x; }

/// Adds to a counter of any node and returns what it holds then.
inline int add_to(const counter& whose, int amount) { return request(whose, add{amount}).get(); }

/// Makes a counter on any node.
inline counter make_counter(const std::string& where, int start) {
  return this_node().spawn_on<count_from>(where, start);
}

/// For longer than any test takes.
inline void never_answer() { std::this_thread::sleep_for(std::chrono::minutes(10)); }

/// What a call of `never_answer` there ends with: the name of the lost node, or what else was
/// thrown.
inline std::string wait_for_the_loss_of(const std::string& peer) {
  try {
    this_node().rpc_sync<&never_answer>(peer, timeout(std::chrono::seconds(0)));
    return "an answer";
  } catch (const peer_lost& e) {
    return e.node();
  } catch (const std::exception& e) {
    return std::string("something else: ") + e.what();
  }
}

}  // namespace troupe::test
