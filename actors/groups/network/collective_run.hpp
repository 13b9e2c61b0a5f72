#pragma once

#include <array>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "troupe/actors/groups/backend/time_limit.hpp"
#include "troupe/actors/groups/network/entry.hpp"
#include "troupe/actors/groups/network/group_channel.hpp"
#include "troupe/messages/base/function_ref.hpp"

namespace troupe::groups::network {

/// Parts of a collective that two ranks send each other, in order; each lane counts by itself.
enum class lane : std::uint32_t {
  entry,
  data,
  results,   ///< of data that were combined
  receipts,  ///< of bytes that were lent
  presence,  ///< of ranks that have entered, when some wait for long
  grants,    ///< for more, of a rank that only receives
};
inline constexpr std::size_t lanes = 6;

/// One collective under way on one rank: its entry, and its packets. One thread.
class collective_run {
public:
  /// `direct_entry`: entries go from every rank to every other; or else by Bruck's algorithm. The
  /// same on all ranks.
  collective_run(group_channel& channel, const operation& what, const time_limit& limit,
                 bool direct_entry = true)
      : channel_(channel), what_(what), limit_(limit), direct_entry_(direct_entry) {}

  /// Enters, with `data` for all others, and waits for all the others. Throws collective_mismatch
  /// if they ask for something else, collective_timeout, and what the channel failed with.
  void enter(std::span<const std::byte> data) {
    announce(data);
    await_others();
  }
  /// The first half of it: what is sent before the second one arrives as early as may be. No output
  /// is written before `await_others` has returned. Each does nothing the second time.
  void announce(std::span<const std::byte> data);
  void await_others();
  /// By what this rank carries it out, for its entry: "chain in 4 pieces". Before `announce`. All
  /// must do the same, if they send the same.
  void go_by(std::string way) { way_ = std::move(way); }

  int rank() const noexcept { return channel_.rank(); }
  int size() const noexcept { return channel_.size(); }
  /// What a rank has sent with its entry; this one's own is empty.
  std::span<const std::byte> data_of(int rank) const {
    return entries_.at(static_cast<std::size_t>(rank)).data;
  }
  /// What the ranks have said of themselves.
  const entry& entry_of_rank(int rank) const { return entries_.at(static_cast<std::size_t>(rank)); }

  /// Of a premul_sum, by rank.
  const std::vector<double>& factors() const noexcept { return factors_; }

  void send(lane by, int to, std::span<const std::byte> bytes) { send(by, to, packet(bytes)); }
  void send(lane by, int to, const packet& content);

  /// The next packet of `from` on a lane. Throws collective_timeout, and what the channel failed
  /// with; decode_error if it has another size.
  packet receive(lane by, int from, std::size_t size);
  /// The same if it is there already.
  std::optional<packet> receive_if_there(lane by, int from, std::size_t size);

  /// Tells `to` that what it has lent has arrived, and waits until `from` says so.
  void send_receipt(int to) { send(lane::receipts, to, std::span<const std::byte>()); }
  void await_receipt(int from) { receive(lane::receipts, from, 0); }

  /// Lets `to` send one piece more, and waits until `from` does.
  void send_grant(int to) { send(lane::grants, to, std::span<const std::byte>()); }
  void await_grant(int from) { receive(lane::grants, from, 0); }

  /// Until `over` says so, while the network goes on. False: not within `most`.
  bool wait_until(function_ref<bool()> over, std::chrono::milliseconds most) const;

  operation_place place() const;

private:
  using counters = std::array<std::vector<std::uint32_t>, lanes>;

  static std::uint32_t stage_of(lane by, std::uint32_t number) noexcept {
    return static_cast<std::uint32_t>(by) << 28 | number;
  }
  std::uint32_t& count(counters& of, lane by, int rank) const;
  packet checked(packet&& found, int from, std::size_t size) const;
  packet take(const part_key& key);
  packet take_entry(std::uint32_t number, int from);
  void receive_directly();
  void receive_by_bruck();
  void send_presence();
  std::vector<int> missing_of(int waiting_for) const;

  group_channel& channel_;
  const operation& what_;
  const time_limit& limit_;
  const bool direct_entry_;
  std::string way_;
  packet mine_;                 // written
  std::vector<packet> known_;   // Bruck's: what was written by the ranks from this one on
  bool present_ = false;        // has told the others that it is here
  std::vector<entry> entries_;  // by rank
  std::vector<double> factors_;
  mutable counters sent_, received_;
};

}  // namespace troupe::groups::network
