#pragma once

#include "troupe/actors/future/future.hpp"
#include "troupe/actors/future/question.hpp"
#include "troupe/actors/messaging/reply_sink.hpp"
#include "troupe/actors/remote/handle_scope.hpp"
#include "troupe/messages/base/function_ref.hpp"
#include "troupe/messages/codec/decoder.hpp"

namespace troupe {

class remote_actors;

}  // namespace troupe

namespace troupe::detail {

/// The future of a request that is in the table of requests.
template <class T>
class answer_state : public future_state<T>, public reply_sink {
public:
  using future_state<T>::future_state;

  /// An answer of this node comes as a message.
  void on_value(opened_envelope&) noexcept override {}

  void on_fault(fault&& why) noexcept override {
    this->set_exception(to_exception(std::move(why)));
  }
};

/// What the future of an answer from another node knows of the question. No template: the futures
/// of all types have this code once.
class question_to_peer {
public:
  /// `asked`: static text, or text that lives as long.
  question_to_peer(remote_actors& actors, peer& from, std::string_view asked) noexcept;

  /// It belongs to the request of that number to `actor`, or to a function if that is 0. Called
  /// before another thread has the future.
  void sent_as(std::uint64_t request, std::uint64_t actor = 0) noexcept {
    request_ = request;
    actor_ = actor;
  }

  std::string_view name_asked() const noexcept { return name_asked_; }

  /// Names the node in `why`. False: `answer` is ready already, or the node has ended.
  bool name_callee(const future_core& answer, fault& why) const;

protected:
  ~question_to_peer() = default;

  std::uint64_t request() const noexcept { return request_; }

  /// Tells the callee that the answer to the call `request` is not wanted any more. `answer` is the
  /// future of that call.
  void tell_callee(const future_core& answer, std::uint64_t request) const;

  static const std::shared_ptr<engine>& driver_of(const remote_actors& actors) noexcept;

  void awaited(bool begins) const noexcept;
  question identity() const noexcept;

  /// Lets `read` take the body of `message` apart. `answer` fails with what `read` throws.
  void take_apart(future_core& answer, opened_envelope& message,
                  function_ref<void(decoder&, handle_scope&)> read) const noexcept;

private:
  // Not owned: answers come on the node's own threads, which must never be the last to hold it.
  // They are there for as long as the engine has not been stopped.
  remote_actors& actors_;
  peer& peer_;
  std::uint64_t request_ = 0;
  std::uint64_t actor_ = 0;
  const std::string_view name_asked_;
  const bool watched_;
};

/// The same as answer_state for an answer that comes from another node.
template <class T>
class remote_answer_state : public answer_state<T>, public question_to_peer {
public:
  /// `asked`: static text, or text that lives as long.
  remote_answer_state(remote_actors& actors, peer& from, std::string_view asked)
      : answer_state<T>(driver_of(actors)), question_to_peer(actors, from, asked) {}

  /// The error names the node. Only the wait here ends: an actor that was asked is not notified.
  void cancel() override {
    fault why;
    why.text = "the answer is not wanted any more";
    if (name_callee(why)) this->give_up(std::move(why));
  }

protected:
  void awaited_for_long(bool begins) noexcept override { awaited(begins); }
  question asked() const noexcept override { return identity(); }

  /// Lets `read` take the answer's body apart.
  void take_apart(opened_envelope& answer,
                  function_ref<void(decoder&, handle_scope&)> read) noexcept {
    question_to_peer::take_apart(*this, answer, read);
  }

  bool name_callee(fault& why) const { return question_to_peer::name_callee(*this, why); }
  void tell_callee(std::uint64_t request) const { question_to_peer::tell_callee(*this, request); }
};

}  // namespace troupe::detail
