#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "troupe/messages/tensor/tensor_layout_internal.hpp"
#include "troupe/messages/tensor/tensor_pieces_internal.hpp"
#include "troupe/messages/tensor/tensor_plan_internal.hpp"

namespace troupe::detail {

namespace {

using range_span = std::span<byte_range>;

bool has_gaps(std::int64_t size, std::int64_t bytes) noexcept { return size > 2 * bytes; }

bool same_view(const table_entry& a, const table_entry& b) {
  return a.tensor.itemsize() == b.tensor.itemsize() && a.tensor.sizes() == b.tensor.sizes() &&
         a.tensor.strides() == b.tensor.strides();
}

class planner {
public:
  planner(entry_list& entries, storage_list& storages) : entries_(entries), storages_(storages) {}

  // Splits the sorted ranges of one storage into stretches worth sending as one: ranges that meet,
  // and ranges with little between them.
  void sweep(range_span ranges) {
    for (std::size_t first = 0; first < ranges.size();) {
      const auto begin = ranges[first].begin;
      auto end = ranges[first].end;
      auto bytes = ranges[first].bytes;
      auto next = first + 1;
      for (; next < ranges.size(); ++next) {
        const auto& r = ranges[next];
        const bool again = repeats(ranges[next - 1], r);
        const auto more = again ? bytes : bytes + r.bytes;
        if (r.begin >= end && has_gaps(r.end - begin, more)) break;
        end = std::max(end, r.end);
        bytes = more;
      }
      emit(ranges.subspan(first, next - first), end, bytes);
      first = next;
    }
  }

private:
  bool repeats(const byte_range& a, const byte_range& b) const {
    return a.begin == b.begin && a.end == b.end && same_view(entries_[a.entry], entries_[b.entry]);
  }

  void emit(range_span ranges, std::int64_t end, std::int64_t bytes) {
    auto begin = ranges.front().begin;
    if (ranges.size() > 1) {
      // Views of several dtypes: each must find its elements at a multiple of their size.
      std::size_t item = 1;
      for (const auto& r : ranges)
        item = std::max<std::size_t>(item, entries_[r.entry].tensor.itemsize());
      begin -= begin % static_cast<std::int64_t>(item);
    }
    if (!has_gaps(ranges.size() == 1 ? end - begin : end - ranges.front().begin, bytes)) {
      auto& out = place(ranges, begin);
      out.data = static_cast<const std::byte*>(ranges.front().storage->data()) + begin;
      out.sent = out.size = end - begin;
    } else if (!emit_pieces(ranges, begin, end)) {
      emit_compacted(ranges);
    }
  }

  planned_storage& place(range_span ranges, std::int64_t begin) {
    const auto index = static_cast<std::uint32_t>(storages_.size());
    auto& out = storages_.emplace_back();
    out.entry = ranges.front().entry;
    for (const auto& r : ranges) {
      auto& entry = entries_[r.entry];
      entry.storage = index;
      entry.offset = (r.begin - begin) / static_cast<std::int64_t>(entry.tensor.itemsize());
    }
    return out;
  }

  bool emit_pieces(range_span ranges, std::int64_t begin, std::int64_t end) {
    std::vector<piece> pieces;
    c10::SmallVector<std::uint32_t, 0> owners;
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      if (i > 0 && repeats(ranges[i - 1], ranges[i])) continue;
      const auto& t = entries_[ranges[i].entry].tensor;
      pieces.push_back({t.sizes(), t.strides(), ranges[i].begin, t.itemsize()});
      owners.push_back(ranges[i].entry);
    }
    const auto sent = packed_size(pieces);
    if (!sent || !expansion_allowed(expanded_ + (end - begin), packed_ + *sent)) return false;
    expanded_ += end - begin;
    packed_ += *sent;
    auto& out = place(ranges, begin);
    out.packed = pack(entries_[out.entry].tensor.storage(), pieces);
    out.data = static_cast<const std::byte*>(out.packed.storage().data());
    out.sent = *sent;
    out.size = end - begin;
    out.pieces = std::move(owners);
    return true;
  }

  void emit_compacted(range_span ranges) {
    const auto dense = std::stable_partition(ranges.begin(), ranges.end(), [](const byte_range& r) {
      return !has_gaps(r.end - r.begin, r.bytes);
    });
    for (auto it = dense; it != ranges.end(); ++it) {
      auto& entry = entries_[it->entry];
      const auto& t = entry.tensor;
      entry.compacted = compact(t.storage(), {t.sizes(), t.strides(), it->begin, t.itemsize()});
      auto& out = place({&*it, 1}, it->begin);
      out.packed = entry.compacted;
      out.data = static_cast<const std::byte*>(out.packed.storage().data());
      out.sent = out.size = out.packed.numel();
    }
    sweep_dense({ranges.begin(), dense});
  }

  // Like `sweep` for ranges without gaps, of which only those that meet are joined: the result has
  // no gaps either.
  void sweep_dense(range_span ranges) {
    for (std::size_t first = 0; first < ranges.size();) {
      auto end = ranges[first].end;
      auto next = first + 1;
      for (; next < ranges.size() && ranges[next].begin < end; ++next)
        end = std::max(end, ranges[next].end);
      emit(ranges.subspan(first, next - first), end, end - ranges[first].begin);
      first = next;
    }
  }

  entry_list& entries_;
  storage_list& storages_;
  std::uint64_t expanded_ = 0;
  std::uint64_t packed_ = 0;
};

}  // namespace

void plan_storages(entry_list& entries, range_list& ranges, storage_list& storages) {
  planner plan(entries, storages);
  const range_span all(ranges.data(), ranges.size());
  if (all.size() == 1) return plan.sweep(all);  // the hot path
  std::sort(ranges.begin(), ranges.end(), [](const byte_range& a, const byte_range& b) {
    if (a.storage != b.storage) return a.storage < b.storage;
    if (a.begin != b.begin) return a.begin < b.begin;
    return a.end != b.end ? a.end < b.end : a.entry < b.entry;
  });
  // In the order in which storages were met: what is sent must not depend on addresses.
  std::vector<std::pair<std::uint32_t, range_span>> groups;
  for (std::size_t first = 0; first < all.size();) {
    auto met = all[first].entry;
    auto next = first + 1;
    for (; next < all.size() && all[next].storage == all[first].storage; ++next)
      met = std::min(met, all[next].entry);
    groups.emplace_back(met, all.subspan(first, next - first));
    first = next;
  }
  std::sort(groups.begin(), groups.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& group : groups) plan.sweep(group.second);
}

}  // namespace troupe::detail
