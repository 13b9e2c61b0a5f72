#pragma once

#include <source_location>
#include <unordered_map>

#include "troupe/actors/rref/drops.hpp"
#include "troupe/actors/rref/owner_table.hpp"
#include "troupe/actors/rref/rref_use.hpp"
#include "troupe/actors/rref/rref_message.hpp"

namespace troupe {

class node_core;

/// An rref that somebody still has as its node ends.
struct rref_leak {
  rref_id id;
  std::string text;    ///< as the rref prints: whose it is, of what, and its own id
  std::string type;    ///< of the value
  std::string site;    ///< file and line that made the rref, or whom it came from
  std::string owner;   ///< the node that owns the value
  std::string holder;  ///< this node
};

namespace detail {

/// A node's part in the life of remote references. The rules, which the tests cite:
///
/// 1. A value lives while its owner knows a holder of it. A holder is a use of one incarnation of a
///    node, by its number; the value goes when the last is dropped.
/// 2. A holder is known before its node's program can use it: by the message that creates the value
///    (use 0), by the owner itself as it sends the reference (a grant), or by a claim.
/// 3. Who passes on a reference of somebody else's value keeps its own (a pin) until the receiver
///    says that the owner knows it, or the receiver or the owner is lost, or the message is not
///    sent.
/// 4. A reference that comes in a call or an answer is confirmed by the owner before the program
///    sees it; if the owner denies it, the call or the answer fails. One that comes to an actor is
///    confirmed later, and says so when it is denied.
/// 5. No use has another's number, so dropping one twice, or late, is harmless.
/// 6. A value is created at most once. The owner knows which of a creator's numbers have come: one
///    that has come and is not there is gone; one that has not is yet to come while its creator
///    lives and has not given it up.
/// 7. What a lost node held is dropped when the membership buries it, and what it had yet to create
///    never will be.
/// 8. A creation that fails leaves a reference that throws why wherever it is used, at its creator
///    and at all to whom it was passed on.
/// 9. Who calls a function with a reference of which only the value is wanted lends it: the lender
///    keeps its own until the call is answered, also when it waits no longer, or until the callee
///    is lost. The callee asks the owner for the value. While it does, it is a holder itself if it
///    creates a value, which others than the lender may want; the lender's end ends other calls.
/// 10. When a node ends, what it owns goes; references to that throw peer_lost.
///
/// 11. Owners are told of references that have gone in few messages when many go, and of no more at
///     once than they take up; what waits meanwhile takes next to no memory. What could not be sent
///     waits as well, and is tried again.
/// 12. A value that a node makes for itself (make_rref) is the use's own, and in no table while
///     nobody else has a reference: the owner enters it with the first grant, and it goes with the
///     last. A call that names or lends it enters it for as long as the use lives. Its number has
///     come when it is made, so that nobody can take it for one that is to come.
///
/// Notes travel between the tables in the order in which they are sent. Thread-safe.
class rref_table {
public:
  rref_table(remote_actors& actors, const node_identity& self);
  ~rref_table();

  void attach(std::weak_ptr<node_core> node) { node_ = std::move(node); }

  /// Throws not_initialized when the node is no more.
  std::shared_ptr<node_core> node() const;

  /// A reference to a value of this node's own. Throws not_initialized.
  std::shared_ptr<rref_core> own(value_cell value, const value_type& type,
                                 const std::source_location& site);

  /// A reference to a value that `owner` is about to be asked to create: its call's sink.
  std::shared_ptr<rref_core> expect(peer& owner, const value_type& type,
                                    const std::source_location& site);

  /// A creation has arrived from `creator`; see owner_table.
  value_cell create(std::uint64_t number, const value_type& type, const peer& creator);

  /// By rule 12: a call is about to name it. Throws not_initialized.
  void publish(const rref_core& one);

  /// Is that a value of this node?
  bool owns(const rref_id& id) const noexcept {
    return id.owner == identity_.rank && id.owner_incarnation == identity_.incarnation;
  }

  /// A use of somebody else's value whose owner is told of it and does not answer: it holds the
  /// value if that is still there by then.
  std::shared_ptr<rref_core> hold(peer& owner, const rref_id& id, const value_type& type);

  /// The node that owns it, or did. Throws decode_error when too many that never were are named.
  peer& owner_of(const rref_id& id) const;

  /// A value of this node by its id; see owner_table.
  value_cell find(const rref_id& id, const value_type& type);

  /// The actor of a value of this node; see owner_table.
  caf::strong_actor_ptr actor(const rref_id& id,
                              const std::function<caf::strong_actor_ptr()>& make) {
    return owned_.actor(id, make);
  }

  /// Writes a reference for `to`. Throws why it cannot be used.
  written_reference write(encoder& out, const std::shared_ptr<rref_core>& reference, peer& to);

  /// Keeps a reference for a call. Throws like `write`.
  written_reference lend(const std::shared_ptr<rref_core>& reference);
  void take_back(const written_reference& written, const peer& to) noexcept;

  /// Reads a reference that `from` has sent. Until it is ready it must not be used. Throws
  /// decode_error.
  std::shared_ptr<rref_core> read(decoder& in, peer& from, std::uint64_t type,
                                  std::string_view type_name);

  /// A note of another table.
  void deliver(decoder& in, peer& from);

  /// `whom` is gone.
  void evict(const peer& whom);

  /// The node ends.
  void close(const fault& why);

  struct census {
    std::size_t owned = 0;  ///< values of this node that others may ask for
    std::size_t used = 0;   ///< references here
    std::size_t forks = 0;  ///< references on their way to others
    std::size_t drops = 0;  ///< what owners have yet to be told, in entries of few bytes
  };
  census count() const;

  /// Does no reference that has come wait for its owner?
  bool settled() const;

  /// The references here.
  std::vector<rref_leak> list() const;

private:
  friend class rref_core;

  using note = rref_message;
  struct pinned {
    std::shared_ptr<rref_core> what;
    const peer* receiver;
  };
  struct claimed {
    std::shared_ptr<rref_core> what{};
    peer* parent = nullptr;
    std::uint64_t pin = 0;
  };

  void check_sendable(const rref_core& reference) const;
  void grant(const rref_core& one, const peer& to, std::uint64_t use);
  bool send(peer& to, message_builder& text) noexcept;
  template <class... Ts>
  void tell(peer& to, const Ts&... xs) noexcept;
  std::shared_ptr<rref_core> make(peer& owner, const rref_id& id, const value_type& type,
                                  rref_core::origin how, std::uint64_t use,
                                  const std::source_location& site);
  void enter(rref_core& one);
  void leave(rref_core& one) noexcept;
  void dropped(rref_core& one) noexcept;
  void failed(const rref_core& one, const fault& why) noexcept;
  void claim(const std::shared_ptr<rref_core>& what, peer& parent, std::uint64_t pin);
  void settle(claimed&& one, std::exception_ptr denied);
  claimed take_claim(std::uint64_t use, const peer& owner);
  std::uint64_t next_use();
  void unpin(std::uint64_t pin, const peer& receiver);
  void let_go(owner_table::dropped&& what) noexcept;
  peer& self() const;

  remote_actors& actors_;
  const node_identity identity_;
  std::weak_ptr<node_core> node_;
  owner_table owned_;
  drops drops_;

  mutable std::mutex mutex_;
  bool closed_ = false;
  rref_core* first_ = nullptr;
  std::size_t used_ = 0;
  std::uint64_t last_use_ = 0;
  std::uint64_t last_grant_ = 0;
  std::uint64_t last_pin_ = 0;
  std::unordered_map<const peer*, std::uint64_t> last_number_;  // by owner
  std::unordered_map<std::uint64_t, pinned> pins_;
  std::unordered_map<std::uint64_t, claimed> claims_;  // by use
};

}  // namespace detail

}  // namespace troupe
