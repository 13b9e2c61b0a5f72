#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "troupe/actors/groups/backend/backend.hpp"
#include "troupe/actors/groups/backend/collective_error.hpp"
#include "troupe/actors/groups/nccl/nccl_communicator.hpp"

namespace troupe::groups::nccl {

/// The communicators of one rank of a group, one for each device that it uses, and what became of
/// the group. Shared with what is still under way when the backend has gone. Thread-safe.
class nccl_communicators {
public:
  nccl_communicators(const backend_request& request, std::string name, c10::DeviceType device_type,
                     std::shared_ptr<const nccl_functions> functions);

  const std::string& name() const noexcept { return name_; }
  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  c10::DeviceType device_type() const noexcept { return device_type_; }
  const nccl_functions& functions() const noexcept { return *functions_; }
  const nccl_options& options() const noexcept { return options_; }
  operation_place place_of(operation_kind kind, std::uint64_t sequence) const {
    return {group_, rank_, kind, sequence};
  }

  /// With its index: the current one for a device without. Throws invalid_argument if there is
  /// none.
  c10::Device checked(c10::Device device) const;

  /// The communicator of a device; makes it, one call at a time. Pre: the device is current.
  /// `where` is what needs it, for errors.
  std::shared_ptr<nccl_communicator> of(c10::Device device, const time_limit& limit,
                                        const operation_place& where);

  /// For an operation that needs those ranks that have asked for as many.
  patience until(const time_limit& limit, const operation_place& where) const;
  /// For what needs all ranks.
  patience until_all(const time_limit& limit, const operation_place& where) const;

  /// Why an operation that is on a stream will not end; nullptr: it may.
  std::exception_ptr problem_of(const stream_operation& what) const;
  /// What NCCL has noticed; nullptr: nothing.
  std::exception_ptr async_error() const;

  /// The first one counts; later calls of all kinds throw it. False: there was one.
  bool fail(const std::exception_ptr& why) noexcept;
  std::exception_ptr failure() const;
  void abort_all() const noexcept;

  /// As stream_backend.
  int connections() const;
  using child_maker = std::function<std::shared_ptr<nccl_communicator>(
      nccl_communicator& from, const std::string& name, const patience& until)>;
  std::shared_ptr<inherited_connections> inherit(int count, const time_limit& limit,
                                                 const child_maker& make);
  void adopt(inherited_connections& what);

private:
  std::shared_ptr<nccl_communicator> add(c10::DeviceIndex device,
                                         std::shared_ptr<nccl_communicator> made);
  unique_id agree_on_id(std::uint32_t number, const time_limit& limit,
                        const operation_place& where) const;
  patience patience_of(const time_limit& limit, const operation_place& where,
                       std::uint64_t needs) const;
  std::vector<std::shared_ptr<nccl_communicator>> all() const;

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
  std::map<c10::DeviceIndex, std::shared_ptr<nccl_communicator>> by_device_;
  std::vector<c10::DeviceIndex> order_;  // in which they were made, the same on all ranks
};

}  // namespace troupe::groups::nccl
