#pragma once

#include <caf/actor_control_block.hpp>
#include <compare>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "troupe/actors/future/future.hpp"
#include "troupe/actors/cluster/peer_table.hpp"
#include "troupe/actors/messaging/rref_id.hpp"

namespace troupe::detail {

/// The state of a value that an rref refers to: others use it too, so nobody cancels it.
template <class T>
class value_state final : public future_state<T> {
public:
  explicit value_state(std::shared_ptr<engine> driver) : future_state<T>(std::move(driver)) {
    this->made_here();
  }
  void cancel() override {}
};

/// A type that an rref may refer to.
struct value_type {
  std::uint64_t hash = 0;
  std::string_view name;        ///< static text
  bool runs_user_code = false;  ///< when a value of it goes
  std::shared_ptr<future_core> (*make)(const std::shared_ptr<engine>&) = nullptr;

  template <class T>
  static value_type of() {
    constexpr bool plain = std::is_void_v<T> || std::is_trivially_destructible_v<stored<T>> ||
                           std::is_same_v<T, at::Tensor> || std::is_same_v<T, std::string>;
    return {type_hash<T>(), type_name<T>(), !plain,
            [](const std::shared_ptr<engine>& driver) -> std::shared_ptr<future_core> {
              return std::make_shared<value_state<T>>(driver);
            }};
  }
};

/// Where a value is, or will be, or why there is none: a future_state of its type.
using value_cell = std::shared_ptr<future_core>;

/// The values that this node owns, and who holds them: the owner's side of the protocol in
/// rref_table.hpp. Thread-safe. Values are dropped by the caller, outside of all locks: whatever
/// can end one returns it.
class owner_table {
public:
  owner_table(std::shared_ptr<engine> driver, const peer_table& peers)
      : engine_(std::move(driver)), peers_(peers) {}

  /// The number of a value that this node makes for itself, `creator`, has come. Until it is
  /// entered nobody else can know of it; who asks for it is told that it is gone.
  void reserve(const rref_id& id, const peer& creator);

  /// Enters such a value, unless it is here, with one more holder.
  void own(const rref_id& id, value_cell value, const value_type& type, const peer& holder,
           std::uint64_t use);

  /// The creation of `id` has arrived: where its value goes. Its creator is the first holder, with
  /// use 0. Throws rref_gone when it has been created or given up before, or its creator is lost.
  value_cell create(const rref_id& id, const value_type& type, const peer& creator);

  enum class presence { here, to_come, gone };

  /// One more holder. Its entry is made also when the value has yet to be created.
  presence hold(const rref_id& id, const peer& holder, std::uint64_t use);

  /// Where the value of `id` is, or will be. Throws rref_gone; invalid_argument when its type is
  /// another.
  value_cell find(const rref_id& id, const value_type& type);

  /// A holder has let go. Harmless when it had before. Returns what nobody holds any more.
  struct dropped {
    value_cell value;
    bool runs_user_code = false;
    caf::strong_actor_ptr actor = nullptr;
  };
  [[nodiscard]] dropped drop(const rref_id& id, const peer& holder, std::uint64_t use) noexcept;

  /// Its creator will never create it. Whoever has a reference hears why.
  void abandon(const rref_id& id, const peer& creator, const std::exception_ptr& why);

  /// Lets go for all that `whom` held; what it has not created by now never will be.
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
    value_cell value;  // none until somebody knows its type
    value_type type;
    bool created = false;
    std::exception_ptr failure;  // why it never will be
    caf::strong_actor_ptr actor;
    std::set<holding> holders;
    bool settled() const noexcept { return created || failure; }
  };
  // Which numbers of a creator have come: all up to `below`, and these.
  struct arrivals {
    std::uint64_t below = 0;
    std::set<std::uint64_t> above;
    bool has(std::uint64_t number) const { return number <= below || above.contains(number); }
    bool add(std::uint64_t number);
  };

  record* look(const rref_id& id);
  value_cell give_up(std::unordered_map<rref_id, record>::iterator place,
                     const std::exception_ptr& why);
  dropped take(std::unordered_map<rref_id, record>::iterator place);

  const std::shared_ptr<engine> engine_;
  const peer_table& peers_;
  mutable std::mutex mutex_;
  bool closed_ = false;
  std::unordered_map<rref_id, record> records_;
  std::unordered_map<const peer*, arrivals> arrivals_;
};

}  // namespace troupe::detail
