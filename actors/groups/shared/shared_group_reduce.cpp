// Operations that combine what the ranks have: all_reduce, reduce, reduce_scatter.
#include <bit>
#include <cstring>

#include "troupe/actors/groups/shared/shared_group.hpp"
#include "troupe/actors/groups/shared/slices.hpp"

namespace troupe::groups {

void shared_group::all_reduce(const operation_signature& what, tensor_view tensor, double factor,
                              const time_limit& limit) {
  combine(what, tensor, tensor, true, factor, limit);
}

void shared_group::reduce(const operation_signature& what, tensor_view input, tensor_view output,
                          double factor, const time_limit& limit) {
  combine(what, input, output, false, factor, limit);
}

void shared_group::combine(const operation_signature& what, tensor_view input, tensor_view output,
                           bool to_all, double factor, const time_limit& limit) {
  auto mine = entry_for(what, input);
  mine.factor = factor;
  if (mine.note == reachable && !to_all && rank() == what.root) {
    mine.output_place = place_of(output);
    if (mine.output_place == shared_place::elsewhere) mine.note = 0;
  }
  mine.exposes = mine.note == reachable && (to_all || rank() == what.root);
  enter(mine, what, limit);
  // Not earlier: all ranks shall get the same error.
  const reduction how(to_string(what.kind), what.reduction, input.dtype);
  const auto* factors = shown_factors(what);
  const bool writes = to_all || rank() == what.root;
  if (all_have(carried)) {
    if (writes) combine_boxes(how, output, factors);
  } else if (all_have(reachable)) {
    combine_direct(how, what, input, to_all, factors, limit);
  } else {
    combine_staged(how, what, input, output, to_all, factors, limit);
  }
  exposed_ = false;
}

const double* shared_group::shown_factors(const operation_signature& what) noexcept {
  if (what.reduction != reduce_op::premul_sum) return nullptr;
  for (int p = 0; p < size(); ++p)
    factors_[static_cast<std::size_t>(p)] = std::bit_cast<double>(exchange_.word_of(p, 5));
  return factors_.data();
}

void shared_group::combine_boxes(const reduction& how, tensor_view output, const double* factors) {
  std::array<std::uint64_t, most_ranks> payloads;
  source_pointers sources;
  const bool in_entries = output.bytes() <= sizeof(std::uint64_t);
  for (int p = 0; p < size(); ++p) {
    const auto i = static_cast<std::size_t>(p);
    if (in_entries) {
      payloads[i] = exchange_.word_of(p, 6);
      sources[i] = reinterpret_cast<const std::byte*>(&payloads[i]);
    } else {
      sources[i] = control_.area(p, shown_parity()).data();
    }
  }
  how.run({sources.data(), static_cast<std::size_t>(size())}, {&output.data, 1}, output.count,
          store_mode::cached, factors);
}

// Each rank combines its slice of all tensors and stores the result in all of them, or in the
// root's. The entry said that all tensors are ready, the step at the end that all slices are there.
void shared_group::combine_direct(const reduction& how, const operation_signature& what,
                                  tensor_view input, bool to_all, const double* factors,
                                  const time_limit& limit) {
  const auto bytes = input.bytes(), element = input.element_bytes();
  const auto n = static_cast<std::size_t>(size());
  source_pointers sources;
  destination_pointers destinations;
  for (int p = 0; p < size(); ++p) {
    auto* at = mapped(p, exchange_.word_of(p, 4), bytes, what);
    sources[static_cast<std::size_t>(p)] = at;
    destinations[static_cast<std::size_t>(p)] = at;
  }
  if (!to_all) destinations[0] = mapped(what.root, exchange_.word_of(what.root, 6), bytes, what);
  const auto slice = slice_of(bytes, rank(), size());
  for (std::size_t done = slice.begin; done < slice.end; done += bytes_between_looks) {
    leave_if_aborted(what);
    const auto some = std::min(bytes_between_looks, slice.end - done);
    source_pointers from;
    destination_pointers to;
    for (std::size_t p = 0; p < n; ++p) from[p] = sources[p] + done, to[p] = destinations[p] + done;
    how.run({from.data(), n}, {to.data(), to_all ? n : 1},
            static_cast<std::int64_t>(some / element), store_mode::cached, factors);
  }
  step_after_reading(what, limit);
}

// Pieces go through the areas: the first half of an area has a piece of the rank's tensor, the
// second the rank's slice of the piece before, combined. Between two steps each rank combines its
// slice of one piece, collects the others' slices of the one before, and copies in the next.
void shared_group::combine_staged(const reduction& how, const operation_signature& what,
                                  tensor_view input, tensor_view output, bool to_all,
                                  const double* factors, const time_limit& limit) {
  const auto bytes = input.bytes(), element = input.element_bytes();
  const auto n = static_cast<std::size_t>(size());
  const auto half = control_.area_bytes() / 128 * 64;
  const auto piece = std::min(half, setup_.ways.piece);
  const auto rounds = pieces_of(bytes, piece);
  const bool writes = to_all || rank() == what.root;
  for (std::size_t round = 0; round <= rounds; ++round) {
    const auto whole = piece_of(bytes, round, piece);
    const auto place = place_of_round(round, piece, half);
    auto* in = control_.area(rank(), exchange_.parity()).data() + place;
    for (int p = 0; p < size(); ++p) {
      if (p == rank()) continue;
      const auto s = slice_of(whole.size(), p, size());
      copy_bytes(in + s.begin, input.data + whole.begin + s.begin, s.size());
    }
    step(what, limit);
    const auto shown = shown_parity();
    if (!whole.empty()) {
      const auto s = slice_of(whole.size(), rank(), size());
      source_pointers sources;
      for (int p = 0; p < size(); ++p)
        sources[static_cast<std::size_t>(p)] =
            p == rank() ? input.data + whole.begin + s.begin
                        : control_.area(p, shown).data() + place + s.begin;
      // The half that is shown at the next step.
      auto* combined = control_.area(rank(), exchange_.parity()).data() + half + place;
      destination_pointers to = {combined, writes ? output.data + whole.begin + s.begin : nullptr};
      how.run({sources.data(), n}, {to.data(), writes ? 2u : 1u},
              static_cast<std::int64_t>(s.size() / element), store_mode::cached, factors);
    }
    if (round == 0 || !writes) continue;
    const auto before = piece_of(bytes, round - 1, piece);
    for (int q = 1; q < size(); ++q) {
      const auto p = (rank() + q) % size();
      const auto s = slice_of(before.size(), p, size());
      copy_bytes(output.data + before.begin + s.begin,
                 control_.area(p, shown).data() + half + place_of_round(round - 1, piece, half),
                 s.size());
    }
  }
}

void shared_group::reduce_scatter(const operation_signature& what,
                                  std::span<const tensor_view> inputs, tensor_view output,
                                  double factor, const time_limit& limit) {
  parts mine;
  for (int p = 0; p < size(); ++p) {
    mine.sends[static_cast<std::size_t>(p)] = inputs[static_cast<std::size_t>(p)];
    mine.receives[static_cast<std::size_t>(p)] = output;
  }
  enter_parts(what, mine, factor, limit);
  const reduction how(to_string(what.kind), what.reduction, output.dtype);
  const auto* factors = shown_factors(what);
  const auto bytes = output.bytes();
  const auto n = static_cast<std::size_t>(size());
  source_pointers sources;
  if (all_have(carried)) {
    for (int p = 0; p < size(); ++p)
      sources[static_cast<std::size_t>(p)] = boxed_part(p, bytes, false, what);
    how.run({sources.data(), n}, {&output.data, 1}, output.count, store_mode::cached, factors);
  } else if (all_have(reachable)) {
    std::size_t all = bytes;
    for (int p = 0; p < size(); ++p) {
      const auto place = control_.sends(p, shown_parity())[static_cast<std::size_t>(rank())].place;
      sources[static_cast<std::size_t>(p)] = mapped(p, place, bytes, what);
      all += inputs[static_cast<std::size_t>(p)].bytes() * n;
    }
    const bool in_place = sources[static_cast<std::size_t>(rank())] == output.data;
    const auto stores = in_place ? store_mode::cached : stores_for(all);
    for (std::size_t done = 0; done < bytes; done += bytes_between_looks) {
      leave_if_aborted(what);
      const auto some = std::min(bytes_between_looks, bytes - done);
      source_pointers from;
      for (std::size_t p = 0; p < n; ++p) from[p] = sources[p] + done;
      auto* to = output.data + done;
      how.run({from.data(), n}, {&to, 1}, static_cast<std::int64_t>(some / output.element_bytes()),
              stores, factors);
    }
    step_after_reading(what, limit);
  } else {
    scatter_staged(how, what, mine, output, factors, limit);
  }
}

void shared_group::scatter_staged(const reduction& how, const operation_signature& what,
                                  const parts& mine, tensor_view output, const double* factors,
                                  const time_limit& limit) {
  const auto n = static_cast<std::size_t>(size());
  const auto slot = std::min(control_.area_bytes(), setup_.ways.piece) / n / 64 * 64;
  const auto rounds = pieces_of(largest_part(), slot);
  for (std::size_t round = 0; round < rounds; ++round) {
    const auto place = place_of_round(round, slot * n, control_.area_bytes());
    auto* in = control_.area(rank(), exchange_.parity()).data() + place;
    for (int p = 0; p < size(); ++p) {
      const auto i = static_cast<std::size_t>(p);
      const auto s = piece_of(mine.sends[i].bytes(), round, slot);
      if (p != rank() && !s.empty())
        copy_bytes(in + i * slot, mine.sends[i].data + s.begin, s.size());
    }
    step(what, limit);
    const auto s = piece_of(output.bytes(), round, slot);
    if (s.empty()) continue;
    source_pointers sources;
    for (int p = 0; p < size(); ++p) {
      const auto i = static_cast<std::size_t>(p), r = static_cast<std::size_t>(rank());
      sources[i] = p == rank() ? mine.sends[r].data + s.begin
                               : control_.area(p, shown_parity()).data() + place + r * slot;
    }
    auto* to = output.data + s.begin;
    how.run({sources.data(), n}, {&to, 1},
            static_cast<std::int64_t>(s.size() / output.element_bytes()), store_mode::cached,
            factors);
  }
}

}  // namespace troupe::groups
