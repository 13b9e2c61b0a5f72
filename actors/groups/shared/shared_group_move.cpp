// Operations that move what the ranks have: broadcast, all_gather, gather, scatter, all_to_all.
#include <fmt/format.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>

#include "troupe/actors/groups/shared/shared_group.hpp"
#include "troupe/actors/groups/shared/slices.hpp"

namespace troupe::groups {

namespace {

constexpr std::size_t whole_lines(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

// Directly: each rank copies its slice of the root's tensor into those of all others.
void shared_group::broadcast(const operation_signature& what, tensor_view tensor,
                             const time_limit& limit) {
  const bool is_root = rank() == what.root;
  const auto bytes = tensor.bytes();
  entry mine;
  // What a receiver has does not travel.
  if (is_root || setup_.ways.choose(what.kind, bytes) != way::box || bytes > control_.area_bytes())
    mine = entry_for(what, tensor);
  else
    mine.note = carried;
  mine.exposes = mine.note == reachable && !is_root;
  enter(mine, what, limit);
  if (all_have(carried)) {
    if (!is_root && bytes > 0) {
      const auto payload = exchange_.word_of(what.root, 6);
      std::memcpy(tensor.data,
                  bytes <= sizeof payload ? reinterpret_cast<const std::byte*>(&payload)
                                          : control_.area(what.root, shown_parity()).data(),
                  bytes);
    }
  } else if (all_have(reachable)) {
    const auto slice = slice_of(bytes, rank(), size());
    const auto* from = mapped(what.root, exchange_.word_of(what.root, 4), bytes, what);
    destination_pointers to;
    std::size_t count = 0;
    for (int p = 0; p < size(); ++p)
      if (p != what.root)
        to[count++] = mapped(p, exchange_.word_of(p, 4), bytes, what) + slice.begin;
    const auto stores = stores_for(bytes * static_cast<std::size_t>(size()));
    for (std::size_t done = 0; done < slice.size(); done += bytes_between_looks) {
      leave_if_aborted(what);
      const auto some = std::min(bytes_between_looks, slice.size() - done);
      destination_pointers at;
      for (std::size_t p = 0; p < count; ++p) at[p] = to[p] + done;
      copy_to_all({at.data(), count}, from + slice.begin + done, some, stores);
    }
    step_after_reading(what, limit);
  } else if (const auto stores = stores_for(bytes * static_cast<std::size_t>(size()));
             can_be_read(what.root) && bytes >= setup_.ways.cma_from &&
             // What fits the caches is faster in pieces: the root works as well.
             stores == store_mode::streaming) {
    if (!is_root)
      read_part(what, what.root, exchange_.word_of(what.root, 4), tensor, stores, limit);
    step_after_reading(what, limit);
  } else {
    const auto piece = std::min(control_.area_bytes(), setup_.ways.piece);
    for (std::size_t round = 0; round < pieces_of(bytes, piece); ++round) {
      const auto s = piece_of(bytes, round, piece);
      const auto place = place_of_round(round, piece, control_.area_bytes());
      if (is_root)
        copy_bytes(control_.area(rank(), exchange_.parity()).data() + place, tensor.data + s.begin,
                   s.size());
      step(what, limit);
      if (!is_root)
        copy_bytes(tensor.data + s.begin, control_.area(what.root, shown_parity()).data() + place,
                   s.size());
    }
  }
  exposed_ = false;
}

void shared_group::enter_parts(const operation_signature& what, const parts& mine, double factor,
                               const time_limit& limit) {
  const auto parity = exchange_.parity();
  const auto sends = control_.sends(rank(), parity), receives = control_.receives(rank(), parity);
  std::size_t room = 0, largest = 0, all = 0;
  bool all_mapped = true;
  for (std::size_t p = 0; p < sends.size(); ++p) {
    const auto& part = mine.sends[p];
    const auto bytes = part.bytes();
    sends[p] = {bytes > 0 ? place_of(part) : 0, bytes};
    receives[p] = {0, mine.receives[p].bytes()};
    all_mapped = all_mapped && sends[p].place != shared_place::elsewhere;
    room += whole_lines(bytes);
    all += bytes;
    largest = std::max(largest, bytes);
  }
  if (mine.same_for_all) room = all = largest;
  entry shown;
  shown.factor = factor;
  // Ranks may have different amounts, and then some choose the box where others cannot.
  const auto chosen = setup_.ways.choose(what.kind, all);
  if (chosen != way::staged && all_mapped) {
    shown.note |= reachable;
  } else if (chosen != way::staged && !reduces(what.kind) && !setup_.readable_processes.empty()) {
    shown.note |= readable;
    for (std::size_t p = 0; p < sends.size(); ++p)
      sends[p].place = reinterpret_cast<std::uintptr_t>(mine.sends[p].data);
  }
  if (chosen == way::box && room <= control_.area_bytes()) {
    shown.note |= carried;
    auto* to = control_.area(rank(), parity).data();
    for (std::size_t p = 0; p < sends.size(); ++p) {
      const auto bytes = mine.sends[p].bytes();
      if (bytes == 0) continue;
      std::memcpy(to, mine.sends[p].data, bytes);
      if (mine.same_for_all) break;
      to += whole_lines(bytes);
    }
  }
  enter(shown, what, limit);
  check_parts(what);
}

// On every rank alike, since all of them see what all have shown.
void shared_group::check_parts(const operation_signature& what) {
  for (int p = 0; p < size(); ++p)
    for (int q = 0; q < size(); ++q) {
      const auto has = control_.sends(p, shown_parity())[static_cast<std::size_t>(q)].bytes;
      const auto expects = control_.receives(q, shown_parity())[static_cast<std::size_t>(p)].bytes;
      if (has != expects)
        disagree(what, fmt::format("rank {} has {} bytes for rank {}, which expects {}", shown(p),
                                   has, shown(q), expects));
    }
}

std::size_t shared_group::largest_part() const noexcept {
  std::uint64_t largest = 0;
  for (int p = 0; p < size(); ++p)
    for (const auto& part : control_.sends(p, shown_parity()))
      largest = std::max(largest, part.bytes);
  return largest;
}

const std::byte* shared_group::boxed_part(int from, std::size_t bytes, bool same_for_all,
                                          const operation_signature& what) {
  const auto sends = control_.sends(from, shown_parity());
  const auto mine = static_cast<std::size_t>(rank());
  std::size_t before = 0;
  for (std::size_t p = 0; p < mine && !same_for_all; ++p) before += whole_lines(sends[p].bytes);
  const auto area = control_.area(from, shown_parity());
  if (before > area.size() || bytes > area.size() - before)
    fail_by_damage(what, from, "more data than there is room for");
  return area.data() + before;
}

void shared_group::copy_part(const operation_signature& what, const tensor_view& to,
                             const std::byte* from, store_mode stores) {
  const auto bytes = to.bytes();
  for (std::size_t done = 0; done < bytes; done += bytes_between_looks) {
    leave_if_aborted(what);
    copy_bytes(to.data + done, from + done, std::min(bytes_between_looks, bytes - done), stores);
  }
}

void shared_group::move(const operation_signature& what, std::span<const tensor_view> inputs,
                        std::span<const tensor_view> outputs, const time_limit& limit) {
  parts mine;
  const auto root = static_cast<std::size_t>(what.root), me = static_cast<std::size_t>(rank());
  const auto n = static_cast<std::size_t>(size());
  switch (what.kind) {
    case operation_kind::gather:
      mine.same_for_all = true;
      mine.sends[root] = inputs[0];
      if (me == root) std::copy_n(outputs.begin(), n, mine.receives.begin());
      break;
    case operation_kind::scatter:
      if (me == root) std::copy_n(inputs.begin(), n, mine.sends.begin());
      mine.receives[root] = outputs[0];
      break;
    case operation_kind::all_to_all:
    case operation_kind::all_to_all_single:
      std::copy_n(inputs.begin(), n, mine.sends.begin());
      std::copy_n(outputs.begin(), n, mine.receives.begin());
      break;
    default:  // all_gather, all_gather_into_tensor
      mine.same_for_all = true;
      std::fill_n(mine.sends.begin(), n, inputs[0]);
      std::copy_n(outputs.begin(), n, mine.receives.begin());
      break;
  }
  enter_parts(what, mine, 1, limit);
  const bool boxed = all_have(carried);
  const bool by_cma = all_can_be_read() && largest_part() >= setup_.ways.cma_from;
  if (!boxed && !all_have(reachable) && !by_cma) return move_staged(what, mine, limit);
  std::size_t all = 0;
  for (std::size_t p = 0; p < n; ++p) all += 2 * mine.receives[p].bytes() * n;
  // Each begins with another one, so that not all read the same memory.
  for (std::size_t q = 0; q < n; ++q) {
    const auto p = (me + q) % n;
    const auto from = static_cast<int>(p);
    const auto& to = mine.receives[p];
    if (p == me && to.data == mine.sends[me].data) continue;
    if (boxed)
      copy_bytes(
          to.data,
          p == me ? mine.sends[me].data : boxed_part(from, to.bytes(), mine.same_for_all, what),
          to.bytes());
    else if (p == me)
      copy_part(what, to, mine.sends[me].data, stores_for(all));
    else
      read_part(what, from, control_.sends(from, shown_parity())[me].place, to, stores_for(all),
                limit);
  }
  if (!boxed) step_after_reading(what, limit);
}

bool shared_group::all_can_be_read() const noexcept {
  for (int p = 0; p < size(); ++p)
    if (!can_be_read(p)) return false;
  return true;
}

void shared_group::read_part(const operation_signature& what, int from, std::uint64_t place,
                             const tensor_view& to, store_mode stores, const time_limit& limit) {
  const auto bytes = to.bytes();
  if (bytes == 0) return;
  if (exchange_.note_of(from) & reachable)
    return copy_part(what, to, mapped(from, place, bytes, what), stores);
  const auto process = setup_.readable_processes[static_cast<std::size_t>(from)];
  for (std::size_t done = 0; done < bytes;) {
    leave_if_aborted(what);
    const iovec here{to.data + done, std::min(bytes_between_looks, bytes - done)};
    // NOLINTNEXTLINE(performance-no-int-to-ptr): an address in another process.
    const iovec there{reinterpret_cast<void*>(place + done), here.iov_len};
    const auto read = process_vm_readv(process, &here, 1, &there, 1, 0);
    if (read > 0) {
      done += static_cast<std::size_t>(read);
      continue;
    }
    const bool gone = read < 0 && errno == ESRCH;
    // Who has given up may have freed its tensor.
    leave_if_aborted(what);
    if (gone) wait_for_abort(what, limit);
    fail_by_damage(what, from, "a tensor that is not in its memory");
  }
}

void shared_group::move_staged(const operation_signature& what, const parts& mine,
                               const time_limit& limit) {
  const auto n = static_cast<std::size_t>(size()), me = static_cast<std::size_t>(rank());
  const auto room = std::min(control_.area_bytes(), setup_.ways.piece);
  const auto slot = mine.same_for_all ? room : room / n / 64 * 64;
  const auto rounds = pieces_of(largest_part(), slot);
  if (mine.sends[me].data != mine.receives[me].data)
    copy_part(what, mine.receives[me], mine.sends[me].data, store_mode::cached);
  for (std::size_t round = 0; round < rounds; ++round) {
    const auto place =
        place_of_round(round, mine.same_for_all ? slot : slot * n, control_.area_bytes());
    auto* in = control_.area(rank(), exchange_.parity()).data() + place;
    for (std::size_t p = 0; p < n; ++p) {
      const auto& part = mine.sends[p];
      const auto s = piece_of(part.bytes(), round, slot);
      if (p == me || s.empty()) continue;
      copy_bytes(mine.same_for_all ? in : in + p * slot, part.data + s.begin, s.size());
      if (mine.same_for_all) break;
    }
    step(what, limit);
    for (std::size_t q = 1; q < n; ++q) {
      const auto p = (me + q) % n;
      const auto& to = mine.receives[p];
      const auto s = piece_of(to.bytes(), round, slot);
      if (s.empty()) continue;
      const auto* from = control_.area(static_cast<int>(p), shown_parity()).data() + place;
      copy_bytes(to.data + s.begin, mine.same_for_all ? from : from + me * slot, s.size());
    }
  }
}

}  // namespace troupe::groups
