#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "troupe/messages/base/function_ref.hpp"
#include "troupe/transport/lending/lending_note.hpp"
#include "troupe/transport/lending/lending_options.hpp"
#include "troupe/transport/lending/lending_peer.hpp"

namespace troupe::transport::lending {

/// As a tensor's reader wants its bytes.
inline bool is_aligned(const std::byte* data) noexcept {
  return reinterpret_cast<std::uintptr_t>(data) % 16 == 0;
}

/// A payload for `to` will not be lent where it lies. If it is a tensor in host memory, says so the
/// first time; with lending_options::strict, throws transport_error.
void say_not_lent(peer& to, const lending_options& options, not_lent why,
                  const outgoing_payload& payload);

/// Bytes in the region of a node that has lent them to this one, and what keeps that loan.
struct borrowed_place {
  node_number owner{};
  std::uint64_t offset = 0;
  std::shared_ptr<const void> keep;
};
using find_borrowed =
    function_ref<std::optional<borrowed_place>(const std::byte* data, std::size_t size)>;

/// Writes the note of one message: takes the payloads out that need not travel, and says where
/// they are. One thread, for the time of one `send`.
class note_writer {
public:
  /// `find` says what other peers have lent.
  note_writer(peer& to, const lending_options& options, find_borrowed find);
  /// Takes everything back, unless `sent` was called.
  ~note_writer();
  note_writer(const note_writer&) = delete;
  note_writer& operator=(const note_writer&) = delete;

  /// Leaves in `payloads` those that must be sent, as they are now: a copy, or frozen, unless it is
  /// a large part of a storage. Throws transport_error if that is refused, or memory of a device
  /// cannot be leased; peer_lost.
  void lend(std::vector<outgoing_payload>& payloads);

  /// Adds what else the peer is to be told, and loans of it that have ended here, as many as a note
  /// takes. After `lend`: what is given back there may have been the last use.
  void add_ends();

  std::span<const note_entry> entries() const noexcept { return entries_; }

  void sent() noexcept { sent_ = true; }
  bool is_sent() const noexcept { return sent_; }

private:
  void take_back() noexcept;
  void lease(outgoing_payload& payload, std::uint32_t index);
  bool describe(outgoing_payload& payload, std::uint32_t index);
  bool hand_over(outgoing_payload& payload, std::uint32_t index);
  bool pass_on(const outgoing_payload& payload, std::uint32_t index);
  void correct(const node_number& owner);
  bool lend_bytes(std::shared_ptr<const void> keep, const std::byte* data, std::size_t size,
                  std::uint32_t index, entry_kind kind);
  void settle(outgoing_payload& payload) const;
  std::shared_ptr<std::byte> copy_into_arena(const outgoing_payload& payload) const;

  peer& to_;
  const lending_options& options_;
  const find_borrowed find_;
  std::size_t leases_to_come_ = 0;  // of this message, which cannot be sent instead
  std::vector<note_entry> entries_;
  std::optional<node_number> named_;  // by the last `of_node`
  bool sent_ = false;
};

}  // namespace troupe::transport::lending
