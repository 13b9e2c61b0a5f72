#include "troupe/actors/rpc/reply.hpp"

#include "troupe/actors/future/future.hpp"
#include "troupe/actors/messaging/call_control.hpp"
#include "troupe/actors/profiling/call_profile.hpp"
#include "troupe/actors/remote/outgoing_message.hpp"
#include "troupe/actors/remote/remote_actors.hpp"
#include "troupe/actors/rpc/call_server.hpp"
#include "troupe/messages/base/log.hpp"

namespace troupe {

// In a forked process the answer is the parent's to give. The handler's end is that of the process.
reply_token::~reply_token() {
  if (forked::from_nodes()) return;
  if (owner_) fail(std::make_exception_ptr(remote_error("the call was dropped without an answer")));
}

// Unless nobody wants it, or the node has been shut down: then the caller's loss of the node ends
// it.
void reply_token::send(remote_actors& owner, detail::outgoing_message& message) {
  if (request_ == 0) return;
  gate::pass pass(owner.entrance());
  if (!pass) return;
  envelope_header header;
  header.kind = envelope_kind::response;
  header.target = request_;
  message.finish(header);
  message.send(order_, header);
}

void reply_token::value(function_ref<void(encoder&)> write) noexcept {
  auto owner = std::exchange(owner_, nullptr);
  if (!owner) return;
  if (forked::from_nodes()) end_forked(nullptr);
  if (later_) owner->active.remove({to_, request_});
  if (profile_) send_profile(*owner->actors);
  try {
    detail::outgoing_message message(owner->actors->as_sender(), *to_, context_, records_);
    write(message.body());
    send(*owner->actors, message);
  } catch (...) {
    send_failure(*owner->actors, std::current_exception());
  }
}

fault reply_token::described(std::exception_ptr why) const {
  return describe(std::move(why), owner_ ? owner_->actors->own_name() : "", std::string(function_));
}

void reply_token::fail(std::exception_ptr why) noexcept {
  auto owner = std::exchange(owner_, nullptr);
  if (!owner) return;
  if (forked::from_nodes()) end_forked(why);
  if (later_) owner->active.remove({to_, request_});
  send_failure(*owner->actors, std::move(why));
}

void reply_token::fail(std::exception_ptr why, detail::future_core* created, bool unread) noexcept {
  const auto told = to_exception(described(std::move(why)));
  if (created) created->set_exception(told);
  if (unread)
    fail_unread(told);
  else
    fail(told);
}

void reply_token::end_forked(std::exception_ptr why) const noexcept {
  std::string what(function_);
  if (why) what += ", which threw \"" + describe(std::move(why), {}, {}).text + "\"";
  forked::end_handler(what);
}

void reply_token::fail_unread(std::exception_ptr why) noexcept {
  if (auto owner = std::exchange(owner_, nullptr))
    send_failure(*owner->actors, std::move(why), false);
}

std::exception_ptr reply_token::cancelled() const {
  if (!owner_ || !owner_->active.remembers({to_, request_})) return nullptr;
  return std::make_exception_ptr(cancelled_error("cancelled before it began"));
}

void reply_token::comes_from(const std::shared_ptr<detail::future_core>& source) {
  if (request_ == 0) return;  // which nobody can cancel
  later_ = true;
  if (!owner_->active.add({to_, request_}, source)) source->cancel();
}

void reply_token::send_profile(remote_actors& owner) noexcept {
  try {
    const auto profile = std::exchange(profile_, nullptr);
    const auto events = profile->close();
    if (request_ == 0 || !profile->has_caller()) return;
    order_ = request_;
    if (to_->live())
      owner.out().send_control(*to_, calls_channel, request_, [&](encoder& out) {
        out.put(call_control::profile);
        out.put(request_);
        out.put(events);
      });
  } catch (const troupe::peer_lost&) {
  } catch (const std::exception& e) {  // there is too much of it, say: the answer matters more
    log().warn("could not send {} the profile of its call: {}", to_->info.name, e.what());
  }
}

void reply_token::send_failure(remote_actors& owner, std::exception_ptr why, bool read) noexcept {
  if (profile_) send_profile(owner);
  gate::pass pass(owner.entrance());
  if (!pass) return;
  try {
    auto told = describe(std::move(why), owner.own_name(), std::string(function_));
    // What everybody knows is not logged: the caller is lost, or does not want the answer any more.
    const bool expected = (told.code == errc::peer_lost && told.node == to_->info.name) ||
                          told.code == errc::cancelled;
    // An error of this node says more exactly what has failed: of operators, which one.
    const std::string_view what = told.node == owner.own_name() ? told.function : function_;
    if (!expected)
      log().warn("{} for {} failed: {}{}{}", what.empty() ? "a call" : what, to_->info.name,
                 told.type, told.type.empty() ? "" : ": ", told.text);
    if (request_ != 0) owner.out().send_fault(*to_, order_, request_, told, read);
  } catch (const std::exception& e) {
    log().error("an answer to {} could not be sent: {}", to_->info.name, e.what());
  }
}

namespace detail {

namespace {

std::unique_ptr<collecting> collecting_for(const std::shared_ptr<call_profile>& profile) noexcept {
  if (!profile) return nullptr;
  try {
    return std::make_unique<collecting>(profile->events());
  } catch (const std::exception& e) {
    log().warn("a profile lacks a call: {}", e.what());
    return nullptr;
  }
}

}  // namespace

begun_later::begun_later(const reply_token& of) noexcept
    : now_(of.context()), recorded_(collecting_for(of.profile_)) {}

begun_later::~begun_later() = default;

}  // namespace detail

}  // namespace troupe
