#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "troupe/actors/groups/backend/operation.hpp"

namespace troupe::groups {

/// How the ranks of one host carry out an operation.
enum class way : std::uint8_t {
  box,     ///< the data goes through shared memory, with the entries of the ranks
  direct,  ///< ranks read and write each other's tensors, all of which they have mapped
  staged,  ///< the data goes through shared memory in pieces
};
const char* to_string(way one) noexcept;

/// Which way operations take, by kind and by the bytes of one rank's tensor. A way that is not
/// possible is replaced by staged, which always is: `direct` where a tensor lies in memory that the
/// others have not mapped, `box` where the data does not fit. All ranks of a group have the same
/// table.
class collective_ways {
public:
  /// As measured, for `ranks` ranks that share `cores` cores.
  static collective_ways measured(int ranks, int cores);

  /// Changes it by rules such as "all_reduce:direct>=8192,broadcast:staged>=0": from so many bytes
  /// on, up to the next rule of that kind. Throws invalid_argument that says what is wrong with
  /// `rules`.
  void apply(const std::string& rules);

  way choose(operation_kind kind, std::size_t bytes) const noexcept {
    const auto& rules = rules_[static_cast<std::size_t>(kind)];
    auto chosen = way::staged;
    for (const auto& one : rules) {
      if (one.from > bytes) break;
      chosen = one.takes;
    }
    return chosen;
  }

  /// The rules of all kinds, in the form that `apply` takes.
  std::string text() const;

  /// Bytes of all tensors of one operation from which on results go past the caches, where they
  /// replace nothing that is read: what the last cache holds.
  std::size_t streaming_from = 32 << 20;
  /// Bytes that are staged at once, at most.
  std::size_t piece = 128 << 10;

private:
  struct rule {
    std::size_t from;
    way takes;
  };

  void set(operation_kind kind, std::size_t from, way takes);

  std::array<std::vector<rule>, operation_kinds> rules_;
};

/// Bytes of the last cache of this machine; 32 MiB where the system does not say.
std::size_t last_cache_bytes();

}  // namespace troupe::groups
