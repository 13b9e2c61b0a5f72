#pragma once

#include <deque>
#include <shared_mutex>
#include <unordered_map>

#include "troupe/actors/remote/context_interceptor.hpp"
#include "troupe/autograd/pass/pass_worker_state.hpp"

namespace troupe::autograd::detail {

/// The contexts in which a node takes part. Thread-safe.
///
/// An id has the opener's rank in its upper 16 bits. A context is here from the first message of it
/// that comes or goes until it ends: because its opener says so, or is lost. The latest that have
/// ended are remembered, so that what comes late does not begin them anew.
class context_table final : public troupe::detail::context_interceptor {
public:
  explicit context_table(node_core& node);

  /// The table of a node. Throws not_initialized when the node is no more.
  static context_table& of(node_core& node);

  /// A new context of this node's, in which it takes part.
  std::shared_ptr<participant> open();

  /// Throws unknown_context, saying what has become of it.
  std::shared_ptr<participant> find(std::uint64_t context) const;

  /// nullptr: it is not here.
  std::shared_ptr<participant> look_up(std::uint64_t context) const;

  /// Ends it here, and on all nodes to which it has gone from here; nothing if it has ended. `why`
  /// is told to whoever comes late.
  void end(std::uint64_t context, const std::string& why);

  /// The actor of a context. Throws unknown_context.
  pass_actor actor_of(const std::shared_ptr<participant>& part);

  /// How many of those that have served a context are free for the next one.
  std::size_t free_actors() { return workers_.count_free(); }

  /// A number for a message or a pass, which no other of the job's has, and none of the node's that
  /// had this one's rank before it.
  std::uint64_t next_number() noexcept { return prefix() | (++last_number_ & low_bits); }

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
  void evict(const peer& whom) override;
  void close() override;
  census count() const override;
  bool knows(std::uint64_t context) const override {
    return (context & ~low_bits) == prefix() || look_up(context);
  }

private:
  static constexpr unsigned rank_shift = 48;
  static constexpr std::uint64_t low_bits = (std::uint64_t{1} << rank_shift) - 1;
  static constexpr std::size_t most_remembered = 4'096;

  std::uint64_t prefix() const noexcept;
  std::shared_ptr<participant> take(std::uint64_t context, const std::string& why);

  void end(participant& part, const std::string& why);

  node_core& node_;
  pass_actors workers_;
  std::atomic<std::uint64_t> last_context_;
  std::atomic<std::uint64_t> last_number_;
  std::atomic<std::size_t> passes_{0};

  mutable std::shared_mutex mutex_;
  bool closed_ = false;
  std::unordered_map<std::uint64_t, std::shared_ptr<participant>> all_;
  std::atomic<std::size_t> count_{0};  // of all_
  std::unordered_map<std::uint64_t, std::string> ended_;
  std::deque<std::uint64_t> order_of_ends_;
};

}  // namespace troupe::autograd::detail
