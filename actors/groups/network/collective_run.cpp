#include "troupe/actors/groups/network/collective_run.hpp"

#include <fmt/format.h>

#include <utility>

namespace troupe::groups::network {

namespace {

constexpr std::uint32_t entry_stage = 0;

}  // namespace

operation_place collective_run::place() const {
  return {channel_.name(), channel_.rank(), what_.kind, what_.sequence};
}

void collective_run::enter(std::span<const std::byte> data) {
  entries_.resize(static_cast<std::size_t>(size()));
  auto& mine = entries_[static_cast<std::size_t>(rank())];
  mine = entry_of(what_, size());
  mine.data.assign(data.begin(), data.end());
  const auto content = write_entry(mine);
  mine.data.clear();
  for (int to = 0; to < size(); ++to)
    if (to != rank()) send(entry_stage, to, content);
  for (int from = 0; from < size(); ++from)
    if (from != rank())
      entries_[static_cast<std::size_t>(from)] = read_entry(take(entry_stage, from).bytes());
  check_entries(place(), entries_);
  for (const auto& one : entries_) factors_.push_back(one.factor);
}

void collective_run::send(std::uint32_t stage, int to, std::span<const std::byte> bytes) {
  send(stage, to, packet(bytes));
}

void collective_run::send(std::uint32_t stage, int to, const packet& content) {
  channel_.send(to, part{what_.sequence, stage, content});
}

packet collective_run::receive(std::uint32_t stage, int from, std::size_t size) {
  auto found = take(stage, from);
  if (found.size() != size)
    throw decode_error(fmt::format("{}: rank {} has sent {} bytes instead of {}",
                                   to_string(place()), from, found.size(), size));
  return found;
}

packet collective_run::take(std::uint32_t stage, int from) {
  auto found = channel_.parts().take({what_.sequence, stage, from}, limit_.deadline());
  if (found) return std::move(*found);
  // In its entry it waits for all, afterwards for one.
  const auto missing = stage == entry_stage
                           ? channel_.parts().missing(what_.sequence, stage, rank(), from)
                           : std::vector{from};
  std::rethrow_exception(timeout_error(place(), limit_.limit(), missing));
}

}  // namespace troupe::groups::network
