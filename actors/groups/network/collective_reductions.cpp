// Collectives that combine values.

#include <fmt/format.h>

#include <string>
#include <utility>

#include "troupe/actors/groups/network/collective.hpp"
#include "troupe/messages/base/error.hpp"

namespace troupe::groups::network {

using schedules::algorithm;
using schedules::task;

// Small: each rank gets all, and combines them.
void collective::all_reduce() {
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
std::span<const std::byte> collective::slice(std::span<const std::byte> bytes, int rank) const {
  const auto count = bytes.size() / element_;
  const auto begin = count * nth(rank) / nth(size_), end = count * nth(rank + 1) / nth(size_);
  return bytes.subspan(begin * element_, (end - begin) * element_);
}

template <class Input, class Result>
void collective::reduce_pairs(results_go results, const Input& input_of, const Result& result_of) {
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

// Small: the root gets all. Large: each rank combines its slice, and the root gets the slices.
void collective::reduce() {
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
void collective::combine_entries(std::span<const std::byte> mine, std::size_t begin,
                                 std::size_t size, std::byte* to) const {
  std::vector<const std::byte*> sources;
  for (int rank = 0; rank < size_; ++rank) {
    const auto all = rank == me_ ? mine : run_.data_of(rank);
    if (begin > all.size() || all.size() - begin < size)
      throw decode_error(fmt::format("the entry of rank {} has other data than it says", rank));
    sources.push_back(all.data() + begin);
  }
  combine(sources, std::span(&to, 1), size);
}

void collective::reduce_scatter() {
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

void collective::reduce_scatter_tensor() {
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

bool collective::scatters_by_ring(std::size_t bytes) const noexcept {
  return ways_.choose(task::reduce_scatter, bytes, in_order()) == algorithm::ring;
}

// Parts are combined on their way, in a copy: what this rank has is only read.
void collective::reduce_by_ring(std::span<const at::Tensor> parts, const at::Tensor& result) {
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

}  // namespace troupe::groups::network
