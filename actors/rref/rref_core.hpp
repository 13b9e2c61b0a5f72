#pragma once

#include <source_location>

#include "actors/answer_state.hpp"
#include "actors/rref/owner_table.hpp"

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

  rref_core(std::shared_ptr<remoting> actors, peer& owner, const rref_id& id,
            const value_type& type, origin how, std::uint64_t use, std::source_location site);
  ~rref_core() override;

  const rref_id& id() const noexcept { return id_; }
  const value_type& type() const noexcept { return type_; }
  const std::source_location& site() const noexcept { return site_; }
  std::uint64_t use() const noexcept { return use_; }
  peer& owner() const noexcept { return owner_; }
  bool is_owner() const noexcept;
  remoting& actors() const noexcept { return *actors_; }

  /// Throws why it cannot be used: its creation has failed, its owner is lost, it never was.
  void check() const;

  /// On the owner: where its value, which is a `type`, is. Throws rref_gone, and like `check`.
  value_cell local(const value_type& type) const;

  /// The value that this one's is made from is needed until it has been made.
  void keep_object(std::shared_ptr<rref_core> object) { object_ = std::move(object); }
  const std::shared_ptr<rref_core>& object() const noexcept { return object_; }

  /// An operator of that name makes the value. Before anybody else has it.
  void made_by(std::string name) { maker_ = std::move(name); }
  const std::string& maker() const noexcept { return maker_; }

  // The answer to the creation.
  void on_value(opened_envelope&) noexcept override;
  void on_fault(fault&& why) noexcept override;

private:
  friend class rref_table;

  const std::shared_ptr<remoting> actors_;
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
  void release_object() noexcept;

  mutable std::mutex mutex_;
  std::shared_ptr<rref_core> object_;
  mutable value_cell local_;  // once it has been asked for
};

}  // namespace troupe::detail
