#include "troupe/actors/groups/nccl/nccl_communicators.hpp"

#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include <chrono>
#include <cstring>

#include "troupe/actors/groups/network/group_channel.hpp"

namespace troupe::groups::nccl {

namespace {

// Stages of the messages by which communicators are made: those of groups are made with 0 and on.
constexpr std::uint32_t first_stage = 1U << 30;

// More than any collective's number: what needs all ranks.
constexpr auto everybody = ~std::uint64_t{0};

// Of a message to or from a rank that has left: what it has sent before may still be on its way.
constexpr auto most_wait_for_one_who_left = std::chrono::seconds(5);

// Rank 0's id, or why there is none.
network::packet id_packet(const unique_id* id, const std::string& problem) {
  std::vector<std::byte> bytes(1 + (id ? sizeof id->bytes : problem.size()));
  bytes[0] = id ? std::byte{1} : std::byte{0};
  std::memcpy(bytes.data() + 1, id ? id->bytes : problem.data(), bytes.size() - 1);
  return network::packet(bytes);
}

struct nccl_connections final : inherited_connections {
  std::vector<std::pair<c10::DeviceIndex, std::shared_ptr<nccl_communicator>>> all;
};

}  // namespace

nccl_communicators::nccl_communicators(const backend_request& request, std::string name,
                                       c10::DeviceType device_type,
                                       std::shared_ptr<const nccl_functions> functions)
    : name_(std::move(name)),
      group_(request.group),
      rank_(request.rank),
      size_(request.size()),
      device_type_(device_type),
      channel_(request.channel),
      functions_(std::move(functions)),
      options_(nccl_options::parse(request.options)) {
  options_.for_version(functions_->version, group_);  // it throws
}

c10::Device nccl_communicators::checked(c10::Device device) const {
  const c10::impl::VirtualGuardImpl all(device_type_);
  if (device.type() == device_type_ && !device.has_index()) device = all.getDevice();
  if (device.type() != device_type_ || device.index() >= all.deviceCount())
    throw invalid_argument(fmt::format("'{}' is none of the {} devices of type {}, from 0 on",
                                       device.str(), static_cast<int>(all.deviceCount()),
                                       c10::DeviceTypeName(device_type_, true)));
  return device;
}

std::exception_ptr nccl_communicators::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

bool nccl_communicators::fail(const std::exception_ptr& why) noexcept {
  const std::lock_guard lock(mutex_);
  if (failure_) return false;
  failure_ = why;
  return true;
}

patience nccl_communicators::patience_of(const time_limit& limit, const operation_place& where,
                                         std::uint64_t needs) const {
  // While the group is made nobody aborts this, and only the channel knows.
  return {limit.deadline(),
          [this, needs] {
            auto why = failure();
            if (!why) why = channel_->failure();
            return why ? why : channel_->lacks(needs);
          },
          [length = limit.limit(), where] { return timeout_error(where, length, {}); }};
}

patience nccl_communicators::until(const time_limit& limit, const operation_place& where) const {
  return patience_of(limit, where, where.sequence);
}

patience nccl_communicators::until_all(const time_limit& limit,
                                       const operation_place& where) const {
  return patience_of(limit, where, everybody);
}

std::exception_ptr nccl_communicators::problem_of(const stream_operation& what) const {
  const auto age = std::chrono::steady_clock::now() - what.began;
  if (auto why = channel_->lacks(what.sequence)) return why;
  if (what.peer >= 0 && age >= most_wait_for_one_who_left)
    if (auto why = channel_->left(what.peer)) return why;
  return age < what.limit ? nullptr
                          : timeout_error(place_of(what.kind, what.sequence), what.limit, {});
}

// The group's turns keep the order.
std::shared_ptr<nccl_communicator> nccl_communicators::of(c10::Device device,
                                                          const time_limit& limit,
                                                          const operation_place& where) {
  std::uint32_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto found = by_device_.find(device.index());
    if (found != by_device_.end()) return found->second;
    number = static_cast<std::uint32_t>(by_device_.size());
  }
  return add(
      device.index(),
      nccl_communicator::make(functions_, options_, fmt::format("{}:{}", group_, number), size_,
                              agree_on_id(number, limit, where), rank_, until_all(limit, where)));
}

std::shared_ptr<nccl_communicator> nccl_communicators::add(
    c10::DeviceIndex device, std::shared_ptr<nccl_communicator> made) {
  std::exception_ptr why;
  {
    const std::lock_guard lock(mutex_);
    if (by_device_.emplace(device, made).second) order_.push_back(device);
    why = failure_;
  }
  if (why) {
    made->abort();
    std::rethrow_exception(why);
  }
  return made;
}

// Rank 0 makes it. Throws its problem on all ranks.
unique_id nccl_communicators::agree_on_id(std::uint32_t number, const time_limit& limit,
                                          const operation_place& where) const {
  const auto stage = first_stage + number;
  unique_id id{};
  if (rank_ == 0) {
    std::string problem;
    try {
      nccl::check(*functions_, functions_->get_unique_id(&id), "ncclGetUniqueId");
    } catch (const std::exception& e) {
      problem = e.what();
    }
    const auto content = id_packet(problem.empty() ? &id : nullptr, problem);
    for (int to = 1; to < size_; ++to) channel_->send(to, network::part{0, stage, content});
    if (!problem.empty()) throw transport_error(problem);
    return id;
  }
  const auto found = channel_->parts().take({0, stage, 0}, limit.deadline());
  if (!found)
    std::rethrow_exception(
        error_with(timeout_error(where, limit.limit(), {0}),
                   "; rank 0 has used no device of its own yet: an NCCL communicator is made when "
                   "all ranks use their devices"));
  const auto bytes = found->bytes();
  if (bytes.empty()) throw decode_error("rank 0 has sent an id of NCCL without content");
  if (bytes[0] == std::byte{0}) {
    const auto text = bytes.subspan(1);
    throw transport_error(fmt::format(
        "rank 0: {}", std::string(reinterpret_cast<const char*>(text.data()), text.size())));
  }
  if (bytes.size() != 1 + sizeof id.bytes)
    throw decode_error(fmt::format("rank 0 has sent {} bytes as an id of NCCL", bytes.size()));
  std::memcpy(id.bytes, bytes.data() + 1, sizeof id.bytes);
  return id;
}

std::vector<std::shared_ptr<nccl_communicator>> nccl_communicators::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<nccl_communicator>> out;
  out.reserve(by_device_.size());
  for (const auto& [device, one] : by_device_) out.push_back(one);
  return out;
}

std::exception_ptr nccl_communicators::async_error() const {
  for (const auto& one : all())
    if (auto why = one->async_error()) return why;
  return nullptr;
}

void nccl_communicators::abort_all() const noexcept {
  for (const auto& one : all()) one->abort();
}

int nccl_communicators::connections() const {
  const std::lock_guard lock(mutex_);
  const bool can = !failure_ && functions_->split && functions_->shrink;
  return can ? static_cast<int>(order_.size()) : 0;
}

// Of the first `count` devices, in the order in which all ranks have them.
std::shared_ptr<inherited_connections> nccl_communicators::inherit(int count,
                                                                   const time_limit& limit,
                                                                   const child_maker& make) {
  auto out = std::make_shared<nccl_connections>();
  for (int i = 0; i < count; ++i) {
    c10::DeviceIndex device = 0;
    std::shared_ptr<nccl_communicator> from;
    {
      const std::lock_guard lock(mutex_);
      device = order_.at(static_cast<std::size_t>(i));
      from = by_device_.at(device);
    }
    const c10::DeviceGuard current(c10::Device(device_type_, device));
    auto made = make(*from, fmt::format("part of {}", from->name()),
                     until_all(limit, place_of(operation_kind::barrier, 0)));
    if (made) out->all.emplace_back(device, std::move(made));
  }
  return out->all.empty() ? nullptr : out;
}

void nccl_communicators::adopt(inherited_connections& what) {
  for (auto& [device, one] : dynamic_cast<nccl_connections&>(what).all) add(device, std::move(one));
}

}  // namespace troupe::groups::nccl
