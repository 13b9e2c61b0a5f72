#include "troupe/actors/node/message_router.hpp"

#include <utility>

#include "troupe/actors/messaging/window_credit.hpp"
#include "troupe/actors/remote/remote_actors.hpp"
#include "troupe/actors/rpc/rpc_agent.hpp"
#include "troupe/messages/base/log.hpp"
#include "troupe/messages/codec/decoder.hpp"

namespace troupe {

message_router::message_router(const node_identity& self, std::uint32_t joined, peer_table& peers,
                               engine& driver, std::shared_ptr<remote_actors> actors,
                               rpc_agent& calls)
    : self_(self),
      joined_(joined),
      peers_(peers),
      engine_(driver),
      actors_(std::move(actors)),
      calls_(calls),
      epoch_(joined) {}

void message_router::add(control_channel channel, handler take) {
  channels_.at(channel) = std::move(take);
}

void message_router::add_body(control_channel channel,
                              std::function<void(decoder& in, peer& from)> take) {
  add(channel, [take = std::move(take)](opened_envelope& message, peer& from, engine_unit&) {
    decoder in(message.body(), nullptr, nullptr);
    take(in, from);
  });
}

void message_router::add_unchecked(control_channel channel, unchecked_handler take) {
  unchecked_.at(channel) = std::move(take);
}

void message_router::dispatch(transport::incoming_message&& message, engine_unit& unit) {
  const bool only_a_look = message.from == self_.rank && message.envelope.empty();
  if (early_.empty()) {
    if (!only_a_look) route(std::move(message), epoch_.load(), unit, true);
    return;
  }
  // What has come too early is first in line. None of it runs here, since the network could go to
  // another thread meanwhile.
  if (!only_a_look) early_.push_back(std::move(message));
  // All by one epoch: if it changed in between, later messages of a sender would pass earlier ones,
  // which have been put back.
  const auto epoch = epoch_.load();
  auto waiting = std::exchange(early_, {});
  for (auto& one : waiting) route(std::move(one), epoch, unit, false);
}

void message_router::set_epoch(std::uint32_t epoch) {
  epoch_ = epoch;
  // An empty message to itself has the leading thread look.
  transport::incoming_message look;
  look.from = self_.rank;
  engine_.deliver_locally(std::move(look));
}

namespace {

// Counts a message of a peer as taken in when this goes.
class taken_in_at_end {
public:
  explicit taken_in_at_end(peer* from) noexcept : from_(from) {}
  ~taken_in_at_end() {
    // Pairs with the look of `come_to_rest`: what this message has had counted as sent is seen
    // there too. Nothing needs the acquire half.
    if (from_) from_->counted_received.fetch_add(1, std::memory_order_acq_rel);
  }
  taken_in_at_end(const taken_in_at_end&) = delete;
  taken_in_at_end& operator=(const taken_in_at_end&) = delete;

private:
  peer* const from_;
};

}  // namespace

void message_router::route(transport::incoming_message&& message, std::uint32_t epoch,
                           engine_unit& unit, bool may_run_inline) {
  const auto rank = message.from;
  std::size_t size = message.envelope.size();
  for (const auto& payload : message.payloads) size += payload.size;
  bool opens = false;
  try {
    opened_envelope opened(std::move(message.envelope), std::move(message.payloads));
    opens = true;
    route_opened(opened, rank, size, epoch, unit, may_run_inline);
  } catch (...) {
    // Its sender has counted it, and a shutdown would wait for it for ever. It is taken for a
    // program's message: the runtimes' own are too plain to be damaged.
    if (auto* from = peers_.find(rank); from && !opens) from->counted_received.fetch_add(1);
    log().warn("{}: dropped a message from rank {}: {}", calls_.self().name, rank,
               describe(std::current_exception(), {}, {}).text);
  }
}

// Hot path, at the callee.
void message_router::route_opened(opened_envelope& message, transport::rank_t rank,
                                  std::size_t size, std::uint32_t epoch, engine_unit& unit,
                                  bool may_run_inline) {
  const auto& header = message.header();
  if (header.job != self_.job) throw decode_error("a message of another job");
  const bool control = header.kind == envelope_kind::control;
  if (control && header.target < unchecked_.size() && unchecked_[header.target])
    return unchecked_[header.target](message, rank);
  if (header.epoch > epoch) {
    // No member is further ahead: a step needs all to be ready, and a member that is has applied
    // the step before.
    if (header.epoch > epoch + 1) throw decode_error("a message of an epoch far ahead");
    // Its sender knows of a change that this node is about to apply.
    auto [envelope, payloads] = message.give_back();
    early_.push_back({rank, std::move(envelope), std::move(payloads)});
    return;
  }
  auto* from = peers_.find(rank, header.incarnation);
  if (!from || !from->live()) throw decode_error("a message of a node that is not in the job");
  // A message for an earlier incarnation of this rank counts as sent to that one.
  const bool counts = counts_at_shutdown(header) && header.epoch >= joined_;
  if (counts && !control) from->counted_received.fetch_add(1, std::memory_order_acq_rel);
  if (header.epoch < joined_) return turn_away(message, *from);
  if (control) {
    // Counted last: by then, what this node sends because of it has been counted as sent.
    const taken_in_at_end done(counts ? from : nullptr);
    return give_to_channel(message, *from, unit);
  }
  if (header.kind == envelope_kind::call)
    return calls_.receive_call(message, *from, size, unit, may_run_inline);
  window_credit taken;
  if (header.kind == envelope_kind::actor_message)
    taken = window_credit({actors_, actors_->flow().get()}, *from, size);
  actors_->deliver(message, *from, std::move(taken), &unit);
}

void message_router::give_to_channel(opened_envelope& message, peer& from, engine_unit& unit) {
  const auto channel = message.header().target;
  if (channel >= channels_.size() || !channels_[channel])
    throw decode_error("a control message of unknown kind");
  channels_[channel](message, from, unit);
}

// It was sent before the sender knew of this node: to its earlier incarnation.
void message_router::turn_away(const opened_envelope& message, peer& from) noexcept {
  const auto& header = message.header();
  if (header.request == 0) return;
  fault why;
  why.code = errc::peer_lost;
  why.node = calls_.self().name;
  why.text = "it was meant for an earlier incarnation of " + why.node;
  actors_->out().send_fault(from, header.sender, header.request, why);
}

}  // namespace troupe
