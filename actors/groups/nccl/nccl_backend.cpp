#include "troupe/actors/groups/nccl/nccl_backend.hpp"

#include <ATen/core/Tensor.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include <optional>
#include <utility>

#include "troupe/actors/groups/backend/backend_registry.hpp"
#include "troupe/actors/groups/backend/collective_error.hpp"
#include "troupe/actors/groups/nccl/nccl_operations.hpp"
#include "troupe/actors/groups/nccl/symmetric_window.hpp"
#include "troupe/messages/tensor/current_stream.hpp"

namespace troupe::groups::nccl {

namespace {

stream_watch::owner owner_of(const std::shared_ptr<nccl_communicators>& all) {
  return {[all] { return all->async_error(); },
          [all](const stream_operation& what) { return all->problem_of(what); },
          [all] { all->abort_all(); }};
}

// What each rank says before any of them begins to wait for others in NCCL: the device that it has
// named, or its problem. Throws on all ranks if there is one, or if only some name devices.
void agree_to_begin(const backend_request& request, const std::string& problem) {
  std::string mine = problem.empty() ? "+" + request.device : "-" + problem;
  const auto all =
      request.exchange->all_gather({reinterpret_cast<const std::byte*>(mine.data()), mine.size()});
  std::vector<std::string> said;
  said.reserve(all.size());
  for (const auto& one : all)
    said.emplace_back(reinterpret_cast<const char*>(one.data()), one.size());
  std::optional<std::size_t> with, without;
  for (std::size_t rank = 0; rank < said.size(); ++rank) {
    if (said[rank].empty()) throw decode_error("a rank does not say whether it can use NCCL");
    if (said[rank].front() != '+')
      throw invalid_argument(
          fmt::format("rank {} cannot use NCCL: {}", rank, said[rank].substr(1)));
    (said[rank].size() > 1 ? with : without) = rank;
  }
  if (with && without)
    throw collective_mismatch(
        fmt::format("group '{}': rank {} names no group_options::device, and rank {} does: all "
                    "ranks name theirs, or none",
                    request.group, *without, *with));
}

}  // namespace

nccl_backend::nccl_backend(std::shared_ptr<nccl_communicators> all)
    : all_(std::move(all)), watch_(owner_of(all_)) {}

// Communicators wait for one another when they end: not on this thread.
nccl_backend::~nccl_backend() { watch_.leave_behind(std::move(all_)); }

std::string_view nccl_backend::name() const noexcept { return all_->name(); }

bool nccl_backend::supports(operation_kind kind, c10::ScalarType dtype,
                            c10::DeviceType device) const noexcept {
  return device == all_->device_type() && !c10::isQIntType(dtype) &&
         kind != operation_kind::barrier && kind != operation_kind::monitored_barrier;
}

void nccl_backend::check(const operation& what) const { check_operation(what); }

void nccl_backend::run(operation& what, const time_limit& limit) {
  operation* const one = &what;
  run_together({&one, 1}, limit);
}

void nccl_backend::run_together(std::span<operation* const> all, const time_limit& limit) {
  if (auto why = all_->failure()) std::rethrow_exception(why);
  const auto& first = *all.front();
  if (first.inputs.empty() && first.outputs.empty()) return;
  const auto device = device_of(first);
  const c10::DeviceGuard current(device);
  const auto where = all_->place_of(first.kind, first.sequence);
  const auto on = all_->of(device, limit, where);
  auto* const stream = current_stream(device).native_handle();
  on->launch(
      [&](communicator_handle handle) {
        for (const auto* one : all)
          issue(all_->functions(), *one, all_->rank(), all_->size(), handle, stream);
      },
      all_->until(limit, where));
}

c10::Stream nccl_backend::side_stream(c10::Device device) {
  const std::lock_guard lock(streams_mutex_);
  const auto found = side_streams_.find(device.index());
  if (found != side_streams_.end()) return found->second;
  const auto made = c10::impl::VirtualGuardImpl(device.type())
                        .getStreamFromGlobalPool(device, all_->options().high_priority_stream);
  side_streams_.emplace(device.index(), made);
  return made;
}

void nccl_backend::watch(stream_operation what) { watch_.add(std::move(what)); }
void nccl_backend::wait_until_idle() { watch_.wait_until_idle(); }

void nccl_backend::abort(std::exception_ptr why) noexcept {
  if (all_->fail(why)) watch_.fail(std::move(why));
}

// What is on streams goes on, also after this object has gone.
void nccl_backend::leave(std::exception_ptr why) noexcept { all_->fail(why); }

c10::DataPtr nccl_backend::allocate_symmetric(std::size_t bytes, c10::Device device,
                                              const time_limit& limit) {
  device = all_->checked(device);
  const c10::DeviceGuard current(device);
  const auto where = all_->place_of(operation_kind::barrier, 0);
  return make_symmetric_window(all_->of(device, limit, where), bytes, device,
                               all_->until_all(limit, where));
}

int nccl_backend::connections() const { return all_->connections(); }

std::shared_ptr<inherited_connections> nccl_backend::split(int count, int color, int key,
                                                           const time_limit& limit) {
  return all_->inherit(
      count, limit, [&](nccl_communicator& from, const auto& name, const auto& until) {
        return from.split(color < 0 ? no_color : color, key, all_->options(), name, until);
      });
}

std::shared_ptr<inherited_connections> nccl_backend::shrink(int count,
                                                            const std::vector<int>& excluded,
                                                            const time_limit& limit) {
  return all_->inherit(count, limit,
                       [&](nccl_communicator& from, const auto& name, const auto& until) {
                         return from.shrink(excluded, all_->options(), name, until);
                       });
}

void nccl_backend::adopt(std::shared_ptr<inherited_connections> what) { all_->adopt(*what); }

void register_nccl(const std::string& name, const std::string& device_type,
                   const std::string& library) {
  const auto type = c10::Device(device_type).type();
  register_backend(name, {device_type}, [=](const backend_request& request) {
    std::shared_ptr<nccl_communicators> all;
    std::string problem;
    try {
      auto functions = nccl_functions::open(library.empty() ? default_library() : library);
      all = std::make_shared<nccl_communicators>(request, name, type, std::move(functions));
      if (!request.device.empty()) all->checked(c10::Device(request.device));
    } catch (const std::exception& e) {
      problem = e.what();
    }
    agree_to_begin(request, problem);
    if (!request.device.empty()) {
      const auto device = all->checked(c10::Device(request.device));
      const c10::DeviceGuard current(device);
      all->of(device, time_limit(request.timeout), all->place_of(operation_kind::barrier, 0));
    }
    return std::make_unique<nccl_backend>(std::move(all));
  });
}

}  // namespace troupe::groups::nccl
