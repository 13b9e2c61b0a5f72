#pragma once

#include <caf/actor_control_block.hpp>
#include <memory>
#include <string>
#include <vector>

#include "troupe/actors/messaging/rref_id.hpp"
#include "troupe/messages/codec/handle_translator.hpp"

namespace troupe {

class engine;
class peer;

namespace detail {
class future_core;
class reference_protocol;
}  // namespace detail

/// What a handle that was written has given away.
struct written_handle {
  caf::actor_id granted = 0;
  std::uint64_t pin = 0;
};

/// A node whose handles and references cross in messages: `remote_actors`.
class handle_owner {
public:
  virtual void write_handle(encoder& out, const caf::strong_actor_ptr& handle, peer& to,
                            std::vector<written_handle>& written) = 0;
  virtual void take_back(const std::vector<written_handle>& written, peer& from) noexcept = 0;
  virtual caf::strong_actor_ptr read_handle(decoder& in, peer& from) = 0;
  virtual detail::reference_protocol& references() const noexcept = 0;
  virtual const std::shared_ptr<engine>& driver() const noexcept = 0;
  virtual const std::string& own_name() const = 0;

protected:
  ~handle_owner() = default;
};

/// The handles and references of one message between this node and `other`. What written ones give
/// to the other node is taken back, unless the message is `sent`.
class handle_scope final : public handle_translator {
public:
  using claims = std::vector<std::shared_ptr<detail::future_core>>;

  handle_scope(handle_owner& owner, peer& other) : owner_(owner), peer_(other) {}
  ~handle_scope() {
    if (holds_any()) take_back();
  }
  handle_scope(const handle_scope&) = delete;
  handle_scope& operator=(const handle_scope&) = delete;

  void write(encoder& out, const caf::strong_actor_ptr& handle) override {
    owner_.write_handle(out, handle, peer_, written_);
  }
  node_names nodes() const override;
  caf::strong_actor_ptr read(decoder& in) override { return owner_.read_handle(in, peer_); }
  void write_reference(encoder& out, const std::shared_ptr<detail::rref_use>& one) override;
  std::shared_ptr<detail::rref_use> read_reference(decoder& in, std::uint64_t type,
                                                   std::string_view type_name) override;

  /// For a call that wants only the value of a reference: it is kept here until the call has been
  /// answered. Throws invalid_argument, encode_error, and what has become of the reference.
  rref_id lend(const std::shared_ptr<detail::rref_use>& one);

  /// The message is on its way.
  void sent() noexcept {
    written_.clear();
    references_.clear();
  }

  /// What has been written is `other`'s to take back, from now on.
  void give_to(handle_scope& other) noexcept {
    other.written_.swap(written_);
    other.references_.swap(references_);
  }

  /// What has been read may be used when these are ready: references that their owners have yet to
  /// confirm.
  claims take_claims() noexcept { return std::move(claims_); }

  /// Has anything been written that has not been sent?
  bool holds_any() const noexcept { return !written_.empty() || !references_.empty(); }

  /// Those that have been written, until they are sent.
  const std::vector<detail::written_reference>& references() const noexcept { return references_; }

  /// The other node.
  peer& other() const noexcept { return peer_; }
  handle_owner& owner() const noexcept { return owner_; }

private:
  void take_back() noexcept;

  handle_owner& owner_;
  peer& peer_;
  std::vector<written_handle> written_;
  std::vector<detail::written_reference> references_;
  claims claims_;
};

}  // namespace troupe
