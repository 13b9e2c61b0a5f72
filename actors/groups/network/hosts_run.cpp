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

namespace troupe::groups::network {

namespace {

at::Tensor flat(const at::Tensor& of) { return of.view({-1}); }

// Elements `begin` to `end` of a tensor in a row.
at::Tensor elements_of(const at::Tensor& of, std::size_t begin, std::size_t end) {
  return of.narrow(0, static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end - begin));
}

}  // namespace

std::size_t hosts_run::stripes(std::size_t elements) const {
  return (elements * element_ + stripe_ - 1) / stripe_;
}

at::Tensor hosts_run::stripe_of(const at::Tensor& all, std::size_t i) const {
  const auto count = static_cast<std::size_t>(all.numel());
  const auto n = stripes(count);
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

// Hosts combine one after the other, a stripe each, and the result comes back the same way.
void hosts_run::all_reduce() {
  const joined_bytes joined(what_.outputs);
  const auto all = in_a_row(joined.whole());
  run_.enter({});
  const bool first = grid_.host == 0, last = grid_.host + 1 == grid_.hosts;
  const auto n = stripes(static_cast<std::size_t>(all.numel()));
  const auto before = grid_.rank_at(grid_.host - 1, grid_.place);
  const auto after = grid_.rank_at(grid_.host + 1, grid_.place);
  const auto spread = [&](const at::Tensor& mine, std::size_t i) {
    on_host(operation_kind::all_gather, std::span(&mine, 1), slices_of(stripe_of(all, i)));
  };
  const auto take_result = [&](std::size_t i) {
    const auto mine = at::empty_like(slices_of(stripe_of(all, i))[nth(grid_.place)]);
    const auto got = run_.receive(lane::results, after, mine.nbytes());
    if (!first) run_.send(lane::results, before, got);
    copy_to(memory_of(mine), got.bytes());
    spread(mine, i);
  };
  // So many are under way between this host and the last one.
  const auto ahead = 2 * nth(grid_.hosts - grid_.host);
  for (std::size_t i = 0; i < n; ++i) {
    const auto mine = combine_stripe(stripe_of(all, i));
    const packet content(bytes_of(mine));
    if (!last) {
      run_.send(lane::data, after, content);
      if (i >= ahead) take_result(i - ahead);
      continue;
    }
    if (!first) run_.send(lane::results, before, content);
    spread(mine, i);
  }
  for (std::size_t i = n - std::min(n, ahead); i < n && !last; ++i) take_result(i);
  joined.put_back();
}

// Down a chain of hosts, from the root's on.
void hosts_run::broadcast() {
  const joined_bytes joined(what_.outputs);
  const auto all = in_a_row(joined.whole());
  run_.enter({});
  const int of_root = what_.root / grid_.each;
  const int number = (grid_.host - of_root + grid_.hosts) % grid_.hosts;
  const bool last = number + 1 == grid_.hosts;
  const auto before = grid_.rank_at((grid_.host + grid_.hosts - 1) % grid_.hosts, grid_.place);
  const auto after = grid_.rank_at((grid_.host + 1) % grid_.hosts, grid_.place);
  const auto n = stripes(static_cast<std::size_t>(all.numel()));
  for (std::size_t i = 0; i < n; ++i) {
    const auto stripe = stripe_of(all, i);
    const auto slices = slices_of(stripe);
    const auto& slice = slices[nth(grid_.place)];
    if (number == 0) {
      on_host(operation_kind::broadcast, {}, std::span(&stripe, 1), what_.root % grid_.each);
      run_.send(lane::data, after, packet(bytes_of(slice)));
      continue;
    }
    const auto got = run_.receive(lane::data, before, slice.nbytes());
    if (!last) run_.send(lane::data, after, got);
    const auto mine = at::empty_like(slice);
    copy_to(memory_of(mine), got.bytes());
    on_host(operation_kind::all_gather, std::span(&mine, 1), slices);
  }
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
  const auto n = stripes(count);
  const auto send = [&](std::size_t i) {
    const packet content(bytes_of(stripe_of(mine, i)));
    for (int d = 1; d < grid_.hosts; ++d)
      run_.send(lane::data, grid_.rank_at((grid_.host + d) % grid_.hosts, grid_.place), content);
  };
  // So many stripes leave before the first of the others has come, and then one for each.
  constexpr std::size_t ahead = 2;
  const auto spread = [&](int host, const at::Tensor& own, std::size_t i) {
    std::vector<at::Tensor> places;
    for (int j = 0; j < grid_.each; ++j)
      places.push_back(stripe_of(place_of(grid_.rank_at(host, j)), i));
    on_host(operation_kind::all_gather, std::span(&own, 1), places);
  };
  // The input may be this rank's part of the output.
  const bool in_place = bytes_of(mine).data() == bytes_of(place_of(run_.rank())).data();
  for (std::size_t i = 0; i < std::min(n, ahead); ++i) send(i);
  for (std::size_t i = 0; i < n; ++i) {
    const auto here = stripe_of(mine, i);
    spread(grid_.host, in_place ? here.clone() : here, i);
    for (int d = 1; d < grid_.hosts; ++d) {
      const int host = (grid_.host + grid_.hosts - d) % grid_.hosts;
      const int from = grid_.rank_at(host, grid_.place);
      const auto own = at::empty_like(stripe_of(place_of(from), i));
      receive_into(own, from);
      spread(host, own, i);
    }
    if (i + ahead < n) send(i + ahead);
  }
}

}  // namespace troupe::groups::network
