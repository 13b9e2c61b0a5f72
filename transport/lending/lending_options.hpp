#pragma once

#include <cstddef>
#include <cstdint>

#include "troupe/transport/auth/job_secret.hpp"
#include "troupe/transport/memory/arena.hpp"
#include "troupe/transport/transport.hpp"

namespace troupe::transport {

struct lending_options {
  rank_t rank = 0;
  job_secret secret;
  /// The memory that is lent; null: this node lends nothing, and may be lent to. Must outlive the
  /// process's last tensor in it.
  arena* memory = nullptr;
  /// What nobody else refers to (outgoing_payload::take) is handed over: other nodes may write to
  /// all of this one's memory then.
  bool hand_over = true;
  /// Nothing else is lent.
  bool only_given = false;
  /// Payloads of fewer bytes are sent.
  std::size_t lend_from = std::size_t{16} << 10;
  /// Payloads that cannot be lent where they lie are copied into the arena, once, and lent there
  /// from so many bytes on; smaller ones are sent.
  std::size_t copy_from = std::size_t{64} << 10;
  /// Instead of sending or copying what could be lent to a peer of this host if it lay elsewhere,
  /// `send` throws transport_error.
  bool strict = false;
  /// For tests, and nothing else: a node of this process is taken for one of another process.
  bool apart = false;
  /// Most bytes that one peer is lent at a time; beyond it payloads are sent, and it is said once.
  std::uint64_t most_lent = 0;  ///< 0: half of the arena's limit()
};

}  // namespace troupe::transport
