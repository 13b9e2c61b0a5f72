#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "troupe/actors/groups/schedules/schedule.hpp"

namespace troupe::groups::schedules {

/// By what the ranks of a group carry an operation out.
enum class algorithm : std::uint8_t {
  direct,    ///< every rank and every other, pairwise
  doubling,  ///< recursive doubling
  halving,   ///< recursive halving, then doubling: Rabenseifner's
  ring,
  bruck,
  tree,     ///< binomial
  scatter,  ///< a tree that scatters, and a ring: van de Geijn's
  chain,    ///< in pieces
};
inline constexpr int algorithms = 8;

const char* to_string(algorithm one) noexcept;
std::optional<algorithm> algorithm_named(std::string_view name) noexcept;

/// What they do together.
enum class task : std::uint8_t { all_reduce, reduce_scatter, all_gather, broadcast, all_to_all };
inline constexpr int tasks = 5;

const char* to_string(task one) noexcept;

/// Is there such a schedule?
bool has(task what, algorithm by, int ranks) noexcept;

/// Of one rank. `root` of a broadcast; `pieces` of a chain.
schedule make(task what, algorithm by, int rank, int ranks, int root = 0, int pieces = 1);

/// R. Hockney's model ("The communication challenge for MPP", 1994): a message of m bytes takes
/// alpha + beta m, and to combine m bytes takes gamma m. A rank can send one and receive one at a
/// time.
struct link {
  double alpha = 0;  ///< seconds for a message
  double beta = 0;   ///< seconds for a byte
  double gamma = 0;  ///< seconds for a byte that is combined
};

/// What lies on the critical path.
struct cost {
  double messages = 0;
  double bytes = 0;
  double combined = 0;

  double seconds(const link& over) const noexcept {
    return over.alpha * messages + over.beta * bytes + over.gamma * combined;
  }
};

/// The formulas of the schedules, for `bytes` on each rank (all_gather: on all together). Exact
/// where blocks are equal, of a scatter and of Bruck's all_to_all where the ranks are a power of
/// two, too; there an upper bound otherwise.
cost cost_of(task what, algorithm by, int ranks, double bytes, int pieces = 1) noexcept;

/// The number of pieces by which a chain takes the least time: at least 1.
int best_pieces(int ranks, double bytes, const link& over) noexcept;

}  // namespace troupe::groups::schedules
