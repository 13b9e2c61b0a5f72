#include "troupe/actors/groups/network/hosts_run.hpp"

#include <ATen/ops/empty_like.h>
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

#include "troupe/actors/groups/backend/collective_error.hpp"
#include "troupe/actors/groups/network/tensor_bytes.hpp"
#include "troupe/actors/groups/reduction/reduction.hpp"
#include "troupe/actors/groups/schedules/broadcasts.hpp"
#include "troupe/actors/groups/schedules/host_chains.hpp"

namespace troupe::groups::network {

namespace {

at::Tensor flat(const at::Tensor& of) { return of.view({-1}); }

// Elements `begin` to `end` of a tensor in a row.
at::Tensor elements_of(const at::Tensor& of, std::size_t begin, std::size_t end) {
  return of.narrow(0, static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end - begin));
}

}  // namespace

int hosts_run::stripes(const at::Tensor& all) const {
  return static_cast<int>((all.nbytes() + stripe_ - 1) / stripe_);
}

at::Tensor hosts_run::stripe_of(const at::Tensor& all, std::size_t i) const {
  const auto count = static_cast<std::size_t>(all.numel());
  const auto n = nth(stripes(all));
  return elements_of(all, count * i / n, count * (i + 1) / n);
}

std::vector<at::Tensor> hosts_run::slices_of(const at::Tensor& stripe) const {
  std::vector<at::Tensor> out;
  const auto count = static_cast<std::size_t>(stripe.numel()), n = nth(grid_.each);
  for (std::size_t j = 0; j < n; ++j)
    out.push_back(elements_of(stripe, count * j / n, count * (j + 1) / n));
  return out;
}

// Several tensors are joined as bytes.
at::Tensor hosts_run::in_a_row(const at::Tensor& all) const {
  return flat(all.scalar_type() == what_.dtype ? all : all.view(what_.dtype));
}

void hosts_run::on_host(operation_kind kind, std::span<const at::Tensor> inputs,
                        std::span<const at::Tensor> outputs, int root, reduce_op reduction,
                        double factor) {
  operation step;
  step.kind = kind;
  step.reduction = reduction;
  step.factor = factor;
  step.root = root;
  step.sequence = what_.sequence;
  step.dtype = what_.dtype;
  step.inputs = inputs;
  step.outputs = outputs;
  try {
    local_.run(step, limit_);
  } catch (...) {
    std::rethrow_exception(error_with(
        std::current_exception(),
        fmt::format(" (in the memory of its host, a step of {})", to_string(what_.kind))));
  }
}

void hosts_run::receive_into(const at::Tensor& to, int from) {
  const auto got = run_.receive(lane::data, from, to.nbytes());
  copy_to(memory_of(to), got.bytes());
}

// What the hosts before have combined, and the first rank of this host: instead of its own values.
// On other ranks: nothing.
at::Tensor hosts_run::with_hosts_before(const at::Tensor& stripe,
                                        const std::vector<at::Tensor>& slices) {
  const auto mine = at::empty_like(slices[nth(grid_.place)]);
  receive_into(mine, grid_.rank_at(grid_.host - 1, grid_.place));
  if (grid_.place != 0) {
    on_host(operation_kind::gather, std::span(&mine, 1), {});
    return {};
  }
  const auto before = at::empty_like(stripe);
  const auto parts = slices_of(before);
  on_host(operation_kind::gather, std::span(&mine, 1), parts);
  const reduction how("all_reduce", what_.reduction, what_.dtype);
  const double factors[] = {1, what_.factor};
  const std::byte* const both[] = {bytes_of(before).data(), bytes_of(stripe).data()};
  std::byte* const to = memory_of(before);
  how.run(both, std::span(&to, 1), stripe.numel(), store_mode::cached, factors);
  return before;
}

// This rank's slice of all values of the hosts up to this one.
at::Tensor hosts_run::combine_stripe(const at::Tensor& stripe) {
  auto slices = slices_of(stripe);
  const auto result = at::empty_like(slices[nth(grid_.place)]);
  double factor = what_.factor;
  at::Tensor joined;  // outlives its slices
  if (grid_.host > 0) {
    joined = with_hosts_before(stripe, slices);
    if (joined.defined()) {
      slices = slices_of(joined);
      factor = 1;
    }
  }
  on_host(operation_kind::reduce_scatter, slices, std::span(&result, 1), 0, what_.reduction,
          factor);
  return result;
}

// A slice of this rank that has come: it is passed on first, and then the ranks of the host get it.
void hosts_run::spread(arrived_slice& one, const at::Tensor& all) {
  if (one.of_host.defined())
    on_host(operation_kind::all_gather, std::span(&one.of_host, 1),
            slices_of(stripe_of(all, one.stripe)));
  one.of_host.reset();
}

at::Tensor hosts_run::empty_slice(const at::Tensor& all, std::size_t stripe) const {
  return at::empty_like(slices_of(stripe_of(all, stripe))[nth(grid_.place)]);
}

// Hosts combine one after the other, a stripe each, and the result comes back the same way.
void hosts_run::all_reduce() {
  const joined_bytes joined(what_.outputs);
  const auto all = in_a_row(joined.whole());
  run_.enter({});
  const auto plan = schedules::chain_all_reduce(grid_.host, grid_.hosts, stripes(all));
  const bool last = grid_.host + 1 == grid_.hosts;
  arrived_slice arrived;
  for (const auto& step : plan.steps) {
    if (step.to > grid_.host && grid_.host == 0)
      arrived.content = packet(bytes_of(combine_stripe(stripe_of(all, nth(step.sent.first)))));
    if (step.to != schedules::nobody)
      run_.send(step.to > grid_.host ? lane::data : lane::results,
                grid_.rank_at(step.to, grid_.place), arrived.content);
    spread(arrived, all);
    if (step.from == schedules::nobody) continue;
    arrived.stripe = nth(step.received.first);
    if (step.combines) {
      const auto mine = combine_stripe(stripe_of(all, arrived.stripe));
      arrived.content = packet(bytes_of(mine));
      if (last) arrived.of_host = mine;
      continue;
    }
    arrived.of_host = empty_slice(all, arrived.stripe);
    arrived.content = run_.receive(lane::results, grid_.rank_at(step.from, grid_.place),
                                   arrived.of_host.nbytes());
    copy_to(memory_of(arrived.of_host), arrived.content.bytes());
  }
  spread(arrived, all);
  joined.put_back();
}

// Down a chain of hosts, from the root's on.
void hosts_run::broadcast() {
  const joined_bytes joined(what_.outputs);
  const auto all = in_a_row(joined.whole());
  run_.enter({});
  const int of_root = what_.root / grid_.each;
  const auto plan = schedules::chain_broadcast(grid_.host, grid_.hosts, of_root, stripes(all));
  arrived_slice arrived;
  for (const auto& step : plan.steps) {
    if (grid_.host == of_root) {
      const auto stripe = stripe_of(all, nth(step.sent.first));
      on_host(operation_kind::broadcast, {}, std::span(&stripe, 1), what_.root % grid_.each);
      arrived.content = packet(bytes_of(slices_of(stripe)[nth(grid_.place)]));
    }
    if (step.to != schedules::nobody)
      run_.send(lane::data, grid_.rank_at(step.to, grid_.place), arrived.content);
    spread(arrived, all);
    if (step.from == schedules::nobody) continue;
    arrived.stripe = nth(step.received.first);
    arrived.of_host = empty_slice(all, arrived.stripe);
    arrived.content =
        run_.receive(lane::data, grid_.rank_at(step.from, grid_.place), arrived.of_host.nbytes());
    copy_to(memory_of(arrived.of_host), arrived.content.bytes());
  }
  spread(arrived, all);
  joined.put_back();
}

// Each rank gets the parts of those of its number on the other hosts, and all of a host get them
// from it.
void hosts_run::all_gather() {
  const auto mine = flat(what_.inputs[0]), all = flat(what_.outputs[0]);
  const auto count = static_cast<std::size_t>(mine.numel());
  const auto place_of = [&](int rank) {
    return elements_of(all, nth(rank) * count, nth(rank + 1) * count);
  };
  run_.enter({});
  const int n = stripes(mine);
  const auto spread_on_host = [&](int host, const at::Tensor& own, int i) {
    std::vector<at::Tensor> places;
    for (int j = 0; j < grid_.each; ++j)
      places.push_back(stripe_of(place_of(grid_.rank_at(host, j)), nth(i)));
    on_host(operation_kind::all_gather, std::span(&own, 1), places);
  };
  // The input may be this rank's part of the output.
  const bool in_place = bytes_of(mine).data() == bytes_of(place_of(run_.rank())).data();
  int sent = -1, spread_here = 0;
  packet content;
  for (const auto& step : schedules::striped_all_gather(grid_.host, grid_.hosts, n).steps) {
    if (step.to != schedules::nobody) {
      if (const int i = step.sent.first % n; i != sent) {
        content = packet(bytes_of(stripe_of(mine, nth(i))));
        sent = i;
      }
      run_.send(lane::data, grid_.rank_at(step.to, grid_.place), content);
    }
    if (step.from == schedules::nobody) continue;
    const int i = step.received.first % n;
    if (i == spread_here) {
      const auto here = stripe_of(mine, nth(i));
      spread_on_host(grid_.host, in_place ? here.clone() : here, i);
      ++spread_here;
    }
    const int from = grid_.rank_at(step.from, grid_.place);
    const auto own = at::empty_like(stripe_of(place_of(from), nth(i)));
    receive_into(own, from);
    spread_on_host(step.from, own, i);
  }
}

}  // namespace troupe::groups::network
