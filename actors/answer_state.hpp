#pragma once

#include "actors/deadlock/wait_notes.hpp"
#include "actors/engine.hpp"
#include "actors/future.hpp"
#include "actors/recording.hpp"
#include "actors/remoting.hpp"

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

/// The same for an answer that comes from another node.
template <class T>
class remote_answer_state : public answer_state<T> {
public:
  /// `asked`: static text, or what lives as long.
  remote_answer_state(remoting& actors, peer& from, std::string_view asked)
      : answer_state<T>(actors.driver()),
        actors_(actors),
        peer_(from),
        name_asked_(asked),
        watched_(current_context() == 0 && lost_gradients::possible(actors)) {}

  /// The request of `actor`, or of a function. Before anybody else has it.
  void sent_as(std::uint64_t request, std::uint64_t actor = 0) noexcept {
    request_ = request;
    actor_ = actor;
  }

  /// Names the node. Only what waits here ends: an actor that was asked is not told.
  void cancel() override {
    fault why;
    why.text = "the answer is not wanted any more";
    if (name_callee(why)) this->give_up(std::move(why));
  }

protected:
  void awaited_for_long(bool begins) noexcept override { actors_.flow()->awaited(peer_, begins); }

  deadlock::question asked() const noexcept override {
    const auto& self = actors_.out().self();
    return {{self.rank, self.incarnation}, deadlock::incarnation_of(peer_), request_, actor_};
  }

  std::uint64_t request() const noexcept { return request_; }

  /// Lets `read` take the answer's body apart.
  template <class Read>
  void take_apart(opened_envelope& answer, const Read& read) noexcept {
    try {
      border handles(actors_, peer_);
      decoder in(answer.body(), answer.tensors(), &handles);
      (void)receive_crossing(actors_, answer, in, peer_);
      if (watched_) actors_.lost().check_answer(actors_, peer_, name_asked_, answer);
      if constexpr (std::is_invocable_v<const Read&, decoder&, border&>)
        read(in, handles);
      else
        read(in);
    } catch (...) {
      this->set_exception(std::current_exception());
    }
  }

  std::string_view name_asked() const noexcept { return name_asked_; }

  /// False: it is ready already, or the node has ended.
  bool name_callee(fault& why) const {
    return !this->ready() && this->driver()->run_if_open([&] { why.node = peer_.info.name; });
  }

  /// The callee of the call `request` may forget it.
  void tell_callee(std::uint64_t request) const {
    this->driver()->run_if_open([&] { actors_.cancel(peer_, request); });
  }

private:
  // Not owned: answers come on the node's own threads, which must never be the last to hold it.
  // They are there for as long as the engine has not been stopped.
  remoting& actors_;
  peer& peer_;
  std::uint64_t request_ = 0;
  std::uint64_t actor_ = 0;
  const std::string_view name_asked_;
  const bool watched_;
};

}  // namespace troupe::detail
