#pragma once

#include <caf/actor_control_block.hpp>
#include <compare>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>
#include <vector>

#include "troupe/actors/cluster/peer_table.hpp"
#include "troupe/actors/messaging/rref_id.hpp"
#include "troupe/actors/rref/value_state.hpp"

namespace troupe::detail {

/// What a holder has let go of; see owner_table::drop.
struct dropped_value {
  value_cell value;
  bool runs_user_code = false;
  caf::strong_actor_ptr actor = nullptr;
};

/// The values that this node owns, with their holders: the owner's side of the protocol in
/// rref_table.hpp. Thread-safe. Functions that can end a value return it, and the caller destroys
/// it outside of all locks.
class owner_table {
public:
  owner_table(std::shared_ptr<engine> driver, const peer_table& peers)
      : engine_(std::move(driver)), peers_(peers) {}

  /// This node, `creator`, has numbered a value that it makes for itself. No other node can know of
  /// the value until it is entered; whoever asks for it before gets rref_gone.
  void reserve(const rref_id& id, const peer& creator);

  /// Enters such a value, unless it is here, with one more holder.
  void own(const rref_id& id, value_cell value, const value_type& type, const peer& holder,
           std::uint64_t use);

  /// The creation of `id` has arrived: returns the state that its value goes to. Its creator is the
  /// first holder, with use 0. Throws rref_gone when it has been created or given up before, or its
  /// creator is lost.
  value_cell create(const rref_id& id, const value_type& type, const peer& creator);

  enum class presence { here, to_come, gone };

  /// One more holder. Its entry is made also when the value has yet to be created.
  presence hold(const rref_id& id, const peer& holder, std::uint64_t use);

  /// The state of the value of `id`, which may have yet to be created. Throws rref_gone;
  /// invalid_argument when its type is another.
  value_cell find(const rref_id& id, const value_type& type);

  /// A holder has dropped its use. Harmless when it had before. Returns the value if that was the
  /// last holder.
  using dropped = dropped_value;
  [[nodiscard]] dropped drop(const rref_id& id, const peer& holder, std::uint64_t use) noexcept;

  /// The creator will never create it: uses of the value, and waits for it, fail with `why`.
  void abandon(const rref_id& id, const peer& creator, const std::exception_ptr& why);

  /// Drops all uses of `whom`, and fails the values that it has not created yet.
  [[nodiscard]] std::vector<dropped> evict(const peer& whom);

  /// Drops everything; nothing comes after it.
  [[nodiscard]] std::vector<dropped> close();

  /// The actor that stands for the value of `id`, which `make` makes if there is none. It is held
  /// while the value has holders. Throws rref_gone.
  caf::strong_actor_ptr actor(const rref_id& id,
                              const std::function<caf::strong_actor_ptr()>& make);

  /// Values, those to come included.
  std::size_t size() const;

private:
  struct holding {
    const peer* who;
    std::uint64_t use;
    auto operator<=>(const holding&) const = default;
  };
  struct record {
    value_cell value;  // null until the type is known
    value_type type;
    bool created = false;
    std::exception_ptr failure;  // why it will never be created
    caf::strong_actor_ptr actor;
    std::set<holding> holders;
    bool settled() const noexcept { return created || failure; }
  };
  // The numbers of a creator that have arrived: all up to `below`, and those in `above`.
  struct arrivals {
    std::uint64_t below = 0;
    std::set<std::uint64_t> above;
    bool has(std::uint64_t number) const { return number <= below || above.contains(number); }
    bool add(std::uint64_t number);
  };

  record* look(const rref_id& id);
  dropped give_up(std::unordered_map<rref_id, record>::iterator place,
                  const std::exception_ptr& why);
  dropped take(std::unordered_map<rref_id, record>::iterator place);

  const std::shared_ptr<engine> engine_;
  const peer_table& peers_;
  // Taken after the locks of the rref_table and of a rref_use (see `rref_use::local`), and none is
  // taken under it. Values fail, and are dropped, outside of it, since that runs continuations and
  // destructors.
  mutable std::mutex mutex_;
  bool closed_ = false;
  std::unordered_map<rref_id, record> records_;
  std::unordered_map<const peer*, arrivals> arrivals_;
};

}  // namespace troupe::detail
