#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "troupe/actors/contexts/context_interceptor.hpp"
#include "troupe/autograd/context/participant.hpp"

namespace troupe::autograd::detail {

/// The contexts in which a node takes part. Thread-safe.
///
/// An id has the opener's rank in its upper 20 bits. A context is in the table from the first of
/// its messages that arrives or leaves until it ends: because its opener says so, or is lost. The
/// ids of the latest 4,096 that have ended are remembered, so that a late message does not open one
/// again.
class context_table final : public troupe::detail::context_interceptor {
public:
  /// `workers`: run the passes of its contexts.
  context_table(node_core& node, std::unique_ptr<pass_workers> workers);

  /// The table of a node. Throws not_initialized when the node has ended.
  static context_table& of(node_core& node);

  /// Opens a new context, in which the node takes part. Throws not_initialized.
  std::shared_ptr<participant> open();

  /// Throws unknown_context, whose text says what has become of it.
  std::shared_ptr<participant> find(std::uint64_t context) const;

  /// nullptr: it is not in the table.
  std::shared_ptr<participant> look_up(std::uint64_t context) const;

  /// Ends it here, and on all nodes that this one has sent it to; does nothing if it has ended.
  /// Late messages are refused with `why`.
  void end(std::uint64_t context, const std::string& why);

  /// Has the context ended on this node, as far as that is remembered? False: it has not come here.
  bool has_ended(std::uint64_t context) const;

  /// The actor that runs the passes of a context. Throws unknown_context.
  caf::strong_actor_ptr worker_of(const std::shared_ptr<participant>& part);

  /// How many workers of earlier contexts are free for the next ones.
  std::size_t free_workers() { return workers_->count_free(); }

  /// A number for a message, a pass or a step, unique in the job: no other node uses it, nor did a
  /// node that had this one's rank before (its sequence begins at random).
  std::uint64_t next_number() noexcept { return prefix() | (++last_number_ & low_bits); }

  /// Counts the passes that the node has a part in, for debug_info().
  void pass_begins() noexcept { ++passes_; }
  void pass_ends() noexcept { --passes_; }

  node_core& owner() const noexcept { return node_; }

  // context_interceptor
  troupe::detail::message_tag begin(std::uint64_t context, peer& to) override;
  void record(const troupe::detail::message_tag& where, peer& to,
              std::vector<at::Tensor>&& sent) override;
  void forget(const troupe::detail::message_tag& where) noexcept override;
  void receive(const troupe::detail::message_tag& where, peer& from, const envelope_header& header,
               const std::vector<at::Tensor>& received) override;
  bool takes_part() const noexcept override { return count_ > 0; }
  void evict(const peer& lost) override;
  void close() override;
  census count() const override;
  bool knows(std::uint64_t context) const override {
    return (context & ~low_bits) == prefix() || look_up(context);
  }

private:
  static constexpr unsigned rank_shift = 44;
  static constexpr std::uint64_t low_bits = (std::uint64_t{1} << rank_shift) - 1;
  static constexpr std::size_t most_remembered = 4'096;

  std::uint64_t prefix() const noexcept;
  std::shared_ptr<participant> remove(std::uint64_t context, const std::string& why);
  void release(participant& part, const std::string& why);
  void tell_opener(participant& part);

  node_core& node_;
  const std::unique_ptr<pass_workers> workers_;
  std::atomic<std::uint64_t> last_context_;
  std::atomic<std::uint64_t> last_number_;
  std::atomic<std::size_t> passes_{0};

  // Held for the maps only: participants are called without it.
  mutable std::shared_mutex mutex_;
  bool closed_ = false;
  std::unordered_map<std::uint64_t, std::shared_ptr<participant>> all_;
  std::atomic<std::size_t> count_{0};  // of all_
  std::unordered_map<std::uint64_t, std::string> ended_;
  std::deque<std::uint64_t> order_of_ends_;
};

}  // namespace troupe::autograd::detail
