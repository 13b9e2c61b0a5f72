#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "troupe/actors/groups/backend/collective_error.hpp"
#include "troupe/actors/groups/network/packet.hpp"

namespace troupe::groups::network {

/// What a rank says as it enters a collective: what it asks for, how much it sends to each rank and
/// expects from each, and its contribution, if that is small and the same for all.
struct entry {
  operation_signature asked;
  double factor = 1;                    ///< of a premul_sum
  std::vector<std::uint64_t> sends;     ///< elements, by rank; or of each tensor
  std::vector<std::uint64_t> receives;  ///< elements, by rank
  std::string way;                      ///< by what the rank carries it out; empty: by `direct`
  std::vector<std::byte> data;
};

/// The entry of a rank of a group of `size`, without data.
entry entry_of(const operation& what, int size);

packet write_entry(const entry& what);
/// Throws decode_error.
entry read_entry(std::span<const std::byte> bytes);

/// Throws collective_mismatch if the ranks' entries do not fit together. All ranks find the same.
void check_entries(const operation_place& where, std::span<const entry> entries);

}  // namespace troupe::groups::network
