#include "troupe/actors/groups/schedules/costs.hpp"

#include <algorithm>
#include <cmath>

#include "troupe/actors/groups/schedules/broadcasts.hpp"
#include "troupe/actors/groups/schedules/exchanges.hpp"
#include "troupe/actors/groups/schedules/gathers.hpp"
#include "troupe/actors/groups/schedules/reductions.hpp"

namespace troupe::groups::schedules {

const char* to_string(algorithm one) noexcept {
  switch (one) {
    case algorithm::direct: return "direct";
    case algorithm::doubling: return "doubling";
    case algorithm::halving: return "halving";
    case algorithm::ring: return "ring";
    case algorithm::bruck: return "bruck";
    case algorithm::tree: return "tree";
    case algorithm::scatter: return "scatter";
    case algorithm::chain: return "chain";
  }
  return "unknown algorithm";
}

std::optional<algorithm> algorithm_named(std::string_view name) noexcept {
  for (int i = 0; i < algorithms; ++i)
    if (name == to_string(static_cast<algorithm>(i))) return static_cast<algorithm>(i);
  return {};
}

const char* to_string(task one) noexcept {
  switch (one) {
    case task::all_reduce: return "all_reduce";
    case task::reduce_scatter: return "reduce_scatter";
    case task::all_gather: return "all_gather";
    case task::broadcast: return "broadcast";
    case task::all_to_all: return "all_to_all";
  }
  return "unknown task";
}

bool has(task what, algorithm by, int ranks) noexcept {
  switch (what) {
    case task::all_reduce:
      return by == algorithm::direct || by == algorithm::doubling || by == algorithm::halving ||
             by == algorithm::ring;
    case task::reduce_scatter: return by == algorithm::direct || by == algorithm::ring;
    case task::all_gather:
      if (by == algorithm::doubling) return power_of_two_within(ranks) == ranks;
      return by == algorithm::direct || by == algorithm::bruck || by == algorithm::ring;
    case task::broadcast:
      return by == algorithm::tree || by == algorithm::scatter || by == algorithm::chain;
    case task::all_to_all: return by == algorithm::direct || by == algorithm::bruck;
  }
  return false;
}

schedule make(task what, algorithm by, int rank, int ranks, int root, int pieces) {
  switch (what) {
    case task::all_reduce:
      if (by == algorithm::doubling) return doubling_all_reduce(rank, ranks);
      if (by == algorithm::halving) return halving_doubling_all_reduce(rank, ranks);
      if (by == algorithm::ring) return ring_all_reduce(rank, ranks);
      return pairwise_all_reduce(rank, ranks);
    case task::reduce_scatter:
      if (by == algorithm::ring) return ring_reduce_scatter(rank, ranks);
      return pairwise_reduce_scatter(rank, ranks);
    case task::all_gather:
      if (by == algorithm::doubling) return doubling_all_gather(rank, ranks);
      if (by == algorithm::bruck) return bruck_all_gather(rank, ranks);
      if (by == algorithm::ring) return ring_all_gather(rank, ranks);
      return direct_all_gather(rank, ranks);
    case task::broadcast:
      if (by == algorithm::scatter) return scatter_broadcast(rank, ranks, root);
      if (by == algorithm::chain) return chain_broadcast(rank, ranks, root, pieces);
      return tree_broadcast(rank, ranks, root);
    case task::all_to_all:
      if (by == algorithm::bruck) return bruck_all_to_all(rank, ranks);
      return pairwise_all_to_all(rank, ranks);
  }
  return {};
}

namespace {

cost of_all_reduce(algorithm by, int ranks, double n) {
  const double p = ranks, within = power_of_two_within(ranks);
  const double steps = std::log2(within);
  cost out;
  if (by == algorithm::doubling)
    out = {steps, n * steps, n * steps};
  else if (by == algorithm::halving)
    out = {2 * steps, 2 * n * (within - 1) / within, n * (within - 1) / within};
  else
    return {2 * (p - 1), 2 * n * (p - 1) / p, n * (p - 1) / p};
  if (within < p) {
    out.messages += 2;
    out.bytes += 2 * n;
    out.combined += n;
  }
  return out;
}

cost of_broadcast(algorithm by, int ranks, double n, int pieces) {
  const double p = ranks, steps = log2_up(ranks);
  if (by == algorithm::tree) return {steps, n * steps, 0};
  if (by == algorithm::chain) {
    const double at_once = p - 2 + pieces;
    return {at_once, n * at_once / pieces, 0};
  }
  const double whole = std::exp2(steps);
  return {steps + p - 1, n / p * (whole - 1) + n * (p - 1) / p, 0};
}

}  // namespace

cost cost_of(task what, algorithm by, int ranks, double n, int pieces) noexcept {
  if (ranks <= 1) return {};
  const double p = ranks, steps = log2_up(ranks);
  const bool few = by == algorithm::bruck || by == algorithm::doubling;
  switch (what) {
    case task::all_reduce: return of_all_reduce(by, ranks, n);
    case task::reduce_scatter: return {p - 1, n * (p - 1) / p, n * (p - 1) / p};
    case task::all_gather: return {few ? steps : p - 1, n * (p - 1) / p, 0};
    case task::broadcast: return of_broadcast(by, ranks, n, pieces);
    case task::all_to_all:
      if (few) return {steps, n / 2 * steps, 0};
      return {p - 1, n * (p - 1) / p, 0};
  }
  return {};
}

// The minimum of (alpha + beta n / k) (P - 2 + k) over k.
int best_pieces(int ranks, double bytes, const link& over) noexcept {
  if (ranks <= 2 || over.alpha <= 0) return 1;
  const double best = std::sqrt((ranks - 2) * over.beta * bytes / over.alpha);
  return static_cast<int>(std::clamp(std::round(best), 1.0, 1e6));
}

}  // namespace troupe::groups::schedules
