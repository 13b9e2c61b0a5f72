#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "troupe/transport/delivery/rank_table.hpp"
#include "troupe/transport/lending/lending_address.hpp"
#include "troupe/transport/lending/lending_note.hpp"
#include "troupe/transport/lending/lending_options.hpp"
#include "troupe/transport/lending/lending_peer.hpp"
#include "troupe/transport/lending/lent_payloads.hpp"
#include "troupe/transport/lending/orphaned_loans.hpp"
#include "troupe/transport/regions/descriptor_channel.hpp"

namespace troupe::transport::lending {

/// The transport: see lending_transport.hpp. It is the sink of the one below.
class backend final : public transport, private sink {
public:
  backend(lending_options options,
          const std::function<std::unique_ptr<transport>(sink&, payload_pool&)>& make_inner,
          sink& to, payload_pool& pool);

  ~backend() override;

  std::vector<std::byte> address() const override;

  void add_peer(rank_t rank, std::span<const std::byte> bytes) override;

  bool send(rank_t rank, std::uint64_t order, frame&& envelope,
            std::vector<outgoing_payload>&& payloads) override;

  unsigned progress() override;

  int event_fd() const override { return inner_->event_fd(); }

  bool arm() override;

  void wake() override { inner_->wake(); }
  bool idle() const override { return inner_->idle(); }
  bool delivered() const override { return inner_->delivered(); }
  bool holds_leases() const override;

  void close_peer(rank_t rank, bool force) override;

  std::vector<route> routes() const override;
  std::vector<tensor_way> ways_to(rank_t rank) const override;
  bool would_lend(rank_t rank, const std::byte* data, std::size_t size,
                  std::size_t beside) const override;

  tensor_way device_way(rank_t rank, const memory_place& here,
                        const memory_place& there) const override;
  bool leases(rank_t rank, const memory_place& here, const memory_place& there,
              const std::string& problem) const override;

  counters count() const override;

private:
  struct slot {
    explicit slot(rank_t r) : rank(r) {}
    const rank_t rank;
    std::atomic<peer*> now{nullptr};
    std::atomic<unsigned> senders{0};  // that use `now`
  };

  // A peer that does not change while a message to it is written: its note is for this connection.
  class sending {
  public:
    explicit sending(slot* place) : place_(place) {
      if (!place_) return;
      // Sequentially consistent, as `add_peer` is: either it sees this sender, or this one sees
      // what it has set.
      place_->senders.fetch_add(1);
      peer_ = place_->now.load();
    }
    ~sending() {
      if (place_) place_->senders.fetch_sub(1, std::memory_order_release);
    }
    sending(const sending&) = delete;
    sending& operator=(const sending&) = delete;
    peer* now() const noexcept { return peer_; }

  private:
    slot* const place_;
    peer* peer_ = nullptr;
  };
  using slot_table = rank_table<slot>;

  peer* find(rank_t rank) const noexcept {
    auto* const place = peers_.find(rank);
    return place ? place->now.load(std::memory_order_acquire) : nullptr;
  }

  // On any thread: a loan has ended, some peer is to be told a word, or a question can be answered.
  void something_to_tell() {
    waiting_.store(true, std::memory_order_seq_cst);
    if (armed_.load(std::memory_order_seq_cst)) inner_->wake();
  }

  // The connection has ended; what is lent stays until it is certain that nobody reads it. False:
  // it was over already.
  bool part(peer& p, bool process_has_ended);
  void orphan(peer& p, bool process_has_ended);
  bool is_here(const peer& p) const noexcept;
  std::string why_not_leased(const peer& to, const memory_place& here,
                             const memory_place& there) const;
  bool must_lease(const peer& to) const noexcept;
  void opens_none(peer& from);
  void keep_for_what_is_on_its_way(peer& p);
  void passed_in_all(peer& by, const node_number& owner, std::uint64_t count);
  void let_go_of_late_regions();

  // See passed_on.hpp. All but the first, and the last two, on the progressing thread.
  std::optional<borrowed_place> place_of(const std::byte* data, std::size_t size,
                                         const peer& but) const;
  unique_fd descriptor_for_writers() const;
  void map_region_of(peer& p, const region_address& where);
  std::shared_ptr<const mapped_region> region_of(const node_number& owner);
  void reads_here(peer& by);
  void reader_is_known(peer& by);
  void asked(peer& by, const node_number& middle);
  void answer_the_asked();

  void on_message(incoming_message&& message) override;
  void on_peer_lost(rank_t rank, peer_loss why) override;
  void take(peer& from, incoming_message& message);
  bool tell(peer& to);
  bool tell_alone();
  void end_broken();

  lending_options options_;
  sink& to_;
  const process_identity process_;
  node_number node_;
  std::string why_not_here_;
  std::unique_ptr<descriptor_server> server_;
  // Guards adding peers, and reading all.
  mutable std::mutex mutex_;
  slot_table peers_;
  std::vector<std::shared_ptr<peer>> connections_;  // those that have ended too

  orphaned_loans orphans_;

  // Asked by a peer of a node: to be answered. Guarded by `mutex_`.
  struct question {
    std::shared_ptr<peer> by;
    node_number middle{};
  };
  std::vector<question> questions_;
  std::set<node_number> over_;  // of which others were told that they pass nothing on any more

  // Of owners whose connection is over, until all that others have passed on of it has come.
  // Guarded by `mutex_`.
  struct late_region {
    struct sender {
      std::shared_ptr<peer> from;
      std::optional<std::uint64_t> passes;  // in all
    };
    node_number owner{};
    std::shared_ptr<const mapped_region> region;
    std::vector<sender> senders;
  };
  std::vector<late_region> late_regions_;
  std::atomic<bool> any_late_{false};

  std::atomic<bool> waiting_{false};  // some peer is to be told something
  std::atomic<bool> armed_{false};    // the progressing thread sleeps, or is about to

  // Used by the progressing thread only.
  unsigned polls_ = 0;
  note note_;
  bool any_broken_ = false;

  // Last: it ends first.
  std::unique_ptr<transport> inner_;
};

}  // namespace troupe::transport::lending
