#include "troupe/actors/groups/network/hosts_backend.hpp"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "troupe/actors/groups/network/channel_exchange.hpp"
#include "troupe/actors/groups/network/combining_order.hpp"
#include "troupe/actors/groups/network/hosts_run.hpp"
#include "troupe/actors/groups/network/network_backend.hpp"
#include "troupe/actors/groups/shared/shared_backend.hpp"
#include "troupe/messages/base/log.hpp"

namespace troupe::groups::network {

namespace {

// The exchange of one host's ranks while the group is made.
constexpr std::uint32_t host_exchange_stage = 1U << 29;
// Bytes of one rank's tensor from which on it pays to go through the hosts' memory first.
constexpr std::size_t least_by_hosts = 64 * 1024;

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
  bool goes_by_hosts(const operation& what) const noexcept {
    std::size_t bytes = 0;
    const auto& tensors =
        what.kind == operation_kind::all_gather_into_tensor ? what.inputs : what.outputs;
    for (const auto& one : tensors) bytes += one.nbytes();
    if (bytes < least_by_hosts) return false;
    // Who names an algorithm means messages between all ranks.
    const auto ruled = [&](schedules::task by_task, std::size_t of) {
      return ways_.ruled(by_task, of, goes_in_order(what, ways_)).has_value();
    };
    switch (what.kind) {
      case operation_kind::all_reduce:
        return !ruled(schedules::task::all_reduce, bytes) && what.reduction != reduce_op::avg &&
               !c10::isReducedFloatingType(what.dtype) && !c10::isFloat8Type(what.dtype);
      case operation_kind::broadcast: return !ruled(schedules::task::broadcast, bytes);
      case operation_kind::all_gather_into_tensor:
        return what.inputs.size() == 1 &&
               !ruled(schedules::task::all_gather, what.outputs[0].nbytes());
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
    if (places.host_of[static_cast<std::size_t>(r)] != r / out.each) return {};
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
    within.members.push_back(request.members[static_cast<std::size_t>(ranks.back())]);
  }
  within.rank = grid->place;
  within.first_rank = ranks[0];
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
