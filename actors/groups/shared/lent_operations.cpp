#include "troupe/actors/groups/shared/lent_operations.hpp"

#include <ATen/core/Tensor.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/COW.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "troupe/actors/groups/shared/quarantine.hpp"
#include "troupe/messages/base/error.hpp"

namespace troupe::groups {

bool lent_operations::broadcast(const operation& what, const operation_signature& asked,
                                const at::Tensor& tensor, const time_limit& limit) {
  // All ranks have the same number of bytes here, or the first step of either way tells.
  if (group_.ways().choose(what.kind, tensor.nbytes()) != way::lend) return false;
  lent_parts parts;
  const auto root = static_cast<std::size_t>(what.root);
  if (group_.rank() == what.root) {
    for (std::size_t p = 0; p < static_cast<std::size_t>(group_.size()); ++p)
      if (p != root) parts.sends[p] = &tensor;
  } else {
    parts.receives[root] = &tensor;
  }
  return lend(asked, parts, true, limit);
}

bool lent_operations::lists(const operation& what, const operation_signature& asked,
                            const time_limit& limit) {
  // Ranks may have different numbers of bytes, and need not choose the same: all ask each other.
  if (!group_.ways().may_take(what.kind, way::lend)) return false;
  lent_parts parts;
  const auto n = static_cast<std::size_t>(group_.size());
  const auto root = static_cast<std::size_t>(what.root);
  const bool is_root = group_.rank() == what.root;
  std::size_t bytes = 0;
  for (std::size_t p = 0; p < n; ++p) {
    switch (what.kind) {
      case operation_kind::all_gather:
        parts.sends[p] = &what.inputs[0];
        parts.receives[p] = &what.outputs[p];
        break;
      case operation_kind::gather:
        if (p == root) parts.sends[p] = &what.inputs[0];
        if (is_root) parts.receives[p] = &what.outputs[p];
        break;
      case operation_kind::scatter:
        if (is_root) parts.sends[p] = &what.inputs[p];
        if (p == root) parts.receives[p] = &what.outputs[0];
        break;
      default:  // all_to_all
        parts.sends[p] = &what.inputs[p];
        parts.receives[p] = &what.outputs[p];
    }
    if (parts.sends[p]) bytes = std::max<std::size_t>(bytes, parts.sends[p]->nbytes());
    if (parts.receives[p]) bytes = std::max<std::size_t>(bytes, parts.receives[p]->nbytes());
  }
  return lend(asked, parts, group_.ways().choose(what.kind, bytes) == way::lend, limit);
}

// The outputs become aliases of what the other ranks have. False: one rank cannot, or has not
// `chosen` it, and nothing has changed. One step, whatever the size: rule 8.
bool lent_operations::lend(const operation_signature& asked, const lent_parts& parts, bool chosen,
                           const time_limit& limit) {
  const auto n = static_cast<std::size_t>(group_.size());
  const auto me = static_cast<std::size_t>(group_.rank());
  std::array<shown_part, most_ranks> sends{}, receives{};
  bool able = chosen;
  for (std::size_t p = 0; p < n; ++p) {
    if (const auto* const one = parts.receives[p]; one && one->numel() > 0) {
      receives[p].bytes = one->nbytes();
      able = able && can_become_alias(*one);
    }
    if (parts.sends[p]) sends[p].bytes = parts.sends[p]->nbytes();
  }
  for (std::size_t p = 0; p < n && able; ++p) {
    const auto* const one = parts.sends[p];
    if (!one || p == me || sends[p].bytes == 0 || sends[p].place != shared_place::elsewhere)
      continue;
    // One loan of what several get.
    std::uint64_t to = 0;
    for (std::size_t q = p; q < n; ++q)
      if (q != me && parts.sends[q] == one) to |= std::uint64_t{1} << q;
    const auto place = loans_.lend(*one, to);
    able = place != shared_place::elsewhere;
    for (std::size_t q = p; q < n; ++q)
      if (to >> q & 1) sends[q].place = place;
  }
  try {
    if (!group_.lend(asked, {sends.data(), n}, {receives.data(), n}, able, limit)) {
      loans_.withdraw();
      return false;
    }
  } catch (const collective_mismatch&) {
    loans_.withdraw();
    throw;
  }
  loans_.accepted();
  for (std::size_t p = 0; p < n; ++p) {
    if (receives[p].bytes == 0) continue;
    if (p == me)
      tensor_loans::share(*parts.receives[p], *parts.sends[p]);
    else
      loans_.borrow(*parts.receives[p],
                    group_.borrow(asked, static_cast<int>(p), receives[p].bytes));
  }
  return true;
}

// One result for all, in the memory of one rank. False: one rank cannot, and nothing has changed.
bool lent_operations::result(const operation& what, const operation_signature& asked,
                             const at::Tensor& input, const at::Tensor& output,
                             const time_limit& limit) {
  if (group_.ways().choose(what.kind, input.nbytes()) != way::shared || input.numel() == 0)
    return false;
  bool able = can_become_alias(output);
  const bool owner = group_.rank() == shared_group::result_owner;
  auto& storage = *output.storage().unsafeGetStorageImpl();
  auto result = shared_place::elsewhere;
  c10::DataPtr fresh;
  int loan = 0;
  if (owner && able) {
    // Memory that others may still have is not written: rule 8.
    auto view = read_view(output);
    if (c10::impl::cow::is_cow_data_ptr(storage.data_ptr())) {
      fresh = c10::GetCPUAllocator()->allocate(storage.nbytes());
      view.data = static_cast<std::byte*>(fresh.get());
    }
    loan = loans_.reserve((~std::uint64_t{0} >> (64 - group_.size())) & ~std::uint64_t{1});
    if (loan != 0) result = group_.place_of(view, loan);
    able = result != shared_place::elsewhere;
  }
  std::optional<borrowed_part> lent;
  try {
    lent = what.kind == operation_kind::all_reduce
               ? group_.all_reduce_shared(asked, read_view(input), result, able, what.factor, limit)
               : group_.all_gather_shared(asked, read_view(input), result, able, limit);
  } catch (const collective_mismatch&) {
    loans_.withdraw();
    throw;
  } catch (...) {
    if (group_.exposed())
      hold_memory(std::move(fresh), [of = membership_] { return of->all_left(); });
    throw;
  }
  if (!lent) {
    loans_.withdraw();
    return false;
  }
  if (owner) {
    if (fresh) storage.set_data_ptr_noswap(std::move(fresh));
    loans_.keep(loan, output);
  } else {
    loans_.borrow(output, *lent);
  }
  loans_.accepted();
  return true;
}

}  // namespace troupe::groups
