#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "troupe/transport/lending/borrow_book.hpp"
#include "troupe/transport/lending/leased_devices.hpp"
#include "troupe/transport/lending/loan_book.hpp"
#include "troupe/transport/lending/node_number.hpp"
#include "troupe/transport/lending/passed_on.hpp"
#include "troupe/transport/system/process.hpp"
#include "troupe/transport/transport.hpp"

namespace troupe::transport::lending {

/// Why a large payload for a peer is not lent where it lies. Each is said once for a peer.
enum class not_lent : unsigned {
  to_this_peer = 1,
  not_all_of_its_storage = 2,
  elsewhere = 4,
  past_limit = 8,
  by_lease = 16  ///< memory of a device
};

/// A connection to a peer: what each end has lent to the other over it.
struct peer {
  rank_t rank = 0;
  node_number node{};
  process_identity process;
  /// Both ends can share memory, so that every message has a note.
  bool near = false;
  std::string why_not;      ///< why no memory is lent to it, or by it, if so
  bool same_host = false;   ///< also if the two cannot share memory
  reached_devices devices;  ///< that can open memory of other processes

  std::shared_ptr<loan_book> lent;
  std::shared_ptr<borrow_book> borrowed;  ///< null: its memory is not mapped here

  std::atomic<bool> may_lend{false};    ///< it has mapped this node's memory
  std::atomic<bool> reads{false};       ///< the same, for good: also once the connection is over
  std::atomic<bool> opens_none{false};  ///< it could not open memory of a device, as it has said
  std::atomic<bool> may_hand{false};    ///< it can write to this node's memory
  std::atomic<bool> ended{false};    ///< its process has, as far as the connection's end has said
  std::atomic<bool> known{false};    ///< it knows that this node has mapped its memory
  std::atomic<unsigned> telling{0};  ///< threads that send it a note alone
  word_list words;                   ///< that it is still to be told
  readable_nodes readable;           ///< nodes whose memory it has mapped, and which know that
  std::atomic<bool> added{false};    ///< to the inner transport: it is a connection
  std::atomic<bool> lost{false};
  std::atomic<bool> broken{false};  ///< it has sent nonsense: nothing more of it is delivered
  std::string problem;              ///< which; by the progressing thread
  std::atomic<unsigned> said{0};    ///< why payloads were not lent: bits of `not_lent`

  std::atomic<std::uint64_t> messages_sent{0};
  std::atomic<std::uint64_t> messages_received{0};
  std::atomic<std::uint64_t> bytes_sent{0};
  std::atomic<std::uint64_t> bytes_received{0};
};

}  // namespace troupe::transport::lending
