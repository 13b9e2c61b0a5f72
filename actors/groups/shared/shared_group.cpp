#include "troupe/actors/groups/shared/shared_group.hpp"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <thread>
#include <utility>

namespace troupe::groups {

namespace {

constexpr std::size_t signature_words = sizeof(operation_signature) / sizeof(std::uint64_t);
// The words of a step_entry after the signature's.
constexpr std::size_t place_word = signature_words;
static_assert(signature_words + 3 == std::tuple_size_v<decltype(step_entry::words)>);

}  // namespace

shared_group::shared_group(shared_setup setup)
    : setup_(std::move(setup)),
      control_(setup_.control, setup_.size, setup_.area),
      exchange_(setup_.rank, setup_.size, control_.lines(), control_.sleepers(),
                control_.abort_cause(), waiting::for_ranks(setup_.size, setup_.cores)) {
  if (setup_.rank < 0 || setup_.rank >= setup_.size)
    throw invalid_argument(
        fmt::format("group '{}': rank {} of {}", setup_.group, setup_.rank, setup_.size));
  if (setup_.memories.size() != static_cast<std::size_t>(setup_.size))
    throw invalid_argument(fmt::format("group '{}': memory of {} ranks, not of {}", setup_.group,
                                       setup_.memories.size(), setup_.size));
}

void shared_group::barrier(const operation_signature& what, const time_limit& limit) {
  enter({}, what, limit);
}

void shared_group::compare_sizes(const operation_signature& what,
                                 std::span<const std::uint64_t> sizes, const time_limit& limit) {
  const auto room = control_.area_bytes() / sizeof(std::uint64_t);
  std::size_t done = 0;
  do {
    const auto some = sizes.subspan(done, std::min(room, sizes.size() - done));
    std::ranges::copy(some, sizes_of(rank(), exchange_.parity()));
    // The ranks agree on how many there are.
    enter({}, what, limit);
    const auto* const first = sizes_of(0, shown_parity());
    for (int p = 1; p < size(); ++p) {
      const auto* const others = sizes_of(p, shown_parity());
      for (std::size_t i = 0; i < some.size(); ++i)
        if (others[i] != first[i])
          disagree(what, fmt::format("tensor {} has {} elements on rank {} and {} on rank {}",
                                     done + i, first[i], shown(0), others[i], shown(p)));
    }
    done += some.size();
  } while (done < sizes.size());
}

std::uint64_t* shared_group::sizes_of(int of_rank, unsigned parity) const noexcept {
  return reinterpret_cast<std::uint64_t*>(control_.area(of_rank, parity).data());
}

shared_group::entry shared_group::entry_for(const operation_signature& what,
                                            tensor_view tensor) noexcept {
  entry mine;
  const auto bytes = tensor.bytes();
  switch (setup_.ways.choose(what.kind, bytes)) {
    case way::box:
      if (bytes > control_.area_bytes()) break;
      mine.note = carried;
      if (bytes == 0) break;
      if (bytes <= sizeof mine.payload)
        std::memcpy(&mine.payload, tensor.data, bytes);
      else
        std::memcpy(control_.area(rank(), exchange_.parity()).data(), tensor.data, bytes);
      break;
    case way::direct:
    case way::lend:
    case way::shared:
      mine.place = place_of(tensor);
      if (mine.place != shared_place::elsewhere) {
        mine.note = reachable;
      } else if (what.kind == operation_kind::broadcast && !setup_.readable_processes.empty()) {
        mine.place = reinterpret_cast<std::uintptr_t>(tensor.data);
        mine.note = readable;
      }
      break;
    case way::staged: break;
  }
  return mine;
}

void shared_group::enter(const entry& mine, const operation_signature& what,
                         const time_limit& limit) {
  leave_if_aborted(what);
  exposed_ = mine.exposes;
  step_entry shown;
  shown.note = mine.note;
  std::memcpy(shown.words.data(), &what, sizeof what);
  shown.words[place_word] = mine.place;
  shown.words[place_word + 1] = std::bit_cast<std::uint64_t>(mine.factor);
  // Who carries data has no output that others write.
  shown.words[place_word + 2] = mine.note & carried ? mine.payload : mine.output_place;
  if (const auto result = exchange_.step(shown, limit); result != wait_result::arrived)
    fail(result, what, limit);
  for (int p = 0; p < size(); ++p)
    for (std::size_t i = 0; i < signature_words; ++i)
      if (exchange_.word_of(p, i) != shown.words[i]) {
        // All ranks see the same entries, so all of them get here, and none has written anything.
        exposed_ = false;
        std::array<operation_signature, most_ranks> asked;
        for (int q = 0; q < size(); ++q) {
          const auto of_rank = exchange_.shown_by(q);
          std::memcpy(static_cast<void*>(&asked[static_cast<std::size_t>(q)]), of_rank.words.data(),
                      sizeof(operation_signature));
        }
        std::rethrow_exception(
            mismatch_error(where(what), std::span(asked).first(static_cast<std::size_t>(size()))));
      }
}

void shared_group::step(const operation_signature& what, const time_limit& limit) {
  if (const auto result = exchange_.step({}, limit); result != wait_result::arrived)
    fail(result, what, limit);
}

void shared_group::step_after_reading(const operation_signature& what, const time_limit& limit) {
  leave_if_aborted(what);
  step(what, limit);
}

void shared_group::wait_for_abort(const operation_signature& what, const time_limit& limit) {
  while (!aborted() && process_memory::now() < limit.deadline())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  leave_if_aborted(what);
  fail(wait_result::timed_out, what, limit);
}

void shared_group::complete(const operation_signature& what) noexcept {
  control_.completed(rank()).store(what.sequence, std::memory_order_release);
}

void shared_group::leave_if_aborted(const operation_signature& what) {
  if (exchange_.abort_cause() == 0) return;
  const auto by = control_.aborted_by();
  leave();
  fault f;
  f.code = errc::cancelled;
  f.text = by.rank == rank() ? fmt::format("{}: {}", to_string(where(what)), by.text)
                             : fmt::format("{}: rank {} has aborted the group: {}",
                                           to_string(where(what)), shown(by.rank), by.text);
  throw group_failed(std::move(f));
}

void shared_group::fail(wait_result why, const operation_signature& what, const time_limit& limit) {
  if (why == wait_result::timed_out) {
    std::vector<int> missing;
    for (int p = 0; p < size(); ++p)
      if (!exchange_.has_begun(p)) missing.push_back(shown(p));
    // The others cannot finish without this rank.
    control_.abort(rank(), fmt::format("its {}, sequence number {}, has timed out after {} ms",
                                       to_string(what.kind), what.sequence, limit.limit().count()));
    leave();
    std::rethrow_exception(timeout_error(where(what), limit.limit(), missing));
  }
  leave_if_aborted(what);
  throw internal_error("a wait has failed for no reason");
}

void shared_group::disagree(const operation_signature& what, const std::string& text) {
  exposed_ = false;
  fault f;
  f.code = errc::invalid_argument;
  f.text = fmt::format("{}: the ranks disagree: {}", to_string(where(what)), text);
  throw collective_mismatch(std::move(f));
}

operation_place shared_group::where(const operation_signature& what) const {
  return {setup_.group, shown(rank()), what.kind, what.sequence};
}

bool shared_group::all_have(std::uint32_t note) const noexcept {
  for (int p = 0; p < size(); ++p)
    if ((exchange_.note_of(p) & note) == 0) return false;
  return true;
}

std::uint64_t shared_group::place_of(const tensor_view& tensor, int loan) const noexcept {
  if (tensor.count == 0) return shared_place{}.word();
  // Nearly always this rank's. What has been lent to it lies in another one's.
  for (int q = 0; q < size(); ++q) {
    const auto p = (rank() + q) % size();
    const auto& memory = setup_.memories[static_cast<std::size_t>(p)];
    const auto offset = reinterpret_cast<std::uintptr_t>(tensor.data) -
                        reinterpret_cast<std::uintptr_t>(memory.base);
    if (memory.base && offset < memory.size && tensor.bytes() <= memory.size - offset)
      return shared_place{offset, p, loan}.word();
  }
  return shared_place::elsewhere;
}

std::byte* shared_group::mapped(int by_rank, std::uint64_t word, std::size_t bytes,
                                const operation_signature& what) {
  const auto place = shared_place::of(word);
  // Without elements it is nowhere.
  if (bytes == 0) return setup_.memories[0].base;
  auto* const found = address_of(place, bytes);
  if (!found) fail_by_damage(what, by_rank, "a tensor outside of its memory");
  return found;
}

std::byte* shared_group::address_of(const shared_place& place, std::size_t bytes) const noexcept {
  if (place.rank >= size()) return nullptr;
  const auto& memory = setup_.memories[static_cast<std::size_t>(place.rank)];
  if (place.offset > memory.size || bytes > memory.size - place.offset) return nullptr;
  return memory.base + place.offset;
}

void shared_group::fail_by_damage(const operation_signature& what, int by_rank, const char* shows) {
  fault f;
  f.code = errc::internal;
  f.text = fmt::format("{}: rank {} shows {}; its part of the shared memory is damaged",
                       to_string(where(what)), shown(by_rank), shows);
  control_.abort(rank(), f.text);
  leave();
  throw internal_error(std::move(f));
}

std::optional<std::string> shared_group::aborted_because() const {
  const auto by = control_.aborted_by();
  if (by.rank < 0) return {};
  return fmt::format("rank {}: {}", shown(by.rank), by.text);
}

bool shared_group::all_left(std::uint64_t dead) const noexcept {
  const auto all = ~std::uint64_t{0} >> (64 - size());
  return ((left() | dead) & all) == all;
}

std::uint64_t shared_group::left() const noexcept {
  std::uint64_t out = 0;
  for (int p = 0; p < size(); ++p)
    if (control_.left(p).load(std::memory_order_seq_cst) != 0) out |= std::uint64_t{1} << p;
  return out;
}

std::uint64_t shared_group::last_completed_by_all() const noexcept {
  auto last = control_.completed(0).load(std::memory_order_acquire);
  for (int p = 1; p < size(); ++p)
    last = std::min(last, control_.completed(p).load(std::memory_order_acquire));
  return last;
}

}  // namespace troupe::groups
