#include "troupe/actors/groups/shared/control_segment.hpp"

#include <fmt/format.h>

#include <cstring>

#include "troupe/messages/base/error.hpp"

namespace troupe::groups {

struct control_segment::header {
  static constexpr std::uint64_t this_version = 0x7472'6f75'7065'0002;  // "troupe", 2

  std::uint64_t version;
  std::uint64_t ranks;
  std::uint64_t area;
  std::uint64_t reserved[5];
  abort_line<process_memory> abort;
  // Whoever finds 0 writes the text; `text_length` says that it is there.
  std::atomic<std::uint32_t> writer;
  std::atomic<std::uint32_t> text_length;
  char text[504];
};
static_assert(sizeof(control_segment::line) == 64 && sizeof(control_segment::sleeper) == 64);

struct alignas(64) control_segment::rank_state {
  std::atomic<std::uint64_t> completed;
  std::atomic<std::uint64_t> left;
};

namespace {

constexpr std::size_t page = 4096;

constexpr std::size_t whole_pages(std::size_t bytes) { return (bytes + page - 1) / page * page; }

// A cause of an abort: which rank, plus 1, so that it is never 0.
constexpr std::uint64_t cause_of(int rank) { return static_cast<std::uint64_t>(rank) + 1; }

// A number of them that fills whole lines; the first one is not used.
constexpr std::size_t loans_of_rank = most_loans + 1;

// Where the parts of a segment begin.
struct segment_layout {
  std::size_t sleepers, states, lines, loans, places, areas, end;

  segment_layout(std::size_t header_bytes, int ranks, std::size_t area) {
    const auto n = static_cast<std::size_t>(ranks);
    sleepers = (header_bytes + 63) / 64 * 64;
    states = sleepers + n * 64;
    lines = states + n * 64;
    loans = lines + n * 2 * 64;
    places = loans + n * loans_of_rank * sizeof(loan_cell<process_memory>);
    areas = whole_pages(places + n * 2 * 2 * n * sizeof(shown_part));
    end = areas + n * 2 * area;
  }
};

}  // namespace

std::size_t control_segment::size_for(int ranks, std::size_t area) noexcept {
  return whole_pages(segment_layout(sizeof(header), ranks, area).end);
}

void control_segment::create(std::span<std::byte> memory, int ranks, std::size_t area) noexcept {
  auto& h = *reinterpret_cast<header*>(memory.data());
  h.version = header::this_version;
  h.ranks = static_cast<std::uint64_t>(ranks);
  h.area = area;
}

control_segment::control_segment(std::span<std::byte> memory, int ranks, std::size_t area)
    : base_(memory.data()), ranks_(ranks), area_(area) {
  if (ranks < 1 || ranks > most_ranks)
    throw invalid_argument(
        fmt::format("a group in shared memory has 1 to {} ranks, not {}", most_ranks, ranks));
  if (area < 4096 || area % 64 != 0)
    throw invalid_argument(
        fmt::format("areas of shared memory have a multiple of 64 bytes, at least 4096: {}", area));
  if (memory.size() < size_for(ranks, area))
    throw invalid_argument(fmt::format("a control segment of {} bytes is too small for {} ranks",
                                       memory.size(), ranks));
  const auto& h = head();
  if (h.version != header::this_version || h.ranks != static_cast<std::uint64_t>(ranks) ||
      h.area != area)
    throw invalid_argument(
        fmt::format("the control segment is for {} ranks with areas of {} bytes, not for {} with "
                    "{}, or of another version of Troupe",
                    h.ranks, h.area, ranks, area));
}

control_segment::header& control_segment::head() const noexcept {
  return *reinterpret_cast<header*>(base_);
}

std::span<control_segment::line> control_segment::lines() const noexcept {
  const segment_layout l(sizeof(header), ranks_, area_);
  return {reinterpret_cast<line*>(at(l.lines)), 2 * static_cast<std::size_t>(ranks_)};
}

std::span<control_segment::sleeper> control_segment::sleepers() const noexcept {
  const segment_layout l(sizeof(header), ranks_, area_);
  return {reinterpret_cast<sleeper*>(at(l.sleepers)), static_cast<std::size_t>(ranks_)};
}

shown_part* control_segment::places(int rank, unsigned parity) const noexcept {
  const segment_layout l(sizeof(header), ranks_, area_);
  const auto which = 2 * static_cast<std::size_t>(rank) + parity;
  return reinterpret_cast<shown_part*>(at(l.places)) + which * 2 * static_cast<std::size_t>(ranks_);
}

std::span<shown_part> control_segment::sends(int rank, unsigned parity) const noexcept {
  return {places(rank, parity), static_cast<std::size_t>(ranks_)};
}

std::span<shown_part> control_segment::receives(int rank, unsigned parity) const noexcept {
  return {places(rank, parity) + ranks_, static_cast<std::size_t>(ranks_)};
}

loan_cell<process_memory>& control_segment::loan(int rank, int number) const noexcept {
  const segment_layout l(sizeof(header), ranks_, area_);
  return reinterpret_cast<loan_cell<process_memory>*>(at(
      l.loans))[static_cast<std::size_t>(rank) * loans_of_rank + static_cast<std::size_t>(number)];
}

std::span<std::byte> control_segment::area(int rank, unsigned parity) const noexcept {
  const segment_layout l(sizeof(header), ranks_, area_);
  return {at(l.areas + (2 * static_cast<std::size_t>(rank) + parity) * area_), area_};
}

abort_line<process_memory>& control_segment::abort_cause() const noexcept { return head().abort; }

std::atomic<std::uint64_t>& control_segment::completed(int rank) const noexcept {
  const segment_layout l(sizeof(header), ranks_, area_);
  return reinterpret_cast<rank_state*>(at(l.states))[rank].completed;
}

std::atomic<std::uint64_t>& control_segment::left(int rank) const noexcept {
  const segment_layout l(sizeof(header), ranks_, area_);
  return reinterpret_cast<rank_state*>(at(l.states))[rank].left;
}

void control_segment::abort(int rank, const std::string& reason) const noexcept {
  auto& h = head();
  // The text comes before the cause, so whoever sees the cause usually sees it; a writer that is
  // killed in between only leaves the others without it.
  std::uint32_t none = 0;
  if (h.writer.compare_exchange_strong(none, static_cast<std::uint32_t>(cause_of(rank)))) {
    const auto length = std::min(reason.size(), sizeof h.text);
    std::memcpy(h.text, reason.data(), length);
    // Release: the text.
    h.text_length.store(static_cast<std::uint32_t>(length), std::memory_order_release);
  }
  exchange_type::abort(h.abort, sleepers(), cause_of(rank));
}

control_segment::abort_reason control_segment::aborted_by() const {
  auto& h = head();
  const auto cause = h.abort.cause.load(std::memory_order_acquire);
  if (cause == 0) return {};
  abort_reason out;
  out.rank = static_cast<int>(cause - 1);
  // Another one may have written the text than has set the cause; then it aborted at the same time.
  const auto writer = h.writer.load(std::memory_order_relaxed);
  const auto length = h.text_length.load(std::memory_order_acquire);
  if (writer != 0 && length > 0) {
    out.rank = static_cast<int>(writer - 1);
    out.text.assign(h.text, std::min<std::size_t>(length, sizeof h.text));
  }
  return out;
}

}  // namespace troupe::groups
