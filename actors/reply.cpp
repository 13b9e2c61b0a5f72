#include "actors/reply.hpp"

#include "messages/log.hpp"

namespace troupe {

reply_token::~reply_token() {
  if (owner_) fail(std::make_exception_ptr(remote_error("the call was dropped without an answer")));
}

// False: the node has been shut down, and the caller hears that it is lost.
bool reply_token::send(remoting& owner, letter& text) {
  gate::pass pass(owner.entrance());
  if (!pass) return false;
  envelope_header header;
  header.kind = envelope_kind::response;
  header.target = request_;
  owner.out().send(*to_, 0, header, &text);
  return true;
}

fault reply_token::described(std::exception_ptr why) const {
  return describe(std::move(why), owner_ ? owner_->own_name() : "", std::string(function_));
}

void reply_token::fail(std::exception_ptr why) noexcept {
  if (auto owner = std::exchange(owner_, nullptr)) send_failure(*owner, std::move(why));
}

void reply_token::send_failure(remoting& owner, std::exception_ptr why) noexcept {
  gate::pass pass(owner.entrance());
  if (!pass) return;
  try {
    auto told = describe(std::move(why), owner.own_name(), std::string(function_));
    const bool caller_lost = told.code == errc::peer_lost && told.node == to_->info.name;
    if (!caller_lost)
      log().warn("{} for {} failed: {}{}{}", function_.empty() ? "a call" : function_,
                 to_->info.name, told.type, told.type.empty() ? "" : ": ", told.text);
    owner.out().send_fault(*to_, 0, request_, told);
  } catch (const std::exception& e) {
    log().error("an answer to {} could not be sent: {}", to_->info.name, e.what());
  }
}

}  // namespace troupe
