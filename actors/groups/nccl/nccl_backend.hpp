#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "troupe/actors/groups/backend/backend.hpp"
#include "troupe/actors/groups/nccl/nccl_communicators.hpp"
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
  explicit nccl_backend(std::shared_ptr<nccl_communicators> all);
  /// Returns at once: what is on streams goes on, and is looked after until it has ended. Then the
  /// communicators end.
  ~nccl_backend() override;

  std::string_view name() const noexcept override;
  bool supports(operation_kind kind, c10::ScalarType dtype,
                c10::DeviceType device) const noexcept override;
  void check(const operation& what) const override;
  void run(operation& what, const time_limit& limit) override;
  void run_together(std::span<operation* const> all, const time_limit& limit) override;
  c10::Stream side_stream(c10::Device device) override;
  void watch(stream_operation what) override;
  void wait_until_idle() override;
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

private:
  std::shared_ptr<nccl_communicators> all_;
  stream_watch watch_;
  std::mutex streams_mutex_;
  std::map<c10::DeviceIndex, c10::Stream> side_streams_;
};

}  // namespace troupe::groups::nccl
