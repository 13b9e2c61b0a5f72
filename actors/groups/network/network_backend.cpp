#include "troupe/actors/groups/network/network_backend.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "troupe/actors/groups/network/collective_run.hpp"
#include "troupe/actors/groups/network/pairwise.hpp"
#include "troupe/actors/groups/network/scheduled.hpp"
#include "troupe/actors/groups/network/tensor_bytes.hpp"
#include "troupe/actors/groups/reduction/reduction.hpp"
#include "troupe/messages/base/error.hpp"

namespace troupe::groups::network {

using schedules::algorithm;
using schedules::task;

namespace {

std::span<std::byte> place_in(const at::Tensor& tensor) {
  return {memory_of(tensor), tensor.nbytes()};
}

owned_bytes all_of(const at::Tensor& tensor) { return {bytes_of(tensor), &tensor}; }

// Dtypes whose sums are rounded after each step of a schedule, where a reduction rounds once.
bool rounds_once(c10::ScalarType dtype) noexcept {
  return c10::isReducedFloatingType(dtype) || c10::isFloat8Type(dtype);
}

// One collective of one rank.
class collective {
public:
  collective(group_channel& channel, const network_ways& ways, const operation& what,
             const time_limit& limit)
      : run_(channel, what, limit, ways.enters_directly()),
        ways_(ways),
        what_(what),
        me_(channel.rank()),
        size_(channel.size()),
        element_(what.dtype == c10::ScalarType::Undefined ? 1 : c10::elementSize(what.dtype)) {}

  void carry_out() {
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

private:
  // Outputs first: one that shares memory with an input until it is written to gets memory of its
  // own here, before anything is known of where the input's bytes are.
  void take_outputs() const {
    const bool root_alone =
        what_.kind == operation_kind::reduce || what_.kind == operation_kind::gather;
    if (root_alone && me_ != what_.root) return;
    if (what_.kind == operation_kind::broadcast && me_ == what_.root) return;  // it is only read
    for (const auto& one : what_.outputs) memory_of(one);
  }

  static bool is_small(std::size_t bytes) noexcept {
    return bytes <= network_backend::most_with_entry;
  }

  bool in_order() const noexcept { return goes_in_order(what_, ways_); }

  void run_plan(task by_task, algorithm by, std::byte* memory, std::size_t bytes, int pieces = 1) {
    const auto plan = schedules::make(by_task, by, me_, size_, what_.root, pieces);
    run_plan(plan, by, block_memory::divided(memory, bytes, plan.blocks, element_), bytes);
  }

  void run_plan(const schedules::schedule& plan, algorithm by, const block_memory& data,
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

  void broadcast() {
    const joined_bytes all(what_.outputs);
    const bool root = me_ == what_.root;
    auto* const memory = root ? nullptr : all.memory();
    const auto bytes = all.bytes();
    if (is_small(bytes.size())) {
      run_.enter(root ? bytes : std::span<const std::byte>());
      if (root) return;
      copy_to(memory, checked(run_.data_of(what_.root), bytes.size()));
    } else {
      const auto by = ways_.choose(task::broadcast, bytes.size(), false);
      const int pieces = by == algorithm::chain ? chain_pieces(bytes.size()) : 1;
      run_.go_by(pieces > 1 ? fmt::format("{} in {} pieces", to_string(by), pieces)
                            : std::string(to_string(by)));
      run_.enter({});
      // The root's is only read.
      run_plan(task::broadcast, by, const_cast<std::byte*>(bytes.data()), bytes.size(), pieces);
    }
    if (!root) all.put_back();
  }

  // No smaller than is worth a message, no larger than a piece.
  int chain_pieces(std::size_t bytes) const noexcept {
    constexpr std::size_t least = 128 * 1024;
    const auto best = nth(schedules::best_pieces(size_, static_cast<double>(bytes), ways_.over));
    const auto most = std::max<std::size_t>(1, bytes / least);
    return static_cast<int>(
        std::max(std::min(best, most), (bytes + ways_.piece - 1) / ways_.piece));
  }

  std::span<const std::byte> checked(std::span<const std::byte> bytes, std::size_t size) const {
    if (bytes.size() != size)
      throw decode_error(
          fmt::format("the entry of rank {} has other data than it says", what_.root));
    return bytes;
  }

  // Small: each rank gets all, and combines them.
  void all_reduce() {
    const joined_bytes all(what_.outputs);
    auto* const memory = all.memory();
    const auto bytes = all.bytes();
    if (is_small(bytes.size())) {
      run_.enter(bytes);
      combine_entries(bytes, 0, bytes.size(), memory);
    } else {
      const auto by = ways_.choose(task::all_reduce, bytes.size(), in_order());
      if (by == algorithm::direct) {
        reduce_pairs(
            results_go::to_all,
            [&](int part) {
              return owned_bytes{slice(bytes, part), &all.whole()};
            },
            [&](int part) { return memory + (slice(bytes, part).data() - bytes.data()); });
      } else {
        run_.go_by(to_string(by));
        run_.enter({});
        run_plan(task::all_reduce, by, memory, bytes.size());
      }
    }
    all.put_back();
  }

  // The part of `bytes` that `rank` combines.
  std::span<const std::byte> slice(std::span<const std::byte> bytes, int rank) const {
    const auto count = bytes.size() / element_;
    const auto begin = count * nth(rank) / nth(size_), end = count * nth(rank + 1) / nth(size_);
    return bytes.subspan(begin * element_, (end - begin) * element_);
  }

  template <class Input, class Result>
  void reduce_pairs(results_go results, const Input& input_of, const Result& result_of) {
    reduce_pairwise(run_, {.element = element_,
                           .piece = ways_.piece,
                           .window = ways_.window,
                           .results = results,
                           .root = what_.root,
                           .input_of = input_of,
                           .result_of = result_of,
                           .combine = [this](std::span<const std::byte* const> sources,
                                             std::span<std::byte* const> to,
                                             std::size_t bytes) { combine(sources, to, bytes); }});
  }

  void combine(std::span<const std::byte* const> sources, std::span<std::byte* const> to,
               std::size_t bytes) const {
    const auto count = static_cast<std::int64_t>(bytes / element_);
    if (count == 0) return;
    const reduction how(to_string(what_.kind), what_.reduction, what_.dtype);
    how.run(sources, to, count, store_mode::cached, run_.factors().data());
  }

  // Small: the root gets all. Large: each rank combines its slice, and the root gets the slices.
  void reduce() {
    const auto& input = what_.inputs[0];
    auto* const memory = me_ == what_.root ? memory_of(what_.outputs[0]) : nullptr;
    const auto bytes = bytes_of(input);
    if (is_small(bytes.size())) {
      run_.enter(bytes);
      if (memory) combine_entries(bytes, 0, bytes.size(), memory);
      return;
    }
    reduce_pairs(
        results_go::to_root,
        [&](int part) {
          return owned_bytes{slice(bytes, part), &input};
        },
        [&](int part) {
          return memory ? memory + (slice(bytes, part).data() - bytes.data()) : nullptr;
        });
  }

  // What all have sent with their entries, `mine` on this rank: `size` bytes from `begin` on.
  void combine_entries(std::span<const std::byte> mine, std::size_t begin, std::size_t size,
                       std::byte* to) const {
    std::vector<const std::byte*> sources;
    for (int rank = 0; rank < size_; ++rank) {
      const auto all = rank == me_ ? mine : run_.data_of(rank);
      if (begin > all.size() || all.size() - begin < size)
        throw decode_error(fmt::format("the entry of rank {} has other data than it says", rank));
      sources.push_back(all.data() + begin);
    }
    combine(sources, std::span(&to, 1), size);
  }

  template <class From, class To>
  void exchange(const From& bytes_for, const To& place_of, bool same_for_all = false,
                bool with_entry = true) {
    exchange_pairwise(run_, {.element = element_,
                             .piece = ways_.piece,
                             .window = ways_.window,
                             .same_for_all = same_for_all,
                             .most_with_entry = network_backend::most_with_entry,
                             .with_entry = with_entry,
                             .bytes_for = bytes_for,
                             .place_of = place_of});
  }

  void all_gather() {
    exchange([&](int) { return all_of(what_.inputs[0]); },
             [&](int from) { return place_in(what_.outputs[nth(from)]); }, true);
  }

  void all_gather_into_tensor() {
    if (what_.inputs.empty()) return run_.enter({});
    std::string ways;
    for (const auto& input : what_.inputs)
      if (const auto by = way_of_gather(input); by != algorithm::direct)
        ways += (ways.empty() ? "" : ", ") + std::string(to_string(by));
    run_.go_by(std::move(ways));
    for (std::size_t i = 0; i < what_.inputs.size(); ++i) {
      const auto& input = what_.inputs[i];
      const std::span all(memory_of(what_.outputs[i]), what_.outputs[i].nbytes());
      const auto each = input.nbytes();
      const auto by = way_of_gather(input);
      if (by == algorithm::direct) {
        exchange([&](int) { return all_of(input); },
                 [&](int from) { return all.subspan(nth(from) * each, each); }, true, i == 0);
        continue;
      }
      run_.enter({});
      copy_to(all.data() + nth(me_) * each, bytes_of(input));
      run_plan(task::all_gather, by, all.data(), all.size());
    }
  }

  algorithm way_of_gather(const at::Tensor& input) const {
    if (is_small(input.nbytes())) return algorithm::direct;
    return ways_.choose(task::all_gather, input.nbytes() * nth(size_), false);
  }

  void gather() {
    const auto nothing = owned_bytes{{}, &what_.inputs[0]};
    exchange([&](int to) { return to == what_.root ? all_of(what_.inputs[0]) : nothing; },
             [&](int from) {
               return me_ == what_.root ? place_in(what_.outputs[nth(from)])
                                        : std::span<std::byte>();
             });
  }

  void scatter() {
    const auto nothing = owned_bytes{{}, &what_.outputs[0]};
    exchange([&](int to) { return me_ == what_.root ? all_of(what_.inputs[nth(to)]) : nothing; },
             [&](int from) {
               return from == what_.root ? place_in(what_.outputs[0]) : std::span<std::byte>();
             });
  }

  void reduce_scatter() {
    std::size_t all = 0, begin = 0;
    for (std::size_t i = 0; i < what_.inputs.size(); ++i) {
      all += what_.inputs[i].nbytes();
      if (i < nth(me_)) begin += what_.inputs[i].nbytes();
    }
    if (is_small(all)) {
      const joined_bytes inputs(what_.inputs);
      run_.enter(inputs.bytes());
      return combine_entries(inputs.bytes(), begin, what_.outputs[0].nbytes(),
                             memory_of(what_.outputs[0]));
    }
    if (scatters_by_ring(all)) {
      run_.go_by(to_string(algorithm::ring));
      run_.enter({});
      return reduce_by_ring(what_.inputs, what_.outputs[0]);
    }
    reduce_pairs(
        results_go::nowhere, [&](int part) { return all_of(what_.inputs[nth(part)]); },
        [&](int) { return memory_of(what_.outputs[0]); });
  }

  void reduce_scatter_tensor() {
    if (what_.inputs.empty()) return run_.enter({});
    std::string ways;
    for (const auto& input : what_.inputs)
      if (!is_small(input.nbytes()) && scatters_by_ring(input.nbytes()))
        ways += (ways.empty() ? "" : ", ") + std::string(to_string(algorithm::ring));
    run_.go_by(std::move(ways));
    for (std::size_t i = 0; i < what_.inputs.size(); ++i) {
      const auto& input = what_.inputs[i];
      auto* const result = memory_of(what_.outputs[i]);
      const auto bytes = bytes_of(input);
      const auto each = what_.outputs[i].nbytes();
      if (i == 0 && is_small(bytes.size())) {
        run_.enter(bytes);
        combine_entries(bytes, nth(me_) * each, each, result);
      } else if (!is_small(bytes.size()) && scatters_by_ring(bytes.size())) {
        run_.enter({});
        reduce_by_ring(input.view({size_, -1}).unbind(), what_.outputs[i]);
      } else {
        reduce_pairs(
            results_go::nowhere,
            [&](int part) {
              return owned_bytes{bytes.subspan(nth(part) * each, each), &input};
            },
            [&](int) { return result; });
      }
    }
  }

  bool scatters_by_ring(std::size_t bytes) const noexcept {
    return ways_.choose(task::reduce_scatter, bytes, in_order()) == algorithm::ring;
  }

  // Parts are combined on their way, in a copy: what this rank has is only read.
  void reduce_by_ring(std::span<const at::Tensor> parts, const at::Tensor& result) {
    std::size_t all = 0;
    for (const auto& one : parts) all += one.nbytes();
    const auto copy = byte_buffer(all);
    block_memory data{memory_of(copy), {0}, element_};
    for (const auto& one : parts) {
      copy_to(data.memory + data.bounds.back(), bytes_of(one));
      data.bounds.push_back(data.bounds.back() + one.nbytes());
    }
    run_plan(schedules::make(task::reduce_scatter, algorithm::ring, me_, size_), algorithm::ring,
             data, all);
    copy_to(memory_of(result), {data.memory + data.bounds[nth(me_)], result.nbytes()});
  }

  void all_to_all() {
    const std::size_t each = what_.inputs[0].nbytes();
    const bool equal =
        std::ranges::all_of(what_.inputs, [&](const auto& one) { return one.nbytes() == each; });
    if (equal && all_go_by_bruck(each))
      return exchange_by_bruck([&](int to) { return bytes_of(what_.inputs[nth(to)]); },
                               [&](int from) { return memory_of(what_.outputs[nth(from)]); }, each);
    exchange([&](int to) { return all_of(what_.inputs[nth(to)]); },
             [&](int from) { return place_in(what_.outputs[nth(from)]); });
  }

  void all_to_all_single() {
    const auto in = offsets(what_.input_splits), out = offsets(what_.output_splits);
    const auto bytes = bytes_of(what_.inputs[0]);
    auto* const memory = memory_of(what_.outputs[0]);
    const auto each = in[1];
    bool equal = true;
    for (std::size_t to = 1; to < in.size(); ++to) equal = equal && in[to] == each * to;
    if (equal && all_go_by_bruck(each))
      return exchange_by_bruck([&](int to) { return bytes.subspan(nth(to) * each, each); },
                               [&](int from) { return memory + nth(from) * each; }, each);
    exchange(
        [&](int to) {
          return owned_bytes{bytes.subspan(in[nth(to)], in[nth(to) + 1] - in[nth(to)]),
                             &what_.inputs[0]};
        },
        [&](int from) {
          return std::span(memory + out[nth(from)], out[nth(from) + 1] - out[nth(from)]);
        });
  }

  // In bytes, of each part and of the end.
  std::vector<std::size_t> offsets(std::span<const std::int64_t> splits) const {
    std::vector<std::size_t> out{0};
    for (const auto one : splits)
      out.push_back(out.back() + static_cast<std::size_t>(one) * element_);
    return out;
  }

  // This rank has `each` bytes for every rank. All go by Bruck's if that is so of all ranks, which
  // their entries say: it enters if it may be. A rank whose parts differ knows that nobody does.
  bool all_go_by_bruck(std::size_t each) {
    const auto all = each * nth(size_);
    if (is_small(all)) return false;
    const auto by = size_ > fewest_for_bruck
                        ? ways_.choose(task::all_to_all, all, false)
                        : ways_.ruled(task::all_to_all, all, false).value_or(algorithm::direct);
    if (by != algorithm::bruck) return false;
    run_.go_by(to_string(by));
    run_.enter({});
    for (int rank = 0; rank < size_; ++rank)
      for (const auto one : run_.entry_of_rank(rank).sends)
        if (one * element_ != each) return false;
    return true;
  }

  // See schedules/exchanges.hpp: blocks are numbered by distance.
  template <class From, class To>
  void exchange_by_bruck(const From& bytes_for, const To& place_of, std::size_t each) {
    const auto turned = byte_buffer(each * nth(size_));
    auto* const blocks = memory_of(turned);
    for (int d = 0; d < size_; ++d) copy_to(blocks + nth(d) * each, bytes_for((me_ + d) % size_));
    run_plan(task::all_to_all, algorithm::bruck, blocks, each * nth(size_));
    for (int d = 0; d < size_; ++d)
      copy_to(place_of((me_ + size_ - d) % size_), {blocks + nth(d) * each, each});
  }

  // With fewer ranks it takes a rule: to wait for the entries takes longer than it saves.
  static constexpr int fewest_for_bruck = 4;

  collective_run run_;
  const network_ways& ways_;
  const operation& what_;
  const int me_;
  const int size_;
  const std::size_t element_;
};

}  // namespace

bool order_is_free(reduce_op reduction, c10::ScalarType dtype) noexcept {
  return c10::isIntegralType(dtype, true) && reduction != reduce_op::avg &&
         reduction != reduce_op::premul_sum;
}

bool goes_in_order(const operation& what, const network_ways& ways) noexcept {
  const bool composes = what.reduction != reduce_op::avg && what.reduction != reduce_op::premul_sum;
  return !composes || !(order_is_free(what.reduction, what.dtype) ||
                        (ways.any_order && !rounds_once(what.dtype)));
}

bool network_backend::supports(operation_kind kind, c10::ScalarType dtype,
                               c10::DeviceType device) const noexcept {
  // Of no tensors, a barrier's or an empty list's, the dtype is undefined.
  return device == c10::DeviceType::CPU && !c10::isQIntType(dtype) &&
         kind != operation_kind::send && kind != operation_kind::recv;
}

void network_backend::run(operation& what, const time_limit& limit) {
  if (auto why = channel_->failure()) std::rethrow_exception(std::move(why));
  collective(*channel_, ways_, what, limit).carry_out();
}

}  // namespace troupe::groups::network
