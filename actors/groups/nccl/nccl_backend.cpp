#include "troupe/actors/groups/nccl/nccl_backend.hpp"

#include <ATen/core/Tensor.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "troupe/actors/groups/backend/backend_registry.hpp"
#include "troupe/actors/groups/backend/collective_error.hpp"
#include "troupe/actors/groups/nccl/nccl_operations.hpp"
#include "troupe/actors/groups/network/group_channel.hpp"
#include "troupe/messages/base/log.hpp"

namespace troupe::groups::nccl {

namespace {

// Stages of the messages by which communicators are made: those of groups are made with 0 and on.
constexpr std::uint32_t first_stage = 1U << 30;

// The number of an operation that needs all ranks, of whatever number the others are.
constexpr auto everybody = ~std::uint64_t{0};

c10::Device device_of(const operation& what) {
  return (what.inputs.empty() ? what.outputs : what.inputs)[0].device();
}

// Rank 0's id, or why there is none.
network::packet id_packet(const unique_id* id, const std::string& problem) {
  std::vector<std::byte> bytes(1 + (id ? sizeof id->bytes : problem.size()));
  bytes[0] = id ? std::byte{1} : std::byte{0};
  std::memcpy(bytes.data() + 1, id ? id->bytes : problem.data(), bytes.size() - 1);
  return network::packet(bytes);
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Those who name devices make their communicators with the group: all do, or none.
void check_devices(const backend_request& request, c10::DeviceType device_type) {
  const auto* const mine = reinterpret_cast<const std::byte*>(request.device.data());
  const auto all = request.exchange->all_gather({mine, request.device.size()});
  const auto named = std::ranges::count_if(all, [](const auto& one) { return !one.empty(); });
  if (named != 0 && named != static_cast<std::ptrdiff_t>(all.size())) {
    for (std::size_t rank = 0; rank < all.size(); ++rank)
      if (all[rank].empty())
        throw collective_mismatch(
            fmt::format("group '{}': rank {} names no group_options::device, and others do: all "
                        "ranks name theirs, or none",
                        request.group, rank));
  }
  if (request.device.empty()) return;
  const c10::Device device(request.device);
  if (device.type() != device_type || !device.has_index() ||
      device.index() >= c10::impl::VirtualGuardImpl(device_type).deviceCount())
    throw invalid_argument(fmt::format(
        "group_options::device is '{}': there are {} devices of type {}, from 0 on", request.device,
        static_cast<int>(c10::impl::VirtualGuardImpl(device_type).deviceCount()),
        c10::DeviceTypeName(device_type, true)));
}

}  // namespace

nccl_backend::nccl_backend(const backend_request& request, std::string name,
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
  stream_watch::owner of;
  of.look = [this] { return look(); };
  of.problem = [this](const stream_operation& what) -> std::exception_ptr {
    if (auto why = channel_->lacks(what.sequence)) return why;
    return std::chrono::steady_clock::now() - what.began < what.limit
               ? nullptr
               : timeout_error(place_of(what.kind, what.sequence), what.limit, {});
  };
  of.abort = [this] { abort_all(); };
  watch_ = std::make_unique<stream_watch>(std::move(of));
}

// The thread first: it uses the rest.
nccl_backend::~nccl_backend() { watch_.reset(); }

bool nccl_backend::supports(operation_kind kind, c10::ScalarType dtype,
                            c10::DeviceType device) const noexcept {
  return device == device_type_ && !c10::isQIntType(dtype) && kind != operation_kind::barrier &&
         kind != operation_kind::monitored_barrier;
}

void nccl_backend::check(const operation& what) const { check_operation(what, size_); }

operation_place nccl_backend::place_of(operation_kind kind, std::uint64_t sequence) const {
  return {group_, rank_, kind, sequence};
}

std::exception_ptr nccl_backend::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

patience nccl_backend::until(const time_limit& limit, operation_kind kind, std::uint64_t sequence) {
  // While the group is made nobody aborts this, and only the channel knows.
  return {
      limit.deadline(),
      [this, sequence] {
        auto why = failure();
        if (!why) why = channel_->failure();
        return why ? why : channel_->lacks(sequence);
      },
      [this, length = limit.limit(), where = place_of(kind, sequence == everybody ? 0 : sequence)] {
        return timeout_error(where, length, {});
      }};
}

void nccl_backend::run(operation& what, const time_limit& limit) {
  operation* const one = &what;
  run_together({&one, 1}, limit);
}

void nccl_backend::run_together(std::span<operation* const> all, const time_limit& limit) {
  if (auto why = failure()) std::rethrow_exception(why);
  const auto& first = *all.front();
  if (first.inputs.empty() && first.outputs.empty()) return;
  const auto device = device_of(first);
  const c10::DeviceGuard current(device);
  const auto on = communicator_of(device, limit);
  auto* const stream = c10::impl::VirtualGuardImpl(device_type_).getStream(device).native_handle();
  on->launch(
      [&](communicator_handle handle) {
        for (const auto* one : all) issue(*functions_, *one, rank_, size_, handle, stream);
      },
      until(limit, first.kind, first.sequence));
}

c10::Stream nccl_backend::side_stream(c10::Device device) {
  const std::lock_guard lock(mutex_);
  const auto found = side_streams_.find(device.index());
  if (found != side_streams_.end()) return found->second;
  const auto made = c10::impl::VirtualGuardImpl(device_type_)
                        .getStreamFromGlobalPool(device, options_.high_priority_stream);
  side_streams_.emplace(device.index(), made);
  return made;
}

void nccl_backend::watch(stream_operation what) { watch_->add(std::move(what)); }

// The group's turns keep the order.
std::shared_ptr<nccl_communicator> nccl_backend::communicator_of(c10::Device device,
                                                                 const time_limit& limit) {
  std::uint32_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto found = communicators_.find(device.index());
    if (found != communicators_.end()) return found->second;
    number = static_cast<std::uint32_t>(communicators_.size());
  }
  auto made = nccl_communicator::make(functions_, options_, fmt::format("{}:{}", group_, number),
                                      size_, agree_on_id(number, limit), rank_,
                                      until(limit, operation_kind::barrier, everybody));
  return add(device.index(), std::move(made));
}

std::shared_ptr<nccl_communicator> nccl_backend::add(c10::DeviceIndex device,
                                                     std::shared_ptr<nccl_communicator> made) {
  std::exception_ptr why;
  {
    const std::lock_guard lock(mutex_);
    communicators_.emplace(device, made);
    order_.push_back(device);
    why = failure_;
  }
  if (why) {
    made->abort();
    std::rethrow_exception(why);
  }
  return made;
}

// Rank 0 makes it. Throws its problem on all ranks.
unique_id nccl_backend::agree_on_id(std::uint32_t number, const time_limit& limit) {
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
        error_with(timeout_error(place_of(operation_kind::barrier, 0), limit.limit(), {0}),
                   "; rank 0 has used no device of its own yet: an NCCL communicator is made when "
                   "all ranks use their devices"));
  const auto bytes = found->bytes();
  if (bytes.empty()) throw decode_error("rank 0 has sent an id of NCCL without content");
  if (bytes[0] == std::byte{0})
    throw transport_error(fmt::format("rank 0: {}", text_of(bytes.subspan(1))));
  if (bytes.size() != 1 + sizeof id.bytes)
    throw decode_error(fmt::format("rank 0 has sent {} bytes as an id of NCCL", bytes.size()));
  std::memcpy(id.bytes, bytes.data() + 1, sizeof id.bytes);
  return id;
}

namespace {

struct nccl_connections final : inherited_connections {
  std::vector<std::pair<c10::DeviceIndex, std::shared_ptr<nccl_communicator>>> all;
};

}  // namespace

namespace {

// Memory of NCCL's, registered with a communicator.
struct window {
  std::shared_ptr<const nccl_functions> functions;
  std::shared_ptr<nccl_communicator> on;
  c10::Device device;
  void* memory = nullptr;
  window_handle handle = nullptr;

  // What is on the device may use it until it has ended.
  ~window() {
    if (!memory) return;
    const c10::DeviceGuard current(device);
    try {
      c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
    } catch (const std::exception& e) {
      log().warn("symmetric memory of '{}' is freed on a device that has failed: {}", on->name(),
                 e.what());
    }
    if (handle) on->deregister_window(handle);
    functions->release(memory);
  }
};

}  // namespace

c10::DataPtr nccl_backend::allocate_symmetric(std::size_t bytes, c10::Device device,
                                              const time_limit& limit) {
  if (!functions_->allocate || !functions_->register_window)
    throw invalid_argument(fmt::format("empty_symmetric needs NCCL 2.27 or later, and {} is here",
                                       version_text(functions_->version)));
  const c10::DeviceGuard current(device);
  auto made = std::make_unique<window>(
      window{functions_, communicator_of(device, limit), device, nullptr, nullptr});
  const auto whole = (bytes + window_alignment - 1) / window_alignment * window_alignment;
  nccl::check(*functions_, functions_->allocate(&made->memory, whole), "ncclMemAlloc");
  made->handle = made->on->register_window(made->memory, whole,
                                           until(limit, operation_kind::barrier, everybody));
  auto* const memory = made->memory;
  return {memory, made.release(), [](void* context) { delete static_cast<window*>(context); },
          device};
}

int nccl_backend::connections() const {
  const std::lock_guard lock(mutex_);
  return failure_ || !functions_->split || !functions_->shrink ? 0
                                                               : static_cast<int>(order_.size());
}

// Of the first `count` devices, in the order in which all ranks have them.
std::shared_ptr<inherited_connections> nccl_backend::inherit(int count, const time_limit& limit,
                                                             const communicator_maker& make) {
  auto out = std::make_shared<nccl_connections>();
  for (int i = 0; i < count; ++i) {
    c10::DeviceIndex device = 0;
    std::shared_ptr<nccl_communicator> from;
    {
      const std::lock_guard lock(mutex_);
      device = order_.at(static_cast<std::size_t>(i));
      from = communicators_.at(device);
    }
    const c10::DeviceGuard current(c10::Device(device_type_, device));
    auto made = make(*from, fmt::format("{}:{} of {}", group_, i, from->name()),
                     until(limit, operation_kind::barrier, everybody));
    if (made) out->all.emplace_back(device, std::move(made));
  }
  return out->all.empty() ? nullptr : out;
}

std::shared_ptr<inherited_connections> nccl_backend::split(int count, int color, int key,
                                                           const time_limit& limit) {
  return inherit(count, limit, [&](nccl_communicator& from, const auto& name, const auto& until) {
    return from.split(color < 0 ? no_color : color, key, options_, name, until);
  });
}

std::shared_ptr<inherited_connections> nccl_backend::shrink(int count,
                                                            const std::vector<int>& excluded,
                                                            const time_limit& limit) {
  return inherit(count, limit, [&](nccl_communicator& from, const auto& name, const auto& until) {
    return from.shrink(excluded, false, options_, name, until);
  });
}

void nccl_backend::adopt(std::shared_ptr<inherited_connections> what) {
  for (auto& [device, one] : dynamic_cast<nccl_connections&>(*what).all)
    add(device, std::move(one));
}

std::vector<std::shared_ptr<nccl_communicator>> nccl_backend::communicators() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<nccl_communicator>> out;
  for (const auto& [device, one] : communicators_) out.push_back(one);
  return out;
}

std::exception_ptr nccl_backend::look() {
  for (const auto& one : communicators())
    if (auto why = one->async_error()) return why;
  return nullptr;
}

void nccl_backend::abort_all() noexcept {
  for (const auto& one : communicators()) one->abort();
}

void nccl_backend::abort(std::exception_ptr why) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return;
    failure_ = why;
  }
  watch_->fail(std::move(why));
}

void nccl_backend::leave(std::exception_ptr why) noexcept {
  if (!watch_->is_idle()) return abort(std::move(why));
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = std::move(why);
}

void register_nccl(const std::string& name, const std::string& device_type,
                   const std::string& library) {
  const auto type = c10::Device(device_type).type();
  register_backend(name, {device_type}, [=](const backend_request& request) {
    check_devices(request, type);
    auto functions = nccl_functions::open(library.empty() ? default_library() : library);
    auto made = std::make_unique<nccl_backend>(request, name, type, std::move(functions));
    if (!request.device.empty()) {
      const c10::Device device(request.device);
      const c10::DeviceGuard current(device);
      made->communicator_of(device, time_limit(request.timeout));
    }
    return made;
  });
}

}  // namespace troupe::groups::nccl
