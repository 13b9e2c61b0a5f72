#pragma once

#include <caf/actor_control_block.hpp>
#include <functional>
#include <mutex>
#include <source_location>
#include <unordered_map>

#include "troupe/actors/messaging/node_identity.hpp"
#include "troupe/actors/remote/reference_protocol.hpp"
#include "troupe/actors/rref/rref_leak.hpp"
#include "troupe/actors/rref/rref_use.hpp"

namespace troupe {

class message_builder;

namespace detail {

class drops;
class owner_table;
struct dropped_value;

/// How much there is in a rref_table.
struct rref_counts {
  std::size_t owned = 0;  ///< values of this node that others may ask for
  std::size_t used = 0;   ///< references here
  std::size_t forks = 0;  ///< references on their way to others
  std::size_t drops = 0;  ///< ended uses that owners have yet to be notified of, in entries
};

/// A node's part in the lifetime of remote references. The protocol is distributed reference
/// counting, like that of torch's RRefs ("Remote Reference Protocol" in PyTorch's design notes),
/// with uses that have numbers instead of counts. The rules, which the tests cite:
///
/// 1. A value lives while its owner knows a holder of it. A holder is a use of one incarnation of a
///    node, by its number; the value is destroyed when the last is dropped.
/// 2. A holder is known before its node's program can use it: by the message that creates the value
///    (use 0), by the owner itself as it sends the reference (a grant), or by a claim (torch's
///    RRefForkRequest, with which the owner confirms a fork).
/// 3. A node that passes on a reference to another node's value keeps its own (a pin) until the
///    receiver reports that the owner knows it, or the receiver or the owner is lost, or the
///    message is not sent.
/// 4. A reference that comes in a call or an answer is confirmed by the owner before the program
///    sees it; if the owner denies it, the call or the answer fails. One that comes to an actor is
///    confirmed later, and throws when it is used after the owner has denied it.
/// 5. No two uses have the same number, so dropping one twice, or late, is harmless.
/// 6. A value is created at most once. The owner knows which of a creator's numbers have arrived:
///    one that has arrived and is not there is gone; one that has not is yet to come while its
///    creator lives and has not given it up.
/// 7. What a lost node held is dropped when the membership evicts it; what it had yet to create is
///    never created.
/// 8. A creation that fails leaves a reference that throws the reason wherever it is used, at its
///    creator and on all nodes to which it was passed on.
/// 9. A caller that gives a reference where the function wants its value lends it: the caller keeps
///    its own until the call is answered, also when it waits no longer, or until the callee is
///    lost. The callee asks the owner for the value. If the call creates a value, which others than
///    the caller may want, the callee is a holder itself meanwhile; any other call ends with its
///    caller.
/// 10. When a node ends, the values that it owns are destroyed; references to them throw peer_lost.
/// 11. Owners are notified of dropped references in few messages when many are dropped, and with no
///     more messages under way than they acknowledge; what waits meanwhile takes little memory.
///     What could not be sent waits as well, and is tried again.
/// 12. A value that a node makes for itself (make_rref) belongs to the use, and is in no table
///     while no other node has a reference: the owner enters it with the first grant, and it is
///     removed with the last. A call that names or lends it enters it for as long as the use lives.
///     Its number has arrived when it is made, so that it cannot be taken for one that is to come.
///
/// Messages between two tables arrive in the order in which they are sent. Thread-safe.
class rref_table final : public reference_protocol, private rref_registry {
public:
  rref_table(remote_actors& actors, const node_identity& self);
  ~rref_table() override;

  /// From now on `agent` returns this one. Before the node is open.
  void attach(std::weak_ptr<rpc_agent> agent) { agent_ = std::move(agent); }

  /// The calls of the node that has these references. Throws not_initialized when it has ended.
  std::shared_ptr<rpc_agent> agent() const override;

  /// The name of that node; also when it has ended.
  const std::string& own_name() const noexcept override;

  /// A reference to a value of this node's own. Throws not_initialized.
  std::shared_ptr<rref_use> own(value_cell value, const value_type& type,
                                const std::source_location& site);

  /// A reference to a value that `owner` is about to be asked to create: the sink of that call.
  std::shared_ptr<rref_use> expect(peer& owner, const value_type& type,
                                   const std::source_location& site);

  /// A creation has arrived from `creator`; see owner_table.
  value_cell create(std::uint64_t number, const value_type& type, const peer& creator);

  /// Is it a value of this node?
  bool owns(const rref_id& id) const noexcept {
    return id.owner == identity_.rank && id.owner_incarnation == identity_.incarnation;
  }

  /// A use of another node's value, of which the owner is notified without an answer: it holds the
  /// value if that still exists by then.
  std::shared_ptr<rref_use> hold(peer& owner, const rref_id& id, const value_type& type);

  /// The node that owns it, or did. Throws decode_error when too many that never were are named.
  peer& owner_of(const rref_id& id) const;

  /// The state of a value of this node; see owner_table.
  value_cell find(const rref_id& id, const value_type& type) override;

  /// The actor of a value of this node; see owner_table.
  caf::strong_actor_ptr actor(const rref_id& id,
                              const std::function<caf::strong_actor_ptr()>& make);

  // reference_protocol
  written_reference write(encoder& out, const std::shared_ptr<rref_use>& reference,
                          peer& to) override;
  written_reference lend(const std::shared_ptr<rref_use>& reference) override;
  rref_id id_of(const rref_use& one) const noexcept override { return one.id(); }
  void take_back(const written_reference& written, const peer& to) noexcept override;
  std::shared_ptr<rref_use> read(decoder& in, peer& from, std::uint64_t type,
                                 std::string_view type_name, claims& unconfirmed) override;
  void deliver(decoder& in, peer& from) override;
  void evict(const peer& whom) override;
  void close(const fault& why) override;
  bool settled() const override;

  rref_counts count() const;

  /// The references here.
  std::vector<rref_leak> list() const;

private:
  friend class rref_use;

  struct pinned {
    std::shared_ptr<rref_use> what;
    const peer* receiver;
  };
  struct claimed {
    std::shared_ptr<rref_use> what{};
    peer* parent = nullptr;
    std::uint64_t pin = 0;
  };

  // rref_registry
  void publish(const rref_use& one) override;
  void release(rref_use& one) noexcept override;
  void creation_failed(const rref_use& one, const fault& why) noexcept override;

  void check_sendable(const rref_use& reference) const;
  void grant(const rref_use& one, const peer& to, std::uint64_t use);
  bool send(peer& to, message_builder& message) noexcept;
  std::shared_ptr<rref_use> make(peer& owner, const rref_id& id, const value_type& type,
                                 rref_use::origin how, std::uint64_t use,
                                 const std::source_location& site);
  void enter(rref_use& one) noexcept;
  void leave(rref_use& one) noexcept;
  void claim(const std::shared_ptr<rref_use>& what, peer& parent, std::uint64_t pin);
  void settle(claimed&& one, std::exception_ptr denied);
  claimed take_claim(std::uint64_t use, const peer& owner);
  std::uint64_t next_use();
  void unpin(std::uint64_t pin, const peer& receiver);
  void destroy(dropped_value&& what) noexcept;
  peer& self() const;

  remote_actors& actors_;
  const node_identity identity_;
  std::weak_ptr<rpc_agent> agent_;
  const std::unique_ptr<owner_table> owned_;
  const std::unique_ptr<drops> drops_;

  // The first in the order of locks that `rref_use::local` names. Nothing is sent under it.
  mutable std::mutex mutex_;
  bool closed_ = false;
  rref_use* first_ = nullptr;
  std::size_t used_ = 0;
  std::uint64_t last_use_ = 0;
  std::uint64_t last_grant_ = 0;
  std::uint64_t last_pin_ = 0;
  std::unordered_map<const peer*, std::uint64_t> last_number_;  // by owner
  std::unordered_map<std::uint64_t, pinned> pins_;
  std::unordered_map<std::uint64_t, claimed> claims_;  // by use
};

inline rref_table& rref_use::table() const noexcept { return static_cast<rref_table&>(*registry_); }

/// The table of a node, which its remote_actors hold.
inline rref_table& table_of(const handle_owner& owner) noexcept {
  return static_cast<rref_table&>(owner.references());
}

/// The table of the node that reads a message.
inline rref_table& table_of(const handle_scope& handles) noexcept {
  return table_of(handles.owner());
}

}  // namespace detail

}  // namespace troupe
