#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "troupe/actors/groups/backend/operation.hpp"
#include "troupe/actors/groups/network/collective_run.hpp"
#include "troupe/actors/groups/network/combining_order.hpp"
#include "troupe/actors/groups/network/pairwise.hpp"
#include "troupe/actors/groups/network/scheduled.hpp"
#include "troupe/actors/groups/network/tensor_bytes.hpp"
#include "troupe/actors/groups/schedules/network_ways.hpp"

namespace troupe::groups::network {

/// One collective of one rank, by messages. One thread.
class collective {
public:
  /// All are alive until it ends.
  collective(group_channel& channel, const network_ways& ways, const operation& what,
             const time_limit& limit);

  /// Throws what `collective_run` throws, and invalid_argument for a send or a recv.
  void carry_out();

private:
  // Contributions of up to this many bytes travel with the entry.
  static constexpr std::size_t most_with_entry = 8 * 1024;

  static std::span<std::byte> place_in(const at::Tensor& tensor) {
    return {memory_of(tensor), tensor.nbytes()};
  }
  static owned_bytes all_of(const at::Tensor& tensor) { return {bytes_of(tensor), &tensor}; }

  void take_outputs() const;
  static bool is_small(std::size_t bytes) noexcept { return bytes <= most_with_entry; }
  bool in_order() const noexcept { return goes_in_order(what_, ways_); }
  void run_plan(schedules::task by_task, schedules::algorithm by, std::byte* memory,
                std::size_t bytes, int pieces = 1);
  void run_plan(const schedules::schedule& plan, schedules::algorithm by, const block_memory& data,
                std::size_t bytes);
  void broadcast();
  int chain_pieces(std::size_t bytes) const noexcept;
  std::span<const std::byte> checked(std::span<const std::byte> bytes, std::size_t size) const;
  void all_reduce();
  // The part of `bytes` that `rank` combines.
  std::span<const std::byte> slice(std::span<const std::byte> bytes, int rank) const;
  template <class Input, class Result>
  void reduce_pairs(results_go results, const Input& input_of, const Result& result_of);
  void combine(std::span<const std::byte* const> sources, std::span<std::byte* const> to,
               std::size_t bytes) const;
  void reduce();
  // What all have sent with their entries, `mine` on this rank: `size` bytes from `begin` on.
  void combine_entries(std::span<const std::byte> mine, std::size_t begin, std::size_t size,
                       std::byte* to) const;
  template <class From, class To>
  void exchange(const From& bytes_for, const To& place_of, bool same_for_all = false,
                bool with_entry = true, int collector = -1);
  void all_gather();
  void all_gather_into_tensor();
  schedules::algorithm way_of_gather(const at::Tensor& input) const;
  void gather();
  void scatter();
  void reduce_scatter();
  void reduce_scatter_tensor();
  bool scatters_by_ring(std::size_t bytes) const noexcept;
  void reduce_by_ring(std::span<const at::Tensor> parts, const at::Tensor& result);
  void all_to_all();
  void all_to_all_single();
  // In bytes, of each part and of the end.
  std::vector<std::size_t> offsets(std::span<const std::int64_t> splits) const;
  bool all_go_by_bruck(std::size_t each);
  template <class From, class To>
  void exchange_by_bruck(const From& bytes_for, const To& place_of, std::size_t each);

  collective_run run_;
  const network_ways& ways_;
  const operation& what_;
  const int me_;
  const int size_;
  const std::size_t element_;
};

}  // namespace troupe::groups::network
