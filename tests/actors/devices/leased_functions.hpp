#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "tests/accelerator/accelerator_ipc.hpp"
#include "tests/actors/node/job.hpp"
#include "troupe/messages/tensor/opened_memory.hpp"

// What two ranks in processes of their own call of one another, to which tensors are leased.
namespace troupe::test {

inline at::Tensor leased_twice(const at::Tensor& x) { return x * 2; }
inline at::Tensor leased_plus_one(at::Tensor x) { return x.add_(1); }
inline std::string leased_to(const at::Tensor& x) { return x.device().str(); }

/// Do all lie in one storage here? Writes to the first.
inline bool leased_share(std::vector<at::Tensor> all) {
  bool same = true;
  for (const auto& one : all) same = same && one.storage().data() == all[0].storage().data();
  all[0].fill_(0);
  return same;
}

/// Copies to host memory, from there, on devices.
inline std::tuple<std::uint64_t, std::uint64_t, std::uint64_t> leased_copies() {
  const auto all = accelerator::counted();
  return {all.copies_to_host, all.copies_to_device, all.copies_on_device};
}

inline std::size_t leased_allocations() { return detail::opened_allocations(); }

/// This process opens no memory any more, as where a driver refuses to.
inline void leased_open_none() { accelerator::ipc::opens() = false; }

/// The streams of this process stand still for a minute, for what begins now.
inline void leased_stand_still() {
  static std::optional<accelerator::slow> slow;
  slow.emplace(std::chrono::minutes(1));
}

/// What `leased_keep` was called with last.
inline std::optional<at::Tensor>& leased_kept() {
  static std::optional<at::Tensor> kept;
  return kept;
}
inline std::atomic<bool>& leased_came() {
  static std::atomic<bool> came{false};
  return came;
}
inline void leased_keep(const at::Tensor& x) {
  leased_kept() = x + 0;
  leased_came() = true;
}

/// Sends a tensor, and ends the process when it has arrived there.
inline void leased_and_killed(const std::string& device) {
  const auto x = leased_twice(at::ones({300'000}, at::TensorOptions().device(device)));
  this_node().rpc_sync<&leased_keep>("rank0", x);
  ::kill(getpid(), SIGKILL);
}

inline std::string leased_plan(const std::string& from) {
  for (const auto& way : this_node().transport_plan("rank0"))
    if (way.which.starts_with("on " + from)) return way.way + ": " + way.reason;
  return "no way";
}

/// How a rank of a job of two is set up.
struct leased_setup {
  std::string kind;  ///< type of devices
  std::string transport = "ucx";
  bool strict = false;
  bool opens = true;  ///< rank 1 opens memory of the simulated devices
};

/// The first two devices of a rank are mapped crosswise, the only one to itself.
inline rpc_options with_leases(int rank, const leased_setup& how, const std::string& file) {
  const auto& kind = how.kind;
  if (kind == "sim") {
    accelerator::install();
    if (how.opens || rank == 0) accelerator::install_ipc();
  }
  const int count = detail::device_count(detail::place_of(c10::Device(kind + ":0")).where);
  rpc_options options;
  options.rank = static_cast<std::uint32_t>(rank);
  options.world_size = 2;
  options.name = "rank" + std::to_string(rank);
  if (how.transport == "tcp") options.transport = backend::tcp;
  options.init_method = "file://" + file;
  auto& map = options.device_maps[rank == 0 ? "rank1" : "rank0"];
  if (count < 2)
    map = {{kind + ":0", kind + ":0"}};
  else
    map = {{kind + ":0", kind + ":1"}, {kind + ":1", kind + ":0"}};
  if (kind == "sim") map.push_back({"sim:2", "cpu"});
  options.lend_tensors = how.strict;
  options.lend_strictly = how.strict;
  return options;
}

}  // namespace troupe::test
