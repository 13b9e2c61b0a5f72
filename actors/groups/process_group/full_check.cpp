#include "troupe/actors/groups/process_group/full_check.hpp"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

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
  std::vector<shape> shapes;

  friend bool operator==(const request&, const request&) = default;
};

// Lists may have tensors of another size on each rank, so the backend compares them.
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

request request_of(const operation& what, int size) {
  request out;
  out.asked = signature_of(what, size);
  for (const auto& one : compared(what)) out.shapes.push_back(one.sizes().vec());
  return out;
}

network::packet packet_of_request(const request& one) {
  encoder out(nullptr, nullptr);
  out.raw(&one.asked, sizeof one.asked);
  out.put(one.shapes);
  return network::packet(out.bytes());
}

request read_request(std::span<const std::byte> bytes) {
  decoder in(bytes, nullptr, nullptr);
  request out;
  in.raw(&out.asked, sizeof out.asked);
  in.get_into(out.shapes);
  in.expect_end();
  return out;
}

std::string text_of(const std::vector<shape>& shapes) {
  std::string out;
  for (const auto& one : shapes)
    out += fmt::format("{}[{}]", out.empty() ? "" : ", ", fmt::join(one, ", "));
  return out.empty() ? "none" : out;
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
  const auto mine = request_of(what, channel.size());
  std::vector<request> all;
  for (const auto& one : check.all_gather(asked_stage, packet_of_request(mine)))
    all.push_back(read_request(one.bytes()));
  bool same_operation = true, same_shapes = true;
  for (const auto& one : all) {
    same_operation = same_operation && one.asked == all.front().asked;
    same_shapes = same_shapes && one.shapes == all.front().shapes;
  }
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
      shapes +=
          fmt::format("{}{} on rank {}", rank > 0 ? "; " : "", text_of(all[rank].shapes), rank);
  }
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const auto bytes = stacks[rank].bytes();
    calls += fmt::format("\nrank {} ('{}') has called {}, shapes {}, at\n{}", rank,
                         about.members.at(rank).name, to_string(all[rank].asked),
                         text_of(all[rank].shapes),
                         std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  }
  if (same_operation) std::rethrow_exception(mismatch_error(check.place(), shapes + calls));
  std::vector<operation_signature> asked;
  for (const auto& one : all) asked.push_back(one.asked);
  const auto why = mismatch_error(check.place(), asked);
  std::rethrow_exception(error_with(why, (shapes.empty() ? "" : ". " + shapes) + calls));
}

}  // namespace troupe::groups
