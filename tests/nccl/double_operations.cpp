#include <algorithm>
#include <cstring>
#include <map>
#include <vector>

#include "accelerator.hpp"
#include "double_communicator.hpp"
#include "double_reduce.hpp"

// What runs on streams: through memory that all ranks share, a chunk at a time.
namespace troupe::test::nccl_double {

using groups::nccl::data_type;
using groups::nccl::result;

namespace {

std::byte* host(const void* device) {
  return static_cast<std::byte*>(troupe_sim_host_pointer(device));
}

}  // namespace

// All ranks are here; false: not all will be.
bool communicator::meet() {
  const auto stage = ++stage_;
  region_->of(rank_).stage.store(stage, std::memory_order_release);
  return await([&] {
    for (int one = 0; one < size_; ++one)
      if (region_->of(one).stage.load(std::memory_order_acquire) < stage) return false;
    return true;
  });
}

// NCCL itself would hang, or write nonsense.
bool communicator::agree(const call& what) {
  auto& mine = region_->of(rank_);
  mine.call = {static_cast<std::uint32_t>(what.function), static_cast<std::uint32_t>(what.type),
               what.count, what.premultiplied ? 0 : what.how, what.root};
  mine.scale = what.factor;
  if (!meet()) return false;
  bool same = true;
  for (int one = 0; one < size_; ++one) same = same && region_->of(one).call == mine.call;
  if (!meet()) return false;
  if (!same) error_ = result::invalid_usage;
  return same;
}

void communicator::reduce_to(int root, const call& what, const std::byte* from, std::byte* to) {
  const auto element = size_of(what.type);
  const auto most = region::chunk / element;
  for (std::size_t done = 0; done < what.count; done += most) {
    const auto count = std::min(most, what.count - done);
    std::memcpy(region_->data_of(rank_), from + done * element, count * element);
    if (!meet()) return;
    if (root < 0 || root == rank_) {
      std::vector<const std::byte*> sources;
      std::vector<double> factors;
      for (int one = 0; one < size_; ++one) {
        sources.push_back(region_->data_of(one));
        if (what.premultiplied) factors.push_back(region_->of(one).scale);
      }
      combine(sources, factors, to + done * element, count, what.type,
              what.premultiplied ? groups::nccl::reduction::sum
                                 : static_cast<groups::nccl::reduction>(what.how));
    }
    if (!meet()) return;
  }
}

void communicator::spread_from(int root, const std::byte* from, std::byte* to, std::size_t bytes) {
  for (std::size_t done = 0; done < bytes; done += region::chunk) {
    const auto count = std::min(region::chunk, bytes - done);
    if (root == rank_) std::memcpy(region_->data_of(root), from + done, count);
    if (!meet()) return;
    std::memmove(to + done, region_->data_of(root), count);
    if (!meet()) return;
  }
}

void communicator::collective(const call& what) {
  if (!agree(what)) return;
  const auto* const from = what.from ? host(what.from) : nullptr;
  auto* const to = what.to ? host(what.to) : nullptr;
  const auto bytes = what.count * size_of(what.type);
  switch (what.function) {
    case call::what::all_reduce: return reduce_to(-1, what, from, to);
    case call::what::reduce: return reduce_to(what.root, what, from, to);
    case call::what::broadcast: return spread_from(what.root, from, to, bytes);
    case call::what::all_gather:
      for (int root = 0; root < size_; ++root)
        spread_from(root, from, to + static_cast<std::size_t>(root) * bytes, bytes);
      return;
    default:
      for (int root = 0; root < size_; ++root)
        reduce_to(root, what, from + static_cast<std::size_t>(root) * bytes, to);
  }
}

// All of a group at the same time; those of one pair in their order.
void communicator::messages(const std::vector<call>& calls) {
  struct under_way {
    const call* what;
    std::size_t bytes;
    std::size_t done = 0;
  };
  std::map<std::pair<int, bool>, std::vector<under_way>> queues;  // by the other rank, is it a send
  for (const auto& one : calls)
    if (one.function == call::what::send || one.function == call::what::recv)
      queues[{one.root, one.function == call::what::send}].push_back(
          {&one, one.count * size_of(one.type)});
  const auto step = [&] {
    bool over = true;
    for (auto& [where, queue] : queues) {
      if (queue.empty()) continue;
      over = false;
      auto& first = queue.front();
      const auto [other, sends] = where;
      auto& slot = sends ? region_->pair(rank_, other) : region_->pair(other, rank_);
      if (sends && slot.full.load(std::memory_order_acquire) == 0) {
        slot.bytes = std::min(region::pair_chunk, first.bytes - first.done);
        std::memcpy(region_->data_of_pair(rank_, other), host(first.what->from) + first.done,
                    slot.bytes);
        first.done += slot.bytes;
        slot.full.store(1, std::memory_order_release);
      } else if (!sends && slot.full.load(std::memory_order_acquire) == 1) {
        const auto size = std::min<std::size_t>(slot.bytes, first.bytes - first.done);
        if (size != slot.bytes) error_ = result::invalid_usage;  // more than was asked for
        std::memcpy(host(first.what->to) + first.done, region_->data_of_pair(other, rank_), size);
        first.done += size;
        slot.full.store(0, std::memory_order_release);
      }
      if (first.done == first.bytes) queue.erase(queue.begin());
    }
    return over;
  };
  if (!queues.empty()) await(step);
}

}  // namespace troupe::test::nccl_double
