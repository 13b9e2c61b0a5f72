#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "troupe/actors/groups/backend/operation.hpp"

namespace troupe::groups {

/// How the ranks of one host carry out an operation.
enum class way : std::uint8_t {
  box,     ///< the data goes through shared memory, with the entries of the ranks
  direct,  ///< ranks read and write each other's tensors, all of which they have mapped
  staged,  ///< the data goes through shared memory in pieces
  lend,    ///< nothing moves: outputs become aliases of the tensors of others, until one is written
  shared,  ///< there is one result, and all outputs become aliases of it
};
const char* to_string(way one) noexcept;

/// Which way operations take, by kind and by the bytes of one rank's tensor. A way that is not
/// possible is replaced: `direct`, where a tensor lies in memory that the others have not mapped,
/// by `cma`, and where that is not possible either, and `box`, where the data does not fit, by
/// `staged`, which is always possible; `lend` and `shared`, where an output of any rank is only a
/// part of its storage, by `direct`. All ranks of a group have the same table.
class collective_ways {
public:
  /// As measured, for `ranks` ranks that share `cores` cores.
  static collective_ways measured(int ranks, int cores);

  /// Changes it by rules such as "all_reduce:direct>=8192,broadcast:staged>=0": each holds from so
  /// many bytes on, instead of what the table had there, up to a later rule in the text.
  /// "piece=65536" and "streaming=1048576" set the members of these names. What begins with
  /// "network." is for network_ways. Throws invalid_argument that says what is wrong with `rules`.
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

  /// Does `kind` take that way from any number of bytes on? All ranks know, also where each has
  /// another number.
  bool may_take(operation_kind kind, way one) const noexcept;

  /// The rules of all kinds and the numbers, in the form that `apply` takes.
  std::string text() const;

  /// The same for people, in lines: what is chosen from how many bytes on, and why.
  std::string explanation() const;

  /// Bytes of all tensors of one operation from which on results go past the caches, where they
  /// replace nothing that is read: what the last cache holds.
  std::size_t streaming_from = 32 << 20;
  /// Bytes of a part from which on ranks that cannot map a tensor have the kernel read it out of
  /// its process (process_vm_readv, "cma"), where the machine lets them, in operations that only
  /// move.
  std::size_t cma_from = 512 << 10;
  /// Bytes that are staged at once, at most.
  std::size_t piece = 128 << 10;
  static constexpr std::size_t smallest_piece = 4096;

private:
  struct rule {
    std::size_t from;
    way takes;
  };

  void set(operation_kind kind, std::size_t from, way takes);
  void set_number(std::string_view rule, std::string_view name, std::size_t bytes);

  std::array<std::vector<rule>, operation_kinds> rules_;
};

/// Bytes of the last cache of this machine; 32 MiB where the system does not say.
std::size_t last_cache_bytes();

}  // namespace troupe::groups
