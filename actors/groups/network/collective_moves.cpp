// Collectives that move data.

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "troupe/actors/groups/network/collective.hpp"
#include "troupe/messages/base/error.hpp"

namespace troupe::groups::network {

using schedules::algorithm;
using schedules::task;

namespace {

// With fewer ranks it takes a rule: to wait for the entries takes longer than it saves.
constexpr int fewest_for_bruck = 4;

}  // namespace

void collective::broadcast() {
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
int collective::chain_pieces(std::size_t bytes) const noexcept {
  constexpr std::size_t least = 128 * 1024;
  const auto best = nth(schedules::best_pieces(size_, static_cast<double>(bytes), ways_.over));
  const auto most = std::max<std::size_t>(1, bytes / least);
  return static_cast<int>(std::max(std::min(best, most), (bytes + ways_.piece - 1) / ways_.piece));
}

std::span<const std::byte> collective::checked(std::span<const std::byte> bytes,
                                               std::size_t size) const {
  if (bytes.size() != size)
    throw decode_error(fmt::format("the entry of rank {} has other data than it says", what_.root));
  return bytes;
}

template <class From, class To>
void collective::exchange(const From& bytes_for, const To& place_of, bool same_for_all,
                          bool with_entry, int collector) {
  exchange_pairwise(run_, {.element = element_,
                           .piece = ways_.piece,
                           .window = ways_.window,
                           .same_for_all = same_for_all,
                           .most_with_entry = most_with_entry,
                           .collector = collector,
                           .with_entry = with_entry,
                           .bytes_for = bytes_for,
                           .place_of = place_of});
}

void collective::all_gather() {
  exchange([&](int) { return all_of(what_.inputs[0]); },
           [&](int from) { return place_in(what_.outputs[nth(from)]); }, true);
}

void collective::all_gather_into_tensor() {
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

algorithm collective::way_of_gather(const at::Tensor& input) const {
  if (is_small(input.nbytes())) return algorithm::direct;
  return ways_.choose(task::all_gather, input.nbytes() * nth(size_), false);
}

void collective::gather() {
  const auto nothing = owned_bytes{{}, &what_.inputs[0]};
  exchange([&](int to) { return to == what_.root ? all_of(what_.inputs[0]) : nothing; },
           [&](int from) {
             return me_ == what_.root ? place_in(what_.outputs[nth(from)]) : std::span<std::byte>();
           },
           false, true, what_.root);
}

void collective::scatter() {
  const auto nothing = owned_bytes{{}, &what_.outputs[0]};
  exchange([&](int to) { return me_ == what_.root ? all_of(what_.inputs[nth(to)]) : nothing; },
           [&](int from) {
             return from == what_.root ? place_in(what_.outputs[0]) : std::span<std::byte>();
           });
}

void collective::all_to_all() {
  const std::size_t each = what_.inputs[0].nbytes();
  const bool equal =
      std::ranges::all_of(what_.inputs, [&](const auto& one) { return one.nbytes() == each; });
  if (equal && all_go_by_bruck(each))
    return exchange_by_bruck([&](int to) { return bytes_of(what_.inputs[nth(to)]); },
                             [&](int from) { return memory_of(what_.outputs[nth(from)]); }, each);
  exchange([&](int to) { return all_of(what_.inputs[nth(to)]); },
           [&](int from) { return place_in(what_.outputs[nth(from)]); });
}

void collective::all_to_all_single() {
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
std::vector<std::size_t> collective::offsets(std::span<const std::int64_t> splits) const {
  std::vector<std::size_t> out{0};
  for (const auto one : splits)
    out.push_back(out.back() + static_cast<std::size_t>(one) * element_);
  return out;
}

// This rank has `each` bytes for every rank. All go by Bruck's if that is so of all ranks, which
// their entries say: it enters if it may be. A rank whose parts differ knows that nobody does.
bool collective::all_go_by_bruck(std::size_t each) {
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
void collective::exchange_by_bruck(const From& bytes_for, const To& place_of, std::size_t each) {
  const auto turned = byte_buffer(each * nth(size_));
  auto* const blocks = memory_of(turned);
  for (int d = 0; d < size_; ++d) copy_to(blocks + nth(d) * each, bytes_for((me_ + d) % size_));
  run_plan(task::all_to_all, algorithm::bruck, blocks, each * nth(size_));
  for (int d = 0; d < size_; ++d)
    copy_to(place_of((me_ + size_ - d) % size_), {blocks + nth(d) * each, each});
}

}  // namespace troupe::groups::network
