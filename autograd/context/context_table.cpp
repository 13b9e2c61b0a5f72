#include "troupe/autograd/context/context_table.hpp"

#include "troupe/actors/node/node.hpp"
#include "troupe/actors/node/node_core.hpp"
#include "troupe/actors/remote/remote_actors.hpp"
#include "troupe/autograd/context/send_recv_nodes.hpp"
#include "troupe/messages/base/forked.hpp"
#include "troupe/messages/envelope/envelope_header.hpp"

namespace troupe::autograd::detail {

namespace {

[[noreturn]] void throw_unknown(std::uint64_t context, const std::string& why) {
  throw unknown_context("Could not find autograd context with id: " + std::to_string(context) +
                        ": " + why);
}

// Only these bring a context to a node. An answer belongs to a request, so it cannot.
bool is_request(const envelope_header& header) {
  return header.kind == envelope_kind::call || header.kind == envelope_kind::actor_message;
}

}  // namespace

context_table::context_table(node_core& node, std::unique_ptr<pass_workers> workers)
    : node_(node),
      workers_(std::move(workers)),
      last_context_(node.agent().random() & (low_bits >> 1)),
      last_number_(node.agent().random() & (low_bits >> 1)) {}

context_table& context_table::of(node_core& node) {
  return static_cast<context_table&>(*node.actors().records());
}

std::uint64_t context_table::prefix() const noexcept {
  return std::uint64_t{node_.self().id} << rank_shift;
}

std::shared_ptr<participant> context_table::open() {
  node_.check_open();
  const auto id = prefix() | (++last_context_ & low_bits);
  auto& self = *node_.peers().find(node_.self().id);
  auto made = std::make_shared<participant>(id, self);
  const std::unique_lock lock(mutex_);
  if (closed_) throw not_initialized("the node has been shut down");
  all_.emplace(id, made);
  count_ = all_.size();
  return made;
}

std::shared_ptr<participant> context_table::find(std::uint64_t context) const {
  forked::check();
  const std::shared_lock lock(mutex_);
  if (const auto place = all_.find(context); place != all_.end()) return place->second;
  if (const auto place = ended_.find(context); place != ended_.end())
    throw_unknown(context, place->second);
  throw_unknown(context, node_.self().name + " does not know it");
}

std::shared_ptr<participant> context_table::look_up(std::uint64_t context) const {
  const std::shared_lock lock(mutex_);
  const auto place = all_.find(context);
  return place == all_.end() ? nullptr : place->second;
}

caf::strong_actor_ptr context_table::worker_of(const std::shared_ptr<participant>& part) {
  auto found = part->worker([&] { return workers_->take(part); });
  if (!found) throw_ended(part->id());
  return found;
}

// ---- Messages. The hot path of every call in a context.

troupe::detail::message_tag context_table::begin(std::uint64_t context, peer& to) {
  find(context)->know(to);
  return {context, next_number()};
}

void context_table::record(const troupe::detail::message_tag& where, peer& to,
                           std::vector<at::Tensor>&& sent) {
  find(where.context)->add_send(where.number, to, sent);
}

void context_table::forget(const troupe::detail::message_tag& where) noexcept {
  try {
    find(where.context)->remove_send(where.number);
  } catch (const unknown_context&) {  // it has gone with the context
  }
}

void context_table::receive(const troupe::detail::message_tag& where, peer& from,
                            const envelope_header& header,
                            const std::vector<at::Tensor>& received) {
  std::shared_ptr<participant> part;
  {
    const std::unique_lock lock(mutex_);
    if (const auto place = all_.find(where.context); place != all_.end()) {
      part = place->second;
    } else if (is_request(header) && !closed_ && !ended_.contains(where.context)) {
      // The opener must be live when the participant is made, under the same lock that `evict`
      // takes after the opener's state has changed: otherwise this context would never end.
      const auto rank = static_cast<transport::rank_t>(where.context >> rank_shift);
      auto* opener = node_.peers().find(rank);
      if (!opener || !opener->live())
        throw_unknown(where.context, "its opener, rank " + std::to_string(rank) + ", is lost");
      part = all_.emplace(where.context, std::make_shared<participant>(where.context, *opener))
                 .first->second;
      count_ = all_.size();
    }
  }
  if (!part) part = find(where.context);  // which throws
  part->know(from);
  // `evict` may have come for it before this message: it has then not seen it in the participant.
  if (!from.live() && &from != &part->opener()) tell_opener(*part);
  if (received.empty()) return;
  const std::shared_ptr<recv_rpc_backward> node(
      new recv_rpc_backward(from.info, where.context, where.number, header.uses_reply_route,
                            part->scope()),
      torch::autograd::deleteNode);
  recv_rpc_backward::own(node, received);
  part->add_receive(node);
}

context_table::census context_table::count() const {
  const std::shared_lock lock(mutex_);
  return {all_.size(), passes_};
}

}  // namespace troupe::autograd::detail
