#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace at {
class Tensor;
}

namespace troupe {

struct envelope_header;
class node_core;
class peer;

namespace detail {

/// The place of a message in a distributed autograd context.
struct message_tag {
  std::uint64_t context = 0;
  std::uint64_t number = 0;  ///< among the sender's messages; 0: none of its tensors is recorded
};

/// Keeps a node's part in distributed autograd contexts, on behalf of the calls and answers that
/// belong to them. The module autograd has it. Thread-safe.
class context_interceptor {
public:
  virtual ~context_interceptor() = default;

  /// A message of `context` is being written for `to`, which takes part in it from now on. Throws
  /// unknown_context.
  virtual message_tag begin(std::uint64_t context, peer& to) = 0;

  /// Records the tensors of the message that require gradients, in the order in which it names
  /// them. Throws unknown_context.
  virtual void record(const message_tag& where, peer& to, std::vector<at::Tensor>&& sent) = 0;

  /// It has not been sent.
  virtual void forget(const message_tag& where) noexcept = 0;

  /// A message has come, a call or request (perhaps the first of its context on this node) or an
  /// answer. Its tensors that require gradients become results of what `from` has recorded; their
  /// gradients go back the way that they came (see call_options::uses_reply_route). Throws
  /// unknown_context.
  virtual void receive(const message_tag& where, peer& from, const envelope_header& header,
                       const std::vector<at::Tensor>& received) = 0;

  /// Is a context open in which the node takes part? Hot path.
  virtual bool takes_part() const noexcept = 0;

  /// `whom` is gone, and with it the contexts that it has opened.
  virtual void evict(const peer& whom) = 0;

  /// The node ends.
  virtual void close() = 0;

  struct census {
    std::size_t contexts = 0;
    std::size_t passes = 0;  ///< backward passes under way
  };
  virtual census count() const = 0;

  /// Does the node take part in that context, or has it opened it? No lock is taken for one that it
  /// has opened.
  virtual bool knows(std::uint64_t context) const = 0;
};

/// Every node that is made from now on has one that `make` makes. Once, by the module autograd.
using interceptor_maker = std::unique_ptr<context_interceptor> (*)(node_core&);
bool provide_interceptor(interceptor_maker make) noexcept;

/// nullptr: this program has none.
std::unique_ptr<context_interceptor> make_interceptor(node_core& node);

}  // namespace detail

}  // namespace troupe
