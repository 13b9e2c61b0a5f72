#pragma once

#include <caf/fwd.hpp>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "troupe/actors/contexts/lost_gradient.hpp"

namespace troupe {

class opened_envelope;
class peer;
class tensor_writer;

namespace detail {

class node_contexts;

/// Looks for tensors that require gradients and cross without being recorded while a distributed
/// autograd context is open on the node: there a backward pass ends and says nothing. One warning
/// for each message or function, or an error. Thread-safe.
class lost_gradients {
public:
  explicit lost_gradients(lost_gradient what) noexcept : fails_(what == lost_gradient::fail) {}

  /// Would the calling thread's tensors be lost? Only if a context is open on the node, the thread
  /// is not apart from it on purpose, and its grad mode is on.
  static bool possible(const node_contexts& contexts) noexcept;

  /// A call or request that belongs to no context is about to be sent. Throws invalid_argument.
  /// Without tensors it costs a comparison.
  void check_request(const node_contexts& contexts, const peer& to, std::string_view what,
                     const tensor_writer& tensors);

  /// The same for a message that nobody answers. True: nothing is left to do, since the loss is
  /// reported or intended, or there is none. False: the receiver has to look, since the context may
  /// be open there only.
  bool check_message(const node_contexts& contexts, const peer& to, std::string_view what,
                     const tensor_writer& tensors);

  /// A message that nobody answers has come from a node that has left the check to this one. Only
  /// warns: nobody would get an error.
  void check_arrival(const node_contexts& contexts, const peer& from, opened_envelope& message,
                     const caf::message& content);

  /// An answer has come that was not recorded, to a request made when that was `possible`. Throws
  /// invalid_argument, decode_error.
  void check_answer(const node_contexts& contexts, const peer& from, std::string_view what,
                    opened_envelope& answer);

private:
  enum class kind : std::uint8_t { request, message, answer, arrival };
  static constexpr std::size_t most_reported = 1024;

  void report(const node_contexts& contexts, kind which, const peer& other, std::string_view what);

  const bool fails_;
  std::mutex mutex_;
  std::set<std::pair<kind, std::string>> reported_;
};

}  // namespace detail

}  // namespace troupe
