// How contexts end, on one node and on all.
//
// The opener ends a context with its scope and notifies the members that it has exchanged messages
// with; each of them ends it and notifies those that it knows. So the notice takes the same way as
// the calls did, and comes to every node that has the context: a member is entered into `known`
// before a message of the context is sent to it, and a participant that is closed sends none.
// Participants of an opener that is lost end by `evict`, on each node by itself. Where another
// member is lost that a participant knows, the notice may have been meant to come through that one:
// it tells the opener of itself, which knows it from then on or notifies it of the end at once.

#include "troupe/actors/node/node.hpp"
#include "troupe/actors/node/node_core.hpp"
#include "troupe/autograd/context/context_table.hpp"
#include "troupe/autograd/context/notify.hpp"

namespace troupe::autograd::detail {

namespace {

void serve_end(std::uint64_t context, const std::string& why) {
  context_table::of(*current_node()).end(context, why);
}

// The opener takes no answer: if it leaves before its notice has arrived, members end the context
// because their opener is gone. Members that pass the notice on are not watched in that way, so
// theirs is a call with an answer, which a graceful shutdown waits for.
void notify_end(node_core& here, peer& to, std::uint64_t context, const std::string& why,
                bool is_opener) noexcept {
  if (is_opener) return notify<&serve_end>(here, to, context, why);
  const troupe::detail::call_context_scope nothing(troupe::detail::apart());
  try {
    if (to.live())
      (void)node(here.shared_from_this())
          .rpc_async<&serve_end>(to.info, context, why, call_options{.exceeds_window = true});
  } catch (const std::exception& e) {
    log().debug("{} could not notify {}: {}", here.self().name, to.info.name, e.what());
  }
}

// A node that takes part, and that this node, the opener, may have heard of only through a member
// that is lost.
void serve_take_part(std::uint64_t context) {
  auto& here = *current_node();
  auto& table = context_table::of(here);
  const auto call = current_active_call();
  auto* from = here.peers().find(call.from->rank(), call.from->incarnation);
  if (!from) return;  // its rank has come back
  try {
    table.find(context)->know(*from);
  } catch (const unknown_context&) {
    notify<&serve_end>(here, *from, context, std::string("its scope has ended"));
  }
}

}  // namespace

// Out of the table, and remembered as ended.
std::shared_ptr<participant> context_table::remove(std::uint64_t context, const std::string& why) {
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

void context_table::release(participant& part, const std::string& why) {
  if (auto worker = part.end(why); worker.actor) workers_->take_back(std::move(worker));
}

void context_table::end(std::uint64_t context, const std::string& why) {
  const auto part = remove(context, why);
  if (!part) return;
  const bool is_opener = part->opener().rank() == node_.self().id;
  for (auto* member : part->close())
    if (member->rank() != node_.self().id && member != &part->opener())
      notify_end(node_, *member, context, why, is_opener);
  release(*part, why);
}

// The opener is known here too from now on, so that it is notified of passes that are over.
void context_table::tell_opener(participant& part) {
  auto& opener = part.opener();
  if (opener.rank() == node_.self().id) return;
  try {
    part.know(opener);
    notify<&serve_take_part>(node_, opener, part.id());
  } catch (const unknown_context&) {  // it has just ended
  }
}

bool context_table::has_ended(std::uint64_t context) const {
  const std::shared_lock lock(mutex_);
  return ended_.contains(context);
}

void context_table::evict(const peer& lost) {
  std::vector<std::uint64_t> orphans;
  std::vector<std::shared_ptr<participant>> others;
  {
    const std::shared_lock lock(mutex_);
    for (const auto& [id, part] : all_)
      if (&part->opener() == &lost)
        orphans.push_back(id);
      else
        others.push_back(part);
  }
  for (const auto& part : others)
    if (part->evict(lost)) tell_opener(*part);
  const auto why = "its opener " + lost.info.name + " is lost";
  for (const auto id : orphans)
    if (const auto part = remove(id, why)) release(*part, why);
}

void context_table::close() {
  decltype(all_) all;
  {
    const std::unique_lock lock(mutex_);
    closed_ = true;
    all.swap(all_);
    count_ = 0;
  }
  workers_->close();
  for (const auto& [id, part] : all) release(*part, "the node has been shut down");
}

}  // namespace troupe::autograd::detail
