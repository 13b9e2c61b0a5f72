#pragma once

#include <source_location>

#include "troupe/actors/remote/answer_state.hpp"
#include "troupe/actors/rref/owner_table.hpp"

namespace troupe::detail {

class rref_table;

/// One use of a value, here: what all copies of an `rref` share. Ready when the owner is known to
/// know of it, or why that will not be. When it goes it tells the owner. Thread-safe.
class rref_core final : public remote_answer_state<void> {
public:
  /// How the owner gets to know of it.
  enum class origin : std::uint8_t {
    creation,  ///< by the creation of its value
    grant,     ///< it was the owner who sent it
    claim,     ///< by a claim
  };

  rref_core(std::shared_ptr<remote_actors> actors, peer& owner, const rref_id& id,
            const value_type& type, origin how, std::uint64_t use, std::source_location site);
  ~rref_core() override;

  const rref_id& id() const noexcept { return id_; }
  const value_type& type() const noexcept { return type_; }
  const std::source_location& site() const noexcept { return site_; }
  std::uint64_t use() const noexcept { return use_; }
  peer& owner() const noexcept { return owner_; }
  bool is_owner() const noexcept;
  remote_actors& actors() const noexcept { return *actors_; }

  /// Throws why it cannot be used: its creation has failed, its owner is lost, it never was.
  void check() const;

  /// Is it by the outcome of the creation that this use hears whether there is a value?
  bool creates() const noexcept { return origin_ == origin::creation; }
  bool failed() const noexcept { return ready() && failure(); }

  /// On the owner: where its value, which is a `type`, is. Throws rref_gone, and like `check`.
  value_cell local(const value_type& type) const;

  /// A call is about to name the value: if it is one that this node has made for itself, its table
  /// has it from now on, for as long as this use lives. Throws not_initialized.
  void publish() const;

  /// Of what this node has made for itself: the value, which this use holds; else null.
  value_cell own() const;

  /// The outcome of the creation, or of the claim; it does not keep this use.
  future<void> outcome();

  /// `waits` for the value: if that has yet to be made for this use, it fails when the creation
  /// does. Hot path.
  void add_waiting(const std::shared_ptr<future_core>& waits);

  /// In words, for people: whose use it is, and of what.
  std::string text() const;

  /// Of this use, in words: who has numbered it, and its number among the value's. See `rref`.
  std::string fork_text() const;

  /// The value that this one's is made from is needed until it has been made.
  void keep_object(std::shared_ptr<rref_core> object) {
    if (object) object->publish();
    object_ = std::move(object);
  }
  const std::shared_ptr<rref_core>& object() const noexcept { return object_; }

  /// An operator of that name makes the value. Before anybody else has it.
  void made_by(std::string name) { maker_ = std::move(name); }
  const std::string& maker() const noexcept { return maker_; }

  /// Uses that the owner has numbered have this bit, those that claim theirs do not.
  static constexpr std::uint64_t by_owner = std::uint64_t{1} << 63;

  // The answer to the creation.
  void on_value(opened_envelope&) noexcept override;
  void on_fault(fault&& why) noexcept override;

private:
  friend class rref_table;

  const std::shared_ptr<remote_actors> actors_;
  peer& owner_;
  const rref_id id_;
  const value_type type_;
  const origin origin_;
  const std::uint64_t use_;
  const std::source_location site_;
  std::string maker_;  // empty: no operator
  // In the list of those that are here; of the table's mutex.
  rref_core* next_ = nullptr;
  rref_core* before_ = nullptr;
  void hold_own(value_cell value);
  value_cell give_up_own() noexcept;
  void finish(const std::exception_ptr& failure) noexcept;

  mutable std::mutex mutex_;
  std::shared_ptr<rref_core> object_;
  value_cell own_;                      // that this node has made for itself
  mutable value_cell local_;            // once it has been asked for
  std::weak_ptr<future_core> waiting_;  // for the value
  std::vector<std::weak_ptr<future_core>> others_waiting_;
  std::size_t most_waiting_ = 16;  // before those that have gone are looked for
};

}  // namespace troupe::detail
