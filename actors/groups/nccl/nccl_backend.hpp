#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "troupe/actors/groups/backend/backend.hpp"
#include "troupe/actors/groups/nccl/nccl_communicator.hpp"
#include "troupe/actors/groups/nccl/stream_watch.hpp"

namespace troupe::groups::nccl {

/// Registers `name` as a backend for tensors on devices of `device_type` ("cuda"), which uses the
/// libnccl at `library`; empty: `default_library`. It is opened when the first group is made with
/// it. Throws invalid_argument as register_backend does.
void register_nccl(const std::string& name, const std::string& device_type,
                   const std::string& library = {});

/// Collectives by NCCL, on streams of devices.
///
/// Each device that this rank's tensors lie on has a communicator of its own, which is made when
/// the first operation there is asked for, or with the group if group_options::device names it. All
/// ranks use their devices in the same order: the first that each of them uses are one
/// communicator, the second ones another.
class nccl_backend final : public stream_backend {
public:
  nccl_backend(const backend_request& request, std::string name, c10::DeviceType device_type,
               std::shared_ptr<const nccl_functions> functions);
  ~nccl_backend() override;

  std::string_view name() const noexcept override { return name_; }
  bool supports(operation_kind kind, c10::ScalarType dtype,
                c10::DeviceType device) const noexcept override;
  void check(const operation& what) const override;
  void run(operation& what, const time_limit& limit) override;
  void run_together(std::span<operation* const> all, const time_limit& limit) override;
  c10::Stream side_stream(c10::Device device) override;
  void watch(stream_operation what) override;
  void abort(std::exception_ptr why) noexcept override;
  void leave(std::exception_ptr why) noexcept override;

  c10::DataPtr allocate_symmetric(std::size_t bytes, c10::Device device,
                                  const time_limit& limit) override;
  int connections() const override;
  std::shared_ptr<inherited_connections> split(int count, int color, int key,
                                               const time_limit& limit) override;
  std::shared_ptr<inherited_connections> shrink(int count, const std::vector<int>& excluded,
                                                const time_limit& limit) override;
  void adopt(std::shared_ptr<inherited_connections> what) override;

  /// The communicator of a device; makes it. Pre: the device is current.
  std::shared_ptr<nccl_communicator> communicator_of(c10::Device device, const time_limit& limit);

private:
  using communicator_maker = std::function<std::shared_ptr<nccl_communicator>(
      nccl_communicator& from, const std::string& name, const patience& until)>;
  std::shared_ptr<inherited_connections> inherit(int count, const time_limit& limit,
                                                 const communicator_maker& make);
  std::shared_ptr<nccl_communicator> add(c10::DeviceIndex device,
                                         std::shared_ptr<nccl_communicator> made);
  operation_place place_of(operation_kind kind, std::uint64_t sequence) const;
  patience until(const time_limit& limit, operation_kind kind, std::uint64_t sequence);
  unique_id agree_on_id(std::uint32_t number, const time_limit& limit);
  std::exception_ptr failure() const;
  std::exception_ptr look();
  std::vector<std::shared_ptr<nccl_communicator>> communicators() const;
  void abort_all() noexcept;

  const std::string name_;
  const std::string group_;
  const int rank_;
  const int size_;
  const c10::DeviceType device_type_;
  const std::shared_ptr<network::group_channel> channel_;
  const std::shared_ptr<const nccl_functions> functions_;
  const nccl_options options_;

  mutable std::mutex mutex_;
  std::exception_ptr failure_;
  std::map<c10::DeviceIndex, std::shared_ptr<nccl_communicator>> communicators_;
  std::vector<c10::DeviceIndex> order_;  // in which they were made, the same on all ranks
  std::map<c10::DeviceIndex, c10::Stream> side_streams_;
  std::unique_ptr<stream_watch> watch_;
};

}  // namespace troupe::groups::nccl
