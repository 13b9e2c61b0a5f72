#include "troupe/actors/groups/network/collective_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "troupe/actors/groups/schedules/gathers.hpp"
#include "troupe/actors/scheduler/lent_thread.hpp"
#include "troupe/messages/codec/decoder.hpp"
#include "troupe/messages/codec/encoder.hpp"

namespace troupe::groups::network {

namespace {

// So long a rank waits for an entry before it tells the others that it is there itself.
constexpr std::chrono::milliseconds patience(1000);

packet written_together(std::span<const packet> entries) {
  encoder out(nullptr, nullptr);
  out.put(static_cast<std::uint32_t>(entries.size()));
  for (const auto& one : entries) {
    const auto bytes = one.bytes();
    out.put(std::vector<std::byte>(bytes.begin(), bytes.end()));
  }
  return packet(out.bytes());
}

void read_together(std::span<const std::byte> bytes, std::vector<packet>& into, int expected) {
  decoder in(bytes, nullptr, nullptr);
  if (in.get<std::uint32_t>() != static_cast<std::uint32_t>(expected))
    throw decode_error("a rank passes on more or fewer entries than it has");
  for (int i = 0; i < expected; ++i)
    into.emplace_back(std::span<const std::byte>(in.get<std::vector<std::byte>>()));
  in.expect_end();
}

}  // namespace

operation_place collective_run::place() const {
  return {channel_.name(), channel_.rank(), what_.kind, what_.sequence};
}

void collective_run::announce(std::span<const std::byte> data) {
  if (!entries_.empty()) return;
  entries_.resize(static_cast<std::size_t>(size()));
  auto& mine = entries_[static_cast<std::size_t>(rank())];
  mine = entry_of(what_, size());
  mine.way = way_;
  mine.data.assign(data.begin(), data.end());
  mine_ = write_entry(mine);
  mine.data.clear();
  if (!direct_entry_) {
    known_.push_back(mine_);
    return;
  }
  for (int i = 1; i < size(); ++i) {
    const int to = (rank() + i) % size();
    channel_.send(to, part{what_.sequence, stage_of(lane::entry, 0), mine_});
  }
}

void collective_run::await_others() {
  if (!factors_.empty()) return;
  if (direct_entry_)
    receive_directly();
  else
    receive_by_bruck();
  check_entries(place(), entries_);
  for (const auto& one : entries_) factors_.push_back(one.factor);
}

void collective_run::receive_directly() {
  for (int from = 0; from < size(); ++from)
    if (from != rank())
      entries_[static_cast<std::size_t>(from)] = read_entry(take_entry(0, from).bytes());
}

void collective_run::receive_by_bruck() {
  const auto steps = schedules::bruck_all_gather(rank(), size()).steps;
  for (std::uint32_t i = 0; i < steps.size(); ++i) {
    const auto& one = steps[i];
    const auto content =
        written_together(std::span(known_).first(static_cast<std::size_t>(one.sent.count)));
    channel_.send(one.to, part{what_.sequence, stage_of(lane::entry, i), content});
    read_together(take_entry(i, one.from).bytes(), known_, one.received.count);
  }
  for (int i = 1; i < size(); ++i)
    entries_[static_cast<std::size_t>((rank() + i) % size())] =
        read_entry(known_[static_cast<std::size_t>(i)].bytes());
  // All have entered: nobody asks who is missing.
  channel_.parts().forget(what_.sequence, stage_of(lane::presence, 0));
}

// Who waits for an entry that others pass on does not know who is missing. So whoever has waited
// for long tells all that it is there; and so does who enters when others have told that already.
packet collective_run::take_entry(std::uint32_t number, int from) {
  const part_key key{what_.sequence, stage_of(lane::entry, number), from};
  if (!direct_entry_) {
    auto found = channel_.parts().take_if_there(key);
    if (!found && !present_) {
      const auto waiting =
          channel_.parts().missing(what_.sequence, stage_of(lane::presence, 0), rank(), 0);
      if (static_cast<int>(waiting.size()) < size() - 1) send_presence();
    }
    const auto soon = clock::now() + std::min(patience, limit_.limit() / 2);
    if (!found) found = channel_.parts().take(key, std::min(soon, limit_.deadline()));
    if (!found && !present_) send_presence();
    if (found) return std::move(*found);
  }
  if (auto found = channel_.parts().take(key, limit_.deadline())) return std::move(*found);
  std::rethrow_exception(timeout_error(place(), limit_.limit(), missing_of(from)));
}

void collective_run::send_presence() {
  present_ = true;
  for (int to = 0; to < size(); ++to)
    if (to != rank())
      channel_.send(to, part{what_.sequence, stage_of(lane::presence, 0), packet()});
}

// In its entry it waits for all, afterwards for one.
std::vector<int> collective_run::missing_of(int waiting_for) const {
  auto& parts = channel_.parts();
  if (direct_entry_)
    return parts.missing(what_.sequence, stage_of(lane::entry, 0), rank(), waiting_for);
  auto out = parts.missing(what_.sequence, stage_of(lane::presence, 0), rank(), 0);
  const auto is_known = [&](int other) {
    const int distance = (other - rank() + size()) % size();
    return distance < static_cast<int>(known_.size());
  };
  std::erase_if(out, is_known);
  return out.empty() ? std::vector{waiting_for} : out;
}

std::uint32_t& collective_run::count(counters& of, lane by, int rank) const {
  auto& all = of[static_cast<std::size_t>(by)];
  if (all.empty()) all.resize(static_cast<std::size_t>(size()));
  return all[static_cast<std::size_t>(rank)];
}

void collective_run::send(lane by, int to, const packet& content) {
  const auto stage = stage_of(by, count(sent_, by, to)++);
  channel_.send(to, part{what_.sequence, stage, content});
}

packet collective_run::checked(packet&& found, int from, std::size_t size) const {
  if (found.size() != size)
    throw decode_error(fmt::format("{}: rank {} has sent {} bytes instead of {}",
                                   to_string(place()), from, found.size(), size));
  return std::move(found);
}

packet collective_run::receive(lane by, int from, std::size_t size) {
  const auto stage = stage_of(by, count(received_, by, from)++);
  return checked(take({what_.sequence, stage, from}), from, size);
}

std::optional<packet> collective_run::receive_if_there(lane by, int from, std::size_t size) {
  auto& number = count(received_, by, from);
  auto found = channel_.parts().take_if_there({what_.sequence, stage_of(by, number), from});
  if (!found) return std::nullopt;
  ++number;
  return checked(std::move(*found), from, size);
}

bool collective_run::wait_until(function_ref<bool()> over, std::chrono::milliseconds most) const {
  constexpr std::chrono::milliseconds between(1);
  const auto end = clock::now() + most;
  while (!over()) {
    const auto now = clock::now();
    if (now >= end) return false;
    completion never;
    const lent_thread lent;
    channel_.driver()->wait(never, std::min<clock::time_point>(now + between, end));
  }
  return true;
}

packet collective_run::take(const part_key& key) {
  if (auto found = channel_.parts().take(key, limit_.deadline())) return std::move(*found);
  std::rethrow_exception(timeout_error(place(), limit_.limit(), {key.from}));
}

}  // namespace troupe::groups::network
