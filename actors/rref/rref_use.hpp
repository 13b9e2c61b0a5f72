#pragma once

#include <source_location>

#include "troupe/actors/remote/answer_state.hpp"
#include "troupe/actors/rref/value_state.hpp"

namespace troupe {

class rpc_agent;
struct worker_info;

}  // namespace troupe

namespace troupe::detail {

class rref_table;

/// What a rref_use needs of the table of its node, which implements it.
class rref_registry {
public:
  /// The calls of the node. Throws not_initialized when it has ended.
  virtual std::shared_ptr<rpc_agent> agent() const = 0;

  /// The name of the node; also when it has ended.
  virtual const std::string& own_name() const noexcept = 0;

  /// The state of a value of this node. Throws rref_gone, invalid_argument.
  virtual value_cell find(const rref_id& id, const value_type& type) = 0;

  /// A call is about to name `one`, a use of a value of this node. Throws not_initialized.
  virtual void publish(const rref_use& one) = 0;

  /// The last copy of `one` goes.
  virtual void release(rref_use& one) noexcept = 0;

  /// The value of `one` will never be created.
  virtual void creation_failed(const rref_use& one, const fault& why) noexcept = 0;

protected:
  ~rref_registry() = default;
};

/// One use of a value, on this node: what all copies of an `rref` share. A future that is ready
/// when the owner is known to know of this use, or fails with the reason why it never will. Its end
/// notifies the owner. It is the sink of the call that creates its value, if it is the creator's.
/// Thread-safe.
class rref_use final : public remote_answer_state<void> {
public:
  /// How the owner learns of it.
  enum class origin : std::uint8_t {
    creation,  ///< by the creation of its value
    grant,     ///< the owner has sent it, or was notified by a `hold`
    claim,     ///< by a claim
  };

  /// By a rref_table only. `table` keeps that table, and `actors`, alive.
  rref_use(std::shared_ptr<rref_registry> table, remote_actors& actors, peer& owner,
           const rref_id& id, const value_type& type, origin how, std::uint64_t use,
           std::source_location site);
  ~rref_use() override;

  const rref_id& id() const noexcept { return id_; }
  const value_type& type() const noexcept { return type_; }
  const std::source_location& site() const noexcept { return site_; }
  std::uint64_t use() const noexcept { return use_; }
  peer& owner() const noexcept { return owner_; }
  const worker_info& owner_info() const noexcept;
  bool is_owner() const noexcept { return is_owner_; }

  /// The table of its node. Include rref_table.hpp for it.
  rref_table& table() const noexcept;

  /// The calls of its node. Throws not_initialized when that has ended.
  std::shared_ptr<rpc_agent> agent() const;

  /// The name of its node; also when that has ended.
  const std::string& node_name() const noexcept;

  /// Throws the reason why it cannot be used: its creation has failed, its owner is lost, or has
  /// denied it.
  void check() const;

  /// Is it the creator's use, which learns by the answer to the creation whether there is a value?
  bool creates() const noexcept { return origin_ == origin::creation; }
  bool failed() const noexcept { return ready() && failure(); }

  /// On the owner: the state of its value, which is a `type`. Throws rref_gone, and like `check`.
  value_cell local(const value_type& type) const;

  /// A call is about to name the value: if this node has made it for itself, its table has it from
  /// now on, for as long as this use lives. Throws not_initialized.
  void publish() const;

  /// The value, if this node has made it for itself: this use holds it. Otherwise null.
  value_cell own() const;

  /// The outcome of the creation, or of the claim. Does not keep this use.
  future<void> outcome();

  /// `waits` is for the value: if that has yet to be created for this use, `waits` fails when the
  /// creation does. Hot path.
  void add_waiting(const std::shared_ptr<future_core>& waits);

  /// Describes the use and its value for people.
  std::string text() const;

  /// Names the use, as torch names a fork: the node that has numbered it, and its number.
  std::string fork_text() const;

  /// The value that this one's is made from: kept until it has been made.
  void keep_object(std::shared_ptr<rref_use> object) {
    if (object) object->publish();
    object_ = std::move(object);
  }
  const std::shared_ptr<rref_use>& object() const noexcept { return object_; }

  /// An operator of that name makes the value. Before any other thread has this use.
  void made_by(std::string name) { maker_ = std::move(name); }
  const std::string& maker() const noexcept { return maker_; }

  /// Set in the numbers of uses that the owner has granted; not in those of claims.
  static constexpr std::uint64_t by_owner = std::uint64_t{1} << 63;

  // The answer to the creation.
  void on_value(opened_envelope&) noexcept override;
  void on_fault(fault&& why) noexcept override;
  bool keeps_result() const noexcept override { return true; }

private:
  friend class rref_table;

  void hold_own(value_cell value);
  value_cell give_up_own() noexcept;
  void finish(const std::exception_ptr& failure) noexcept;

  const std::shared_ptr<rref_registry> registry_;
  peer& owner_;
  const std::uint32_t self_;  // this node's rank
  const bool is_owner_;
  const rref_id id_;
  const value_type type_;
  const origin origin_;
  const std::uint64_t use_;
  const std::source_location site_;
  std::string maker_;  // empty: no operator
  // In the table's list of the uses that are here; guarded by its mutex.
  rref_use* next_ = nullptr;
  rref_use* before_ = nullptr;

  // Between the locks of the rref_table and of the owner_table, see `local`.
  mutable std::mutex mutex_;
  std::shared_ptr<rref_use> object_;
  value_cell own_;                      // made by this node for itself
  mutable value_cell local_;            // once it has been asked for
  std::weak_ptr<future_core> waiting_;  // for the value
  std::vector<std::weak_ptr<future_core>> others_waiting_;
  std::size_t most_waiting_ = 16;  // more than this: remove those that have expired first
};

}  // namespace troupe::detail
