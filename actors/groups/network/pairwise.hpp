#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "troupe/actors/groups/network/collective_run.hpp"
#include "troupe/messages/base/function_ref.hpp"

namespace troupe::groups::network {

// What every rank exchanges with every other (schedules/exchanges.hpp, reductions.hpp), in pieces
// that leave together. Of large ones the tensors' own memory is sent, without a copy: its owner
// goes on when all have it.

/// Bytes and the tensor that they are of.
struct owned_bytes {
  std::span<const std::byte> bytes;
  const at::Tensor* owner;
};

/// A rank's bytes for each rank, and where those of each belong.
struct pairwise_exchange {
  std::size_t element;              ///< bytes that are not divided
  std::size_t piece;                ///< bytes of a message, at most
  std::size_t window;               ///< bytes sent before as many have come
  bool same_for_all = false;        ///< each rank has the same for every other
  std::size_t most_with_entry = 0;  ///< what a rank has for all together, to be sent with its entry
  int collector = -1;               ///< the only one that is sent to, or -1; it grants what is sent
  bool with_entry = true;           ///< the first of its run, whose entries may have what is small
  function_ref<owned_bytes(int to)> bytes_for;
  function_ref<std::span<std::byte>(int from)> place_of;
};

/// Calls `run`'s entry itself, and sends all that is small with it, or else the first pieces. With
/// what a rank sends by entry the entries say how many elements it has for each.
void exchange_pairwise(collective_run& run, const pairwise_exchange& how);

/// Who gets the results of a pairwise reduction.
enum class results_go : std::uint8_t { nowhere, to_root, to_all };

/// What each rank has for each, combined in the order of the ranks.
struct pairwise_reduction {
  std::size_t element;
  std::size_t piece;
  std::size_t window;
  results_go results = results_go::nowhere;
  int root = 0;
  /// What this rank has for the part of rank `part`.
  function_ref<owned_bytes(int part)> input_of;
  /// Where the result of that part is written: this rank's own, and with results those of others.
  function_ref<std::byte*(int part)> result_of;
  /// Combines `sources`, by rank, into all `destinations`.
  function_ref<void(std::span<const std::byte* const> sources,
                    std::span<std::byte* const> destinations, std::size_t bytes)>
      combine;
};

/// Calls `run`'s entry itself, and sends the first pieces with it.
void reduce_pairwise(collective_run& run, const pairwise_reduction& how);

}  // namespace troupe::groups::network
