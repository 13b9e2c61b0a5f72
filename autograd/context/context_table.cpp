#include "troupe/autograd/context/context_table.hpp"

#include "troupe/autograd/context.hpp"

#include "troupe/autograd/pass/pass_steps.hpp"

namespace troupe::autograd::detail {

namespace {

[[noreturn]] void throw_unknown(std::uint64_t context, const std::string& why) {
  throw unknown_context("Could not find autograd context with id: " + std::to_string(context) +
                        ": " + why);
}

// Answers belong to what has been asked: they begin no context.
bool asks(const envelope_header& header) {
  return header.kind == envelope_kind::call || header.kind == envelope_kind::actor_message;
}

std::unique_ptr<troupe::detail::context_interceptor> make_table(node_core& node) {
  return std::make_unique<context_table>(node);
}

}  // namespace

const bool provided = troupe::detail::provide_interceptor(&make_table);

context_table::context_table(node_core& node)
    : node_(node),
      workers_(node),
      last_context_(node.random() & (low_bits >> 1)),
      last_number_(node.random() & (low_bits >> 1)) {}

context_table& context_table::of(node_core& node) {
  return static_cast<context_table&>(*node.actors().records());
}

std::uint64_t context_table::prefix() const noexcept {
  return std::uint64_t{node_.actors().out().self().rank} << rank_shift;
}

std::shared_ptr<participant> context_table::open() {
  forked::check();
  const auto id = prefix() | (++last_context_ & low_bits);
  auto& self = *node_.actors().peers().find(node_.actors().out().self().rank);
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
  throw_unknown(context, node_.self().name + " has never heard of it");
}

std::shared_ptr<participant> context_table::look_up(std::uint64_t context) const {
  const std::shared_lock lock(mutex_);
  const auto place = all_.find(context);
  return place == all_.end() ? nullptr : place->second;
}

// Out of the table, and remembered.
std::shared_ptr<participant> context_table::take(std::uint64_t context, const std::string& why) {
  const std::unique_lock lock(mutex_);
  if (ended_.emplace(context, why).second) {
    order_of_ends_.push_back(context);
    if (order_of_ends_.size() > most_remembered) {
      ended_.erase(order_of_ends_.front());
      order_of_ends_.pop_front();
    }
  }
  auto place = all_.extract(context);
  count_ = all_.size();
  return place ? std::move(place.mapped()) : nullptr;
}

void context_table::end(std::uint64_t context, const std::string& why) {
  const auto part = take(context, why);
  if (!part) return;
  for (auto* whom : part->close())
    if (whom->rank() != node_.self().id && whom != &part->opener())
      tell_end(node_, *whom, context, why, part->opener().rank() == node_.self().id);
  end(*part, why);
}

void context_table::end(participant& part, const std::string& why) {
  if (auto worker = part.end(why); worker.actor) workers_.take_back(std::move(worker));
}

pass_actor context_table::actor_of(const std::shared_ptr<participant>& part) {
  auto found = part->actor([&] { return workers_.take(part); });
  if (!found) throw_ended(part->id());
  return found;
}

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
    } else if (asks(header) && !closed_ && !ended_.contains(where.context)) {
      const auto rank = static_cast<transport::rank_t>(where.context >> rank_shift);
      auto* opener = node_.actors().peers().find(rank);
      if (!opener || !opener->live())
        throw_unknown(where.context, "its opener, rank " + std::to_string(rank) + ", is lost");
      part = all_.emplace(where.context, std::make_shared<participant>(where.context, *opener))
                 .first->second;
      count_ = all_.size();
    }
  }
  if (!part) part = find(where.context);  // which throws
  part->know(from);
  if (received.empty()) return;
  const std::shared_ptr<receive_node> node(
      new receive_node(from.info, where.context, where.number, header.uses_reply_route, part->scope()),
      torch::autograd::deleteNode);
  receive_node::own(node, received);
  part->add_receive(node);
}

void context_table::evict(const peer& whom) {
  std::vector<std::uint64_t> orphans;
  std::vector<std::shared_ptr<participant>> others;
  {
    const std::shared_lock lock(mutex_);
    for (const auto& [id, part] : all_)
      if (&part->opener() == &whom)
        orphans.push_back(id);
      else
        others.push_back(part);
  }
  for (const auto& part : others) part->evict(whom);
  const auto why = "its opener " + whom.info.name + " is lost";
  for (const auto id : orphans)
    if (const auto part = take(id, why)) end(*part, why);
}

void context_table::close() {
  decltype(all_) all;
  {
    const std::unique_lock lock(mutex_);
    closed_ = true;
    all.swap(all_);
    count_ = 0;
  }
  workers_.close();
  for (const auto& [id, part] : all) end(*part, "the node has been shut down");
}

context_table::census context_table::count() const {
  const std::shared_lock lock(mutex_);
  return {all_.size(), passes_};
}

}  // namespace troupe::autograd::detail
