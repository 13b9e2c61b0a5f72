#include "troupe/apps/weight_sync/sampler.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/randn.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

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

/// What the trainer's process tells samplers, and hears of them.
struct announcements {
  std::mutex mutex;
  std::condition_variable heard;
  std::uint64_t newest = 1;
  std::size_t have_it = 0;
  std::int64_t last_at = 0;
};

announcements& trainer() {
  static announcements one;
  return one;
}

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
    const auto newest = node.rpc_sync<&newest_version>(trainers_rank);
    out.batches.push_back(
        {std::chrono::duration<double>(clock::now() - start).count(), now.version, newest});
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

void wait_for_versions(const troupe::rref<troupe::parameter_set>& weights, std::uint64_t last) {
  const auto node = troupe::this_node();
  troupe::pulled_parameters now;
  while (now.version < last) {
    now = troupe::pull(weights, {.newer_than = now.version});
    node.rpc_sync<&has_version>(trainers_rank, now.version, now_ns());
  }
}

std::uint64_t newest_version() {
  auto& all = trainer();
  const std::lock_guard lock(all.mutex);
  return all.newest;
}

void set_newest_version(std::uint64_t version) {
  auto& all = trainer();
  const std::lock_guard lock(all.mutex);
  all.newest = version;
  all.have_it = 0;
  all.last_at = 0;
}

void has_version(std::uint64_t version, std::int64_t at) {
  auto& all = trainer();
  const std::lock_guard lock(all.mutex);
  if (version != all.newest) return;
  ++all.have_it;
  all.last_at = std::max(all.last_at, at);
  all.heard.notify_all();
}

std::optional<std::int64_t> await_samplers(std::size_t count, double limit_seconds) {
  auto& all = trainer();
  std::unique_lock lock(all.mutex);
  if (!all.heard.wait_for(lock, std::chrono::duration<double>(limit_seconds),
                          [&] { return all.have_it >= count; }))
    return std::nullopt;
  return all.last_at;
}

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace weight_sync
