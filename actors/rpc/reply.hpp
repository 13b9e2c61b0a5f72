#pragma once

#include <memory>
#include <string_view>

#include "troupe/actors/contexts/context_interceptor.hpp"
#include "troupe/actors/scheduler/execution_context.hpp"
#include "troupe/messages/base/error.hpp"
#include "troupe/messages/base/function_ref.hpp"

namespace troupe {

class encoder;
class remote_actors;
struct call_server;

namespace detail {

class begun_later;
class call_profile;
class collecting;
class future_core;
class outgoing_message;

}  // namespace detail

/// The duty to answer one call, once. Move-only; dropped unused, it answers that the call was
/// dropped.
class reply_token {
public:
  /// `function`: static text.
  reply_token(std::shared_ptr<call_server> owner, peer& to, std::uint64_t request,
              std::string_view function) noexcept
      : owner_(std::move(owner)),
        to_(&to),
        request_(request),
        function_(function),
        entry_(function) {}
  reply_token(reply_token&&) noexcept = default;
  reply_token& operator=(reply_token&&) = delete;
  ~reply_token();

  /// What is called, for errors, where a call says so itself. The text lives as long as this duty.
  void called(std::string_view function) noexcept { function_ = function; }

  /// The answer comes later, from `source`, which is cancelled when the call is.
  void comes_from(const std::shared_ptr<detail::future_core>& source);

  /// Answers with what `write` puts into the body. A value that cannot be sent becomes a failure.
  void value(function_ref<void(encoder&)> write) noexcept;
  /// Answers with nothing: the call returns void.
  void done() noexcept {
    value([](encoder&) {});
  }

  void fail(std::exception_ptr why) noexcept;

  /// The same for a call whose result stays, in `created` (nullptr: it does not). `unread`: see
  /// fail_unread. Users of the value get the same error everywhere, on its owner too.
  void fail(std::exception_ptr why, detail::future_core* created, bool unread) noexcept;

  /// The call cannot be read here: the caller takes back what is in its arguments.
  void fail_unread(std::exception_ptr why) noexcept;

  /// Where the call stands in an autograd context, to which the answer belongs too. The tensors of
  /// both are recorded, or of neither.
  void in_context(const detail::message_tag& call) noexcept {
    context_ = call.context;
    records_ = call.number != 0;
  }

  /// What `of` has recorded goes before the answer.
  void profiled(std::shared_ptr<detail::call_profile> of) noexcept { profile_ = std::move(of); }

  /// When its caller gives it up.
  void due(clock::time_point deadline) noexcept { deadline_ = deadline; }

  /// The call and its context, for the thread that runs it later. Pre: not answered yet.
  call_context context() const noexcept { return {{to_, request_, entry_, deadline_}, context_}; }
  /// Why it need not begin any more; null: it should.
  std::exception_ptr cancelled() const;

  /// The error as the caller will get it. Pre: not answered yet.
  fault described(std::exception_ptr why) const;

private:
  friend class detail::begun_later;

  void send(remote_actors& owner, detail::outgoing_message& message);
  void send_profile(remote_actors& owner) noexcept;
  [[noreturn]] void end_forked(std::exception_ptr why) const noexcept;
  void send_failure(remote_actors& owner, std::exception_ptr why, bool read = true) noexcept;

  std::shared_ptr<call_server> owner_;
  peer* to_;
  std::uint64_t request_;
  std::string_view function_;
  std::string_view entry_;  // static: what works for the call may outlive it
  std::uint64_t context_ = 0;
  clock::time_point deadline_ = never;
  std::shared_ptr<detail::call_profile> profile_;
  std::uint64_t order_ = 0;  // of the answer and what goes before it
  bool records_ = false;
  bool later_ = false;
};

namespace detail {

/// While it lives, the calling thread runs a call that had to wait for its arguments: it works for
/// that, and what is recorded is that call's. Pre: `of` is not answered yet.
class begun_later {
public:
  explicit begun_later(const reply_token& of) noexcept;
  ~begun_later();
  begun_later(const begun_later&) = delete;
  begun_later& operator=(const begun_later&) = delete;

private:
  const call_context_scope now_;
  const std::unique_ptr<collecting> recorded_;  // null: nobody profiles
};

}  // namespace detail

}  // namespace troupe
