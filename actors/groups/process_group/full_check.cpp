#include "troupe/actors/groups/process_group/full_check.hpp"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "troupe/actors/groups/backend/collective_error.hpp"
#include "troupe/actors/groups/backend/signature.hpp"
#include "troupe/actors/groups/backend/text.hpp"
#include "troupe/messages/codec/decoder.hpp"
#include "troupe/messages/codec/encoder.hpp"

namespace troupe::groups {

namespace {

using shape = std::vector<std::int64_t>;

// Their numbers are beyond those of collectives, and below those of monitored barriers.
constexpr std::uint64_t first_checked = std::uint64_t{1} << 62;
constexpr std::uint32_t asked_stage = 0;
constexpr std::uint32_t called_stage = 1;

// What a rank was asked for, as far as all have to be asked for the same.
struct request {
  operation_signature asked;
  std::vector<shape> shapes;           // equal on all ranks
  std::vector<shape> inputs, outputs;  // of lists, which differ from rank to rank
  // By rank, where there are lists: the elements for each, and from each.
  std::vector<std::int64_t> sends, takes;
};

// Lists may have tensors of another size on each rank.
bool has_like_shapes(operation_kind kind) noexcept {
  switch (kind) {
    case operation_kind::broadcast:
    case operation_kind::all_reduce:
    case operation_kind::reduce:
    case operation_kind::all_gather_into_tensor:
    case operation_kind::reduce_scatter_tensor: return true;
    default: return false;
  }
}

// A reduce has an output on its destination alone.
std::span<const at::Tensor> compared(const operation& what) {
  if (!has_like_shapes(what.kind)) return {};
  return what.inputs.empty() ? what.outputs : what.inputs;
}

std::vector<shape> shapes_in(std::span<const at::Tensor> tensors) {
  std::vector<shape> out;
  for (const auto& one : tensors) out.push_back(one.sizes().vec());
  return out;
}

// One for each rank as they are; of a single one as many for each.
std::vector<std::int64_t> elements_by_rank(std::span<const at::Tensor> tensors, bool is_list,
                                           int size) {
  std::vector<std::int64_t> out(static_cast<std::size_t>(size));
  for (std::size_t rank = 0; rank < out.size() && !tensors.empty(); ++rank)
    if (!is_list || rank < tensors.size()) out[rank] = tensors[is_list ? rank : 0].numel();
  return out;
}

void add_lists(request& to, const operation& what, int rank, int size) {
  to.inputs = shapes_in(what.inputs);
  to.outputs = shapes_in(what.outputs);
  if (what.kind == operation_kind::all_to_all_single) {
    to.sends.assign(what.input_splits.begin(), what.input_splits.end());
    to.takes.assign(what.output_splits.begin(), what.output_splits.end());
    return;
  }
  const bool sends_list =
      what.kind != operation_kind::all_gather && what.kind != operation_kind::gather;
  const bool takes_list =
      what.kind != operation_kind::scatter && what.kind != operation_kind::reduce_scatter;
  to.sends = elements_by_rank(what.inputs, sends_list, size);
  to.takes = elements_by_rank(what.outputs, takes_list, size);
  const auto only_root = [&](std::vector<std::int64_t>& all) {
    for (int other = 0; other < size; ++other)
      if (other != what.root) all[static_cast<std::size_t>(other)] = 0;
  };
  if (what.kind == operation_kind::gather) only_root(to.sends);
  if (what.kind == operation_kind::scatter) only_root(to.takes);
  if (has_root(what.kind) && rank != what.root) {
    auto& none = what.kind == operation_kind::gather ? to.takes : to.sends;
    std::ranges::fill(none, 0);
  }
}

request request_of(const operation& what, int rank, int size) {
  request out;
  out.asked = signature_of(what, size);
  out.shapes = shapes_in(compared(what));
  if (!has_like_shapes(what.kind) && what.kind != operation_kind::barrier)
    add_lists(out, what, rank, size);
  return out;
}

// The first two ranks of which one has another number for the other than that takes; empty: none.
std::string difference_of_lists(const std::vector<request>& all) {
  for (std::size_t from = 0; from < all.size(); ++from)
    for (std::size_t to = 0; to < all.size(); ++to) {
      const auto& sends = all[from].sends;
      const auto& takes = all[to].takes;
      if (sends.empty() && takes.empty()) continue;
      const auto sent = to < sends.size() ? sends[to] : -1;
      const auto taken = from < takes.size() ? takes[from] : -1;
      if (sent != taken)
        return fmt::format(" (rank {} has {} elements for rank {}, which takes {})", from, sent, to,
                           taken);
    }
  return {};
}

network::packet packet_of_request(const request& one) {
  encoder out(nullptr, nullptr);
  out.raw(&one.asked, sizeof one.asked);
  out.put(one.shapes);
  out.put(one.inputs);
  out.put(one.outputs);
  out.put(one.sends);
  out.put(one.takes);
  return network::packet(out.bytes());
}

request read_request(std::span<const std::byte> bytes) {
  decoder in(bytes, nullptr, nullptr);
  request out;
  in.raw(&out.asked, sizeof out.asked);
  in.get_into(out.shapes);
  in.get_into(out.inputs);
  in.get_into(out.outputs);
  in.get_into(out.sends);
  in.get_into(out.takes);
  in.expect_end();
  return out;
}

std::string text_of(const std::vector<shape>& shapes) {
  std::string out;
  for (const auto& one : shapes)
    out += fmt::format("{}[{}]", out.empty() ? "" : ", ", fmt::join(one, ", "));
  return out.empty() ? "none" : out;
}

std::string text_of(const request& one) {
  if (one.inputs.empty() && one.outputs.empty()) return text_of(one.shapes);
  return fmt::format("inputs {}, outputs {}", text_of(one.inputs), text_of(one.outputs));
}

// As PyTorch writes it: "ALLREDUCE".
std::string capitals_of(operation_kind kind) {
  auto out = upper_case(to_string(kind));
  if (out.starts_with("ALL_")) out.erase(3, 1);
  return out;
}

class full_check {
public:
  full_check(network::group_channel& channel, const operation& what, const time_limit& limit)
      : channel_(channel), what_(what), limit_(limit) {}

  // What each rank has given at that stage.
  std::vector<network::packet> all_gather(std::uint32_t stage, const network::packet& mine) {
    const auto number = first_checked + what_.sequence;
    for (int to = 0; to < channel_.size(); ++to)
      if (to != channel_.rank()) channel_.send(to, network::part{number, stage, mine});
    std::vector<network::packet> out;
    for (int from = 0; from < channel_.size(); ++from) {
      if (from == channel_.rank()) {
        out.push_back(mine);
        continue;
      }
      auto found = channel_.parts().take({number, stage, from}, limit_.deadline());
      if (!found)
        std::rethrow_exception(
            timeout_error(place(), limit_.limit(),
                          channel_.parts().missing(number, stage, channel_.rank(), from)));
      out.push_back(std::move(*found));
    }
    return out;
  }

  operation_place place() const {
    return {channel_.name(), channel_.rank(), what_.kind, what_.sequence};
  }

private:
  network::group_channel& channel_;
  const operation& what_;
  const time_limit& limit_;
};

}  // namespace

void check_in_full(network::group_channel& channel, const group_description& about,
                   const operation& what, const std::shared_ptr<const call_detail>& detail,
                   const time_limit& limit) {
  full_check check(channel, what, limit);
  const auto mine = request_of(what, channel.rank(), channel.size());
  std::vector<request> all;
  for (const auto& one : check.all_gather(asked_stage, packet_of_request(mine)))
    all.push_back(read_request(one.bytes()));
  bool same_operation = true, same_shapes = true;
  for (const auto& one : all) {
    same_operation = same_operation && one.asked == all.front().asked;
    same_shapes = same_shapes && one.shapes == all.front().shapes;
  }
  const auto lists = same_operation ? difference_of_lists(all) : std::string();
  same_shapes = same_shapes && lists.empty();
  if (same_operation && same_shapes) return;
  // All ranks have found that, so all of them tell more.
  const auto stack = detail ? detail->stack_text() : std::string();
  const auto stacks = check.all_gather(
      called_stage,
      network::packet({reinterpret_cast<const std::byte*>(stack.data()), stack.size()}));
  std::string shapes, calls;
  if (!same_shapes) {
    shapes = fmt::format(
        "Error when verifying shape tensors for collective {} on rank {}. This likely indicates "
        "that input shapes into the collective are mismatched across ranks. Got shapes: ",
        capitals_of(what.kind), channel.rank());
    for (std::size_t rank = 0; rank < all.size(); ++rank)
      shapes += fmt::format("{}{} on rank {}", rank > 0 ? "; " : "", text_of(all[rank]), rank);
    shapes += lists;
  }
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const auto bytes = stacks[rank].bytes();
    calls +=
        fmt::format("\nrank {} ('{}') has called {}, shapes {}, at\n{}", rank,
                    about.members.at(rank).name, to_string(all[rank].asked), text_of(all[rank]),
                    std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  }
  if (same_operation) std::rethrow_exception(mismatch_error(check.place(), shapes + calls));
  std::vector<operation_signature> asked;
  for (const auto& one : all) asked.push_back(one.asked);
  const auto why = mismatch_error(check.place(), asked);
  std::rethrow_exception(error_with(why, (shapes.empty() ? "" : ". " + shapes) + calls));
}

}  // namespace troupe::groups
