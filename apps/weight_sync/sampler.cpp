#include "troupe/apps/weight_sync/sampler.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/randn.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "troupe/apps/common/initial_weights.hpp"

namespace weight_sync {

namespace {

constexpr std::int64_t trainers_rank = 0;

/// The weights that were pushed to this process last.
struct mailbox {
  std::mutex mutex;
  std::uint64_t version = 0;
  named_weights weights;
};

mailbox& pushed() {
  static mailbox one;
  return one;
}

/// Of the trainer's process.
std::atomic<std::uint64_t> newest{1};

troupe::pulled_parameters newer(const sample_task& task, std::uint64_t version) {
  if (task.by == method::pull)
    return troupe::pull(task.weights, {.newer_than = version, .wait = task.waits});
  auto& box = pushed();
  const std::lock_guard lock(box.mutex);
  if (box.version <= version) return {version, {}};
  return {box.version, box.weights};
}

}  // namespace

sampler_record sample(const sample_task& task) {
  using clock = std::chrono::steady_clock;
  const at::NoGradGuard no_grad;
  const auto node = troupe::this_node();
  const auto start = clock::now();
  auto generator = common::make_generator(task.seed);
  sampler_record out;
  auto now = troupe::pull(task.weights);  // to begin with, by either method
  for (;;) {
    if (out.digests.empty() || out.digests.back().first != now.version)
      out.digests.emplace_back(now.version, digest(now.tensors));
    const auto width = now.tensors.front().second.size(0);
    forward(now.tensors, at::randn({task.batch, width}, generator));
    const auto last_committed = node.rpc_sync<&newest_version>(trainers_rank);
    out.batches.push_back(
        {std::chrono::duration<double>(clock::now() - start).count(), now.version, last_committed});
    if (now.version >= task.last) return out;
    if (auto next = newer(task, now.version)) now = std::move(next);
  }
}

void take(std::uint64_t version, named_weights weights) {
  auto& box = pushed();
  const std::lock_guard lock(box.mutex);
  box.version = version;
  box.weights.swap(weights);
}

version_times wait_for_versions(const troupe::rref<troupe::parameter_set>& weights,
                                std::uint64_t last) {
  version_times out;
  troupe::pulled_parameters now;
  while (now.version < last) {
    now = troupe::pull(weights, {.newer_than = now.version});
    out.emplace_back(now.version, now_ns());
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return out;
}

std::uint64_t newest_version() { return newest; }
void set_newest_version(std::uint64_t version) { newest = version; }

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace weight_sync
