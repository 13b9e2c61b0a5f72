// What is lent instead of moved, and results that all ranks share.
#include <fmt/format.h>

#include <algorithm>

#include "troupe/actors/groups/shared/shared_group.hpp"
#include "troupe/actors/groups/shared/slices.hpp"

namespace troupe::groups {

bool shared_group::lend(const operation_signature& what, std::span<const shown_part> sends,
                        std::span<const shown_part> receives, bool able, const time_limit& limit) {
  const auto parity = exchange_.parity();
  std::ranges::copy(sends, control_.sends(rank(), parity).begin());
  std::ranges::copy(receives, control_.receives(rank(), parity).begin());
  entry mine;
  if (able) mine.note = aliases;
  enter(mine, what, limit);
  check_parts(what);
  return all_have(aliases);
}

borrowed_part shared_group::borrow(const operation_signature& what, int from, std::size_t bytes) {
  const auto word = control_.sends(from, shown_parity())[static_cast<std::size_t>(rank())].place;
  return borrowed(what, from, word, bytes);
}

borrowed_part shared_group::borrowed(const operation_signature& what, int from, std::uint64_t word,
                                     std::size_t bytes) {
  const auto place = shared_place::of(word);
  if (place.loan == 0) fail_by_damage(what, from, "a tensor that it does not lend");
  borrowed_part out{mapped(from, word, bytes, what), &loan(from, place.loan)};
  take_loan(*out.loan);
  return out;
}

// What a rank takes after it has left is no longer kept for it: see loan_cell.
void shared_group::take_loan(loan_cell<process_memory>& cell) const {
  cell.take(rank());
  if (control_.left(rank()).load(std::memory_order_seq_cst) == 0) return;
  cell.give_back(rank());
  throw group_failed(fmt::format("rank {} has left group '{}'", shown(rank()), setup_.group));
}

void shared_group::take_letter(int from, std::uint64_t word, const tensor_view& into) const {
  const auto place = shared_place::of(word);
  const auto* const data = address_of(place, into.bytes());
  if (!data || place.loan == 0)
    throw internal_error(
        fmt::format("group '{}', rank {}: rank {} has lent {} bytes that are in no "
                    "rank's memory",
                    setup_.group, shown(rank()), shown(from), into.bytes()));
  auto& cell = loan(from, place.loan);
  take_loan(cell);
  if (into.count > 0) copy_bytes(into.data, data, into.bytes(), stores_for(2 * into.bytes()));
  cell.give_back(rank());
}

std::optional<borrowed_part> shared_group::all_reduce_shared(const operation_signature& what,
                                                             tensor_view input,
                                                             std::uint64_t result, bool able,
                                                             double factor,
                                                             const time_limit& limit) {
  entry mine;
  mine.place = place_of(input);
  mine.output_place = result;
  mine.factor = factor;
  if (able && mine.place != shared_place::elsewhere) mine.note = aliases;
  mine.exposes = mine.note == aliases && result != shared_place::elsewhere;
  enter(mine, what, limit);
  exposed_ = exposed_ && all_have(aliases);
  if (!all_have(aliases)) return {};
  const reduction how(to_string(what.kind), what.reduction, input.dtype);
  const auto shown = exchange_.word_of(result_owner, 6);
  combine_direct(how, what, input, false, shown_factors(what), limit);
  exposed_ = false;
  return rank() == result_owner ? borrowed_part{}
                                : borrowed(what, result_owner, shown, input.bytes());
}

std::optional<borrowed_part> shared_group::all_gather_shared(const operation_signature& what,
                                                             tensor_view input,
                                                             std::uint64_t result, bool able,
                                                             const time_limit& limit) {
  entry mine;
  mine.output_place = result;
  if (able) mine.note = aliases;
  mine.exposes = able && result != shared_place::elsewhere;
  enter(mine, what, limit);
  exposed_ = exposed_ && all_have(aliases);
  if (!all_have(aliases)) return {};
  const auto bytes = input.bytes(), all = bytes * static_cast<std::size_t>(size());
  const auto shown = exchange_.word_of(result_owner, 6);
  const tensor_view to{
      mapped(result_owner, shown, all, what) + static_cast<std::size_t>(rank()) * bytes,
      input.dtype, input.count};
  if (to.data != input.data) copy_part(what, to, input.data, stores_for(2 * all));
  step(what, limit);
  exposed_ = false;
  return rank() == result_owner ? borrowed_part{} : borrowed(what, result_owner, shown, all);
}

}  // namespace troupe::groups
