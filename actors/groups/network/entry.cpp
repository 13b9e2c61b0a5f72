#include "troupe/actors/groups/network/entry.hpp"

#include <fmt/format.h>

#include <cstring>

#include "troupe/messages/codec/decoder.hpp"
#include "troupe/messages/codec/encoder.hpp"

namespace troupe::groups::network {

namespace {

std::vector<std::uint64_t> sizes_of(std::span<const at::Tensor> tensors) {
  std::vector<std::uint64_t> out;
  for (const auto& one : tensors) out.push_back(static_cast<std::uint64_t>(one.numel()));
  return out;
}

std::vector<std::uint64_t> sizes_of(std::span<const std::int64_t> splits) {
  return {splits.begin(), splits.end()};
}

std::vector<std::uint64_t> for_each_rank(const at::Tensor& tensor, int size) {
  return std::vector<std::uint64_t>(static_cast<std::size_t>(size),
                                    static_cast<std::uint64_t>(tensor.numel()));
}

std::vector<std::uint64_t> for_one_rank(const at::Tensor& tensor, int rank, int size) {
  std::vector<std::uint64_t> out(static_cast<std::size_t>(size));
  out.at(static_cast<std::size_t>(rank)) = static_cast<std::uint64_t>(tensor.numel());
  return out;
}

// Do `sends` and `receives` go by rank, rather than by tensor?
bool goes_by_rank(operation_kind kind) noexcept {
  switch (kind) {
    case operation_kind::all_gather:
    case operation_kind::gather:
    case operation_kind::scatter:
    case operation_kind::reduce_scatter:
    case operation_kind::all_to_all:
    case operation_kind::all_to_all_single: return true;
    default: return false;
  }
}

}  // namespace

entry entry_of(const operation& what, int size) {
  entry out;
  out.asked = signature_of(what, size);
  out.factor = what.factor;
  switch (what.kind) {
    case operation_kind::broadcast:
    case operation_kind::all_reduce: out.sends = sizes_of(what.outputs); break;
    case operation_kind::all_gather:
      out.sends = for_each_rank(what.inputs[0], size);
      out.receives = sizes_of(what.outputs);
      break;
    case operation_kind::gather:
      out.sends = for_one_rank(what.inputs[0], what.root, size);
      out.receives = sizes_of(what.outputs);
      break;
    case operation_kind::scatter:
      out.sends = sizes_of(what.inputs);
      out.receives = for_one_rank(what.outputs[0], what.root, size);
      break;
    case operation_kind::reduce_scatter:
      out.sends = sizes_of(what.inputs);
      out.receives = for_each_rank(what.outputs[0], size);
      break;
    case operation_kind::all_to_all:
      out.sends = sizes_of(what.inputs);
      out.receives = sizes_of(what.outputs);
      break;
    case operation_kind::all_to_all_single:
      out.sends = sizes_of(what.input_splits);
      out.receives = sizes_of(what.output_splits);
      break;
    default: out.sends = sizes_of(what.inputs); break;
  }
  if (goes_by_rank(what.kind)) {
    out.sends.resize(static_cast<std::size_t>(size));
    out.receives.resize(static_cast<std::size_t>(size));
  }
  return out;
}

packet write_entry(const entry& what) {
  encoder out(nullptr, nullptr);
  out.raw(&what.asked, sizeof what.asked);
  out.put(what.factor);
  out.put(what.sends);
  out.put(what.receives);
  out.put(what.way);
  out.put(what.data);
  return packet(out.bytes());
}

entry read_entry(std::span<const std::byte> bytes) {
  decoder in(bytes, nullptr, nullptr);
  entry out;
  in.raw(&out.asked, sizeof out.asked);
  in.get_into(out.factor);
  in.get_into(out.sends);
  in.get_into(out.receives);
  in.get_into(out.way);
  in.get_into(out.data);
  in.expect_end();
  return out;
}

namespace {

// Ranks choose an algorithm by numbers that are the same on all. Who goes by another one would send
// others what they do not wait for.
void check_ways(const operation_place& where, std::span<const entry> entries) {
  const auto& first = entries.front();
  for (std::size_t rank = 1; rank < entries.size(); ++rank) {
    const auto& one = entries[rank];
    if (one.way == first.way || one.sends != first.sends) continue;
    const auto named = [](const std::string& way) { return way.empty() ? "direct" : way.c_str(); };
    std::rethrow_exception(mismatch_error(
        where,
        fmt::format("rank 0 goes by {}, rank {} by {}", named(first.way), rank, named(one.way))));
  }
}

}  // namespace

void check_entries(const operation_place& where, std::span<const entry> entries) {
  const auto& first = entries.front();
  std::vector<operation_signature> asked;
  bool agree = true;
  for (const auto& one : entries) {
    asked.push_back(one.asked);
    agree = agree && one.asked == first.asked;
  }
  if (!agree) std::rethrow_exception(mismatch_error(where, asked));
  if (!goes_by_rank(where.kind)) {
    for (std::size_t rank = 1; rank < entries.size(); ++rank)
      if (entries[rank].sends != first.sends)
        std::rethrow_exception(mismatch_error(
            where, fmt::format("the tensors of ranks 0 and {} have other sizes", rank)));
    check_ways(where, entries);
    return;
  }
  const auto size = entries.size();
  for (const auto& one : entries)
    if (one.sends.size() != size || one.receives.size() != size)
      throw decode_error("an entry of a collective has sizes for other ranks than the group's");
  for (std::size_t from = 0; from < size; ++from)
    for (std::size_t to = 0; to < size; ++to)
      if (entries[from].sends[to] != entries[to].receives[from])
        std::rethrow_exception(mismatch_error(
            where, fmt::format("rank {} sends {} elements to rank {}, which expects {}", from,
                               entries[from].sends[to], to, entries[to].receives[from])));
  check_ways(where, entries);
}

}  // namespace troupe::groups::network
