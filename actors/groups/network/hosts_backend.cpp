#include "troupe/actors/groups/network/hosts_backend.hpp"

#include <ATen/ops/empty_like.h>
#include <fmt/format.h>

#include <optional>
#include <utility>

#include "troupe/actors/groups/network/channel_exchange.hpp"
#include "troupe/actors/groups/network/collective_run.hpp"
#include "troupe/actors/groups/network/network_backend.hpp"
#include "troupe/actors/groups/network/tensor_bytes.hpp"
#include "troupe/actors/groups/reduction/reduction.hpp"
#include "troupe/actors/groups/shared/shared_backend.hpp"
#include "troupe/messages/base/log.hpp"

namespace troupe::groups::network {

namespace {

// The exchange of one host's ranks while the group is made.
constexpr std::uint32_t host_exchange_stage = 1U << 29;
// Bytes of one rank's tensor from which on it pays to go through the hosts' memory first.
constexpr std::size_t least_by_hosts = 64 * 1024;

// Ranks by host: `each` on every one of `hosts`.
struct host_grid {
  int hosts = 0;
  int each = 0;
  int host = 0;   // this rank's
  int place = 0;  // of this rank on it

  int rank_at(int on_host, int at_place) const noexcept { return on_host * each + at_place; }
};

std::size_t index(int i) noexcept { return static_cast<std::size_t>(i); }

// One collective of one rank.
class hosts_run {
public:
  hosts_run(backend& local, group_channel& channel, const network_ways& ways, const host_grid& grid,
            const operation& what, const time_limit& limit)
      : local_(local),
        run_(channel, what, limit, ways.enters_directly()),
        grid_(grid),
        what_(what),
        limit_(limit),
        element_(c10::elementSize(what.dtype)),
        stripe_(ways.piece * index(grid.each)) {}

  void all_reduce();
  void broadcast();
  void all_gather();

private:
  // Elements `begin` to `end` of a tensor in a row.
  static at::Tensor part(const at::Tensor& of, std::size_t begin, std::size_t end) {
    return of.narrow(0, static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end - begin));
  }
  static at::Tensor row(const at::Tensor& of) { return of.view({-1}); }

  // Elements are divided into stripes, and a stripe into a slice for each rank of a host.
  std::size_t stripes(std::size_t elements) const {
    return (elements * element_ + stripe_ - 1) / stripe_;
  }
  at::Tensor stripe_of(const at::Tensor& all, std::size_t i) const {
    const auto count = static_cast<std::size_t>(all.numel());
    const auto n = stripes(count);
    return part(all, count * i / n, count * (i + 1) / n);
  }
  std::vector<at::Tensor> slices_of(const at::Tensor& stripe) const {
    std::vector<at::Tensor> out;
    const auto count = static_cast<std::size_t>(stripe.numel()), n = index(grid_.each);
    for (std::size_t j = 0; j < n; ++j)
      out.push_back(part(stripe, count * j / n, count * (j + 1) / n));
    return out;
  }

  // A step within this host.
  void on_host(operation_kind kind, std::span<const at::Tensor> inputs,
               std::span<const at::Tensor> outputs, int root = 0,
               reduce_op reduction = reduce_op::sum, double factor = 1) {
    operation step;
    step.kind = kind;
    step.reduction = reduction;
    step.factor = factor;
    step.root = root;
    step.sequence = what_.sequence;
    step.dtype = what_.dtype;
    step.inputs = inputs;
    step.outputs = outputs;
    local_.run(step, limit_);
  }

  at::Tensor combine_stripe(const at::Tensor& stripe);
  at::Tensor with_hosts_before(const at::Tensor& stripe, const std::vector<at::Tensor>& slices);
  void receive_into(const at::Tensor& to, int from) {
    const auto got = run_.receive(lane::data, from, to.nbytes());
    copy_to(memory_of(to), got.bytes());
  }

  backend& local_;
  collective_run run_;
  const host_grid& grid_;
  const operation& what_;
  const time_limit& limit_;
  const std::size_t element_;
  const std::size_t stripe_;
};

// What the hosts before have combined, and the first rank of this host: instead of its own values.
// On other ranks: nothing.
at::Tensor hosts_run::with_hosts_before(const at::Tensor& stripe,
                                        const std::vector<at::Tensor>& slices) {
  const auto mine = at::empty_like(slices[index(grid_.place)]);
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
  const auto result = at::empty_like(slices[index(grid_.place)]);
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
  auto all = joined.whole();
  if (all.scalar_type() != what_.dtype) all = all.view(what_.dtype);
  all = row(all);
  run_.enter({});
  const bool first = grid_.host == 0, last = grid_.host + 1 == grid_.hosts;
  const auto n = stripes(static_cast<std::size_t>(all.numel()));
  const auto before = grid_.rank_at(grid_.host - 1, grid_.place);
  const auto after = grid_.rank_at(grid_.host + 1, grid_.place);
  const auto spread = [&](const at::Tensor& mine, std::size_t i) {
    on_host(operation_kind::all_gather, std::span(&mine, 1), slices_of(stripe_of(all, i)));
  };
  for (std::size_t i = 0; i < n; ++i) {
    const auto mine = combine_stripe(stripe_of(all, i));
    const packet content(bytes_of(mine));
    if (last) {
      if (!first) run_.send(lane::results, before, content);
      spread(mine, i);
    } else {
      run_.send(lane::data, after, content);
    }
  }
  for (std::size_t i = 0; i < n && !last; ++i) {
    const auto mine = at::empty_like(slices_of(stripe_of(all, i))[index(grid_.place)]);
    const auto got = run_.receive(lane::results, after, mine.nbytes());
    if (!first) run_.send(lane::results, before, got);
    copy_to(memory_of(mine), got.bytes());
    spread(mine, i);
  }
  joined.put_back();
}

// Down a chain of hosts, from the root's on.
void hosts_run::broadcast() {
  const joined_bytes joined(what_.outputs);
  auto all = joined.whole();
  if (all.scalar_type() != what_.dtype) all = all.view(what_.dtype);
  all = row(all);
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
    const auto& slice = slices[index(grid_.place)];
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
  const auto mine = row(what_.inputs[0]), all = row(what_.outputs[0]);
  const auto count = static_cast<std::size_t>(mine.numel());
  const auto place_of = [&](int rank) {
    return part(all, index(rank) * count, index(rank + 1) * count);
  };
  run_.enter({});
  const auto n = stripes(count);
  for (std::size_t i = 0; i < n; ++i) {
    const packet content(bytes_of(stripe_of(mine, i)));
    for (int d = 1; d < grid_.hosts; ++d)
      run_.send(lane::data, grid_.rank_at((grid_.host + d) % grid_.hosts, grid_.place), content);
  }
  const auto spread = [&](int host, const at::Tensor& own, std::size_t i) {
    std::vector<at::Tensor> places;
    for (int j = 0; j < grid_.each; ++j)
      places.push_back(stripe_of(place_of(grid_.rank_at(host, j)), i));
    on_host(operation_kind::all_gather, std::span(&own, 1), places);
  };
  // The input may be this rank's part of the output.
  const bool in_place = bytes_of(mine).data() == bytes_of(place_of(run_.rank())).data();
  for (std::size_t i = 0; i < n; ++i) {
    const auto own = stripe_of(mine, i);
    spread(grid_.host, in_place ? own.clone() : own, i);
  }
  for (std::size_t i = 0; i < n; ++i)
    for (int d = 1; d < grid_.hosts; ++d) {
      const int host = (grid_.host + grid_.hosts - d) % grid_.hosts;
      const int from = grid_.rank_at(host, grid_.place);
      const auto own = at::empty_like(stripe_of(place_of(from), i));
      receive_into(own, from);
      spread(host, own, i);
    }
}

class hosts_backend final : public backend {
public:
  hosts_backend(std::shared_ptr<group_channel> channel, network_ways ways, const host_grid& grid,
                std::unique_ptr<backend> local)
      : channel_(channel),
        ways_(ways),
        grid_(grid),
        local_(std::move(local)),
        all_(std::move(channel), std::move(ways)) {}

  std::string_view name() const noexcept override { return "hosts"; }

  bool supports(operation_kind kind, c10::ScalarType dtype,
                c10::DeviceType device) const noexcept override {
    return all_.supports(kind, dtype, device);
  }

  void run(operation& what, const time_limit& limit) override {
    if (!goes_by_hosts(what)) return all_.run(what, limit);
    if (auto why = channel_->failure()) std::rethrow_exception(std::move(why));
    hosts_run one(*local_, *channel_, ways_, grid_, what, limit);
    switch (what.kind) {
      case operation_kind::all_reduce: return one.all_reduce();
      case operation_kind::broadcast: return one.broadcast();
      default: return one.all_gather();
    }
  }

  void abort(std::exception_ptr why) noexcept override {
    local_->abort(why);
    all_.abort(std::move(why));
  }

private:
  // All ranks find the same, or the entries differ.
  static bool goes_by_hosts(const operation& what) noexcept {
    std::size_t bytes = 0;
    const auto& tensors =
        what.kind == operation_kind::all_gather_into_tensor ? what.inputs : what.outputs;
    for (const auto& one : tensors) bytes += one.nbytes();
    if (bytes < least_by_hosts) return false;
    switch (what.kind) {
      case operation_kind::all_reduce:
        return what.reduction != reduce_op::avg && !c10::isReducedFloatingType(what.dtype) &&
               !c10::isFloat8Type(what.dtype);
      case operation_kind::broadcast: return true;
      case operation_kind::all_gather_into_tensor: return what.inputs.size() == 1;
      default: return false;
    }
  }

  const std::shared_ptr<group_channel> channel_;
  const network_ways ways_;
  const host_grid grid_;
  const std::unique_ptr<backend> local_;
  network_backend all_;
};

// Nothing: hosts have different numbers of ranks, or these do not follow one another.
std::optional<host_grid> grid_of(const group_places& places, int rank) {
  const auto size = static_cast<int>(places.host_of.size());
  if (places.hosts < 2 || places.simulated || size % places.hosts != 0 || size == places.hosts)
    return {};
  host_grid out;
  out.hosts = places.hosts;
  out.each = size / places.hosts;
  out.host = rank / out.each;
  out.place = rank % out.each;
  for (int r = 0; r < size; ++r)
    if (places.host_of[index(r)] != r / out.each) return {};
  return out;
}

}  // namespace

std::unique_ptr<backend> make_hosts_backend(const backend_request& request,
                                            const group_places& places) {
  const auto grid = grid_of(places, request.rank);
  if (!grid) return nullptr;
  const time_limit limit(request.timeout);
  std::vector<int> ranks;
  backend_request within = request;
  within.members.clear();
  for (int j = 0; j < grid->each; ++j) {
    ranks.push_back(grid->rank_at(grid->host, j));
    within.members.push_back(request.members[index(ranks.back())]);
  }
  within.group = fmt::format("{} (host {})", request.group, grid->host);
  within.rank = grid->place;
  channel_exchange exchange(*request.channel, limit, ranks, host_exchange_stage);
  within.exchange = &exchange;
  within.cores_are_busy = true;  // with messages of the other hosts
  std::string why_not;
  std::exception_ptr thrown;
  std::unique_ptr<backend> local;
  try {
    local = make_shared_backend(within, why_not);
  } catch (...) {
    thrown = std::current_exception();
  }
  // One host without shared memory, and none uses it.
  const std::byte made{static_cast<unsigned char>(local != nullptr)};
  const auto all = request.exchange->all_gather(std::span(&made, 1));
  if (thrown) std::rethrow_exception(thrown);
  for (const auto& one : all)
    if (one.size() != 1 || one[0] != std::byte{1}) {
      log().debug("group '{}' uses messages within hosts too{}{}", request.group,
                  why_not.empty() ? "" : ", since ", why_not);
      return nullptr;
    }
  return std::make_unique<hosts_backend>(request.channel, places.ways, *grid, std::move(local));
}

}  // namespace troupe::groups::network
