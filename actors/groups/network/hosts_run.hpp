#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>
#include <vector>

#include "troupe/actors/groups/backend/backend.hpp"
#include "troupe/actors/groups/network/collective_run.hpp"
#include "troupe/actors/groups/schedules/network_ways.hpp"

namespace troupe::groups::network {

/// Ranks by host: `each` on every one of `hosts`, those of a host one after the other.
struct host_grid {
  int hosts = 0;
  int each = 0;
  int host = 0;   ///< this rank's
  int place = 0;  ///< of this rank on it

  int rank_at(int on_host, int at_place) const noexcept { return on_host * each + at_place; }
};

/// One collective of one rank through hosts: see hosts_backend. `local` is the backend of the ranks
/// of this host. Calls the entry itself.
class hosts_run {
public:
  hosts_run(backend& local, group_channel& channel, const network_ways& ways, const host_grid& grid,
            const operation& what, const time_limit& limit)
      : local_(local),
        run_(channel, what, limit, ways.enters_directly()),
        grid_(grid),
        what_(what),
        limit_(limit),
        stripe_(ways.piece * static_cast<std::size_t>(grid.each)) {}

  void all_reduce();
  void broadcast();
  void all_gather();

private:
  // Elements are divided into stripes, and a stripe into a slice for each rank of a host.
  int stripes(const at::Tensor& all) const;
  at::Tensor stripe_of(const at::Tensor& all, std::size_t i) const;
  std::vector<at::Tensor> slices_of(const at::Tensor& stripe) const;
  at::Tensor in_a_row(const at::Tensor& all) const;

  // A step within this host.
  void on_host(operation_kind kind, std::span<const at::Tensor> inputs,
               std::span<const at::Tensor> outputs, int root = 0,
               reduce_op reduction = reduce_op::sum, double factor = 1);

  struct arrived_slice {
    std::size_t stripe = 0;
    packet content;      // goes on to the next host
    at::Tensor of_host;  // and to the ranks of this one
  };
  void spread(arrived_slice& one, const at::Tensor& all);
  at::Tensor empty_slice(const at::Tensor& all, std::size_t stripe) const;

  at::Tensor combine_stripe(const at::Tensor& stripe);
  at::Tensor with_hosts_before(const at::Tensor& stripe, const std::vector<at::Tensor>& slices);
  void receive_into(const at::Tensor& to, int from);

  backend& local_;
  collective_run run_;
  const host_grid& grid_;
  const operation& what_;
  const time_limit& limit_;
  const std::size_t stripe_;
};

}  // namespace troupe::groups::network
