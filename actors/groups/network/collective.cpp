#include "troupe/actors/groups/network/collective.hpp"

#include <string>

#include "troupe/actors/groups/reduction/reduction.hpp"
#include "troupe/messages/base/error.hpp"

namespace troupe::groups::network {

using schedules::algorithm;
using schedules::task;

collective::collective(group_channel& channel, const network_ways& ways, const operation& what,
                       const time_limit& limit)
    : run_(channel, what, limit, ways.enters_directly()),
      ways_(ways),
      what_(what),
      me_(channel.rank()),
      size_(channel.size()),
      element_(what.dtype == c10::ScalarType::Undefined ? 1 : c10::elementSize(what.dtype)) {}

void collective::carry_out() {
  take_outputs();
  switch (what_.kind) {
    case operation_kind::barrier: return run_.enter({});
    case operation_kind::broadcast: return broadcast();
    case operation_kind::all_reduce: return all_reduce();
    case operation_kind::reduce: return reduce();
    case operation_kind::all_gather: return all_gather();
    case operation_kind::all_gather_into_tensor: return all_gather_into_tensor();
    case operation_kind::gather: return gather();
    case operation_kind::scatter: return scatter();
    case operation_kind::reduce_scatter: return reduce_scatter();
    case operation_kind::reduce_scatter_tensor: return reduce_scatter_tensor();
    case operation_kind::all_to_all: return all_to_all();
    case operation_kind::all_to_all_single: return all_to_all_single();
    case operation_kind::send:
    case operation_kind::recv:
    case operation_kind::monitored_barrier: break;
  }
  throw invalid_argument(std::string(to_string(what_.kind)) + " is no collective");
}

// Outputs first: one that shares memory with an input until it is written to gets memory of its
// own here, before anything is known of where the input's bytes are.
void collective::take_outputs() const {
  const bool root_alone =
      what_.kind == operation_kind::reduce || what_.kind == operation_kind::gather;
  if (root_alone && me_ != what_.root) return;
  if (what_.kind == operation_kind::broadcast && me_ == what_.root) return;  // it is only read
  for (const auto& one : what_.outputs) memory_of(one);
}

void collective::run_plan(task by_task, algorithm by, std::byte* memory, std::size_t bytes,
                          int pieces) {
  const auto plan = schedules::make(by_task, by, me_, size_, what_.root, pieces);
  run_plan(plan, by, block_memory::divided(memory, bytes, plan.blocks, element_), bytes);
}

void collective::run_plan(const schedules::schedule& plan, algorithm by, const block_memory& data,
                          std::size_t bytes) {
  // Of a chain the pieces are blocks.
  const auto largest = by == algorithm::chain                              ? 0
                       : by == algorithm::ring || by == algorithm::scatter ? bytes / nth(size_)
                                                                           : bytes;
  run_schedule(run_, plan, data, stripes_of(largest, ways_.piece),
               [this](std::byte* here, std::span<const std::byte> more) {
                 const std::byte* const both[] = {here, more.data()};
                 combine(both, std::span(&here, 1), more.size());
               });
}

void collective::combine(std::span<const std::byte* const> sources, std::span<std::byte* const> to,
                         std::size_t bytes) const {
  const auto count = static_cast<std::int64_t>(bytes / element_);
  if (count == 0) return;
  const reduction how(to_string(what_.kind), what_.reduction, what_.dtype);
  how.run(sources, to, count, store_mode::cached, run_.factors().data());
}

}  // namespace troupe::groups::network
