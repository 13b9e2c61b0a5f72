#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>

namespace troupe {

/// What went wrong. The values travel; append, never reorder.
enum class errc : std::uint8_t {
  internal = 1,      ///< a bug in Troupe
  invalid_argument,  ///< the caller passed something that cannot be used
  rpc_timeout,       ///< no answer within the limit
  remote_error,      ///< the callee threw
  peer_lost,         ///< the other node is gone
  unknown_function,  ///< the callee has no such function
  unknown_worker,    ///< there is no node of that name or rank
  encode_error,      ///< a value cannot be sent
  decode_error,      ///< received bytes are malformed
  store_error,       ///< a store operation failed: timeout, unreachable, or full
  rendezvous_error,  ///< the job did not come together
  transport_error,   ///< the network failed
  not_initialized,   ///< used before init_rpc or after shutdown
  actor_down,        ///< the receiving actor has ended
  deadlock,          ///< the wait could never end
  fenced,            ///< the job has shut this node out
  overloaded,        ///< the receiver's window is full
  rref_gone,         ///< the value of the rref does not exist (any more)
  cancelled,         ///< the caller cancelled the call
  unknown_context,   ///< the autograd context has ended, or never existed
  type_mismatch,     ///< a type has other fields on the other node
  leaked_rref,       ///< references were left at a shutdown
};

/// The name of `code`, as in the list above.
const char* to_string(errc code) noexcept;

/// A failure as a value: what an error carries over the wire. Empty fields are unknown.
struct fault {
  errc code = errc::internal;
  std::string text;      ///< one sentence for a person, naming what it is about
  std::string node;      ///< where it happened, or the node that it is about
  std::string function;  ///< the function or message type that was called
  std::string type;      ///< remote_error: the type of the callee's exception, demangled
  std::chrono::milliseconds limit{0};  ///< rpc_timeout: the limit that passed
  /// remote_error: the calls that led to it on the callee, one a line, if that is a debug build.
  /// type_mismatch: what differs, and what it is made of on the node.
  std::string trace{};
  /// The calls that passed it on because they did not catch it, one a line, the one that made the
  /// failed call first: "evaluate on trainer1". Empty: the call was made by the code that has the
  /// error.
  std::string via{};
};

/// Sets the code of a fault that was received. A code of a newer version becomes errc::internal,
/// its number in the text.
void set_code(fault& f, unsigned code);

/// Base of all exceptions of Troupe. `what()` is the fault's text with node and function, and the
/// calls that passed it on: "no such key [load on ps, called by evaluate on trainer1]".
class error : public std::runtime_error {
public:
  explicit error(struct fault f);

  const struct fault& fault() const noexcept { return fault_; }
  errc code() const noexcept { return fault_.code; }
  const std::string& node() const noexcept { return fault_.node; }
  const std::string& function() const noexcept { return fault_.function; }

private:
  struct fault fault_;
};

/// A class of its own for one code, so that callers can catch just that.
template <errc Code>
class error_of : public error {
public:
  explicit error_of(struct fault f);
  explicit error_of(std::string text);
};

using internal_error = error_of<errc::internal>;
using invalid_argument = error_of<errc::invalid_argument>;
using rpc_timeout = error_of<errc::rpc_timeout>;
using remote_error = error_of<errc::remote_error>;
using peer_lost = error_of<errc::peer_lost>;
using unknown_function = error_of<errc::unknown_function>;
using unknown_worker = error_of<errc::unknown_worker>;
using encode_error = error_of<errc::encode_error>;
using decode_error = error_of<errc::decode_error>;
using store_error = error_of<errc::store_error>;
using rendezvous_error = error_of<errc::rendezvous_error>;
using transport_error = error_of<errc::transport_error>;
using not_initialized = error_of<errc::not_initialized>;
using actor_down = error_of<errc::actor_down>;
using deadlock_error = error_of<errc::deadlock>;
using fenced_error = error_of<errc::fenced>;
using overloaded_error = error_of<errc::overloaded>;
using rref_gone = error_of<errc::rref_gone>;
using cancelled_error = error_of<errc::cancelled>;
using unknown_context = error_of<errc::unknown_context>;
using type_mismatch = error_of<errc::type_mismatch>;
using leaked_rref_error = error_of<errc::leaked_rref>;

// Compiled once, in error.cpp.
extern template class error_of<errc::internal>;
extern template class error_of<errc::invalid_argument>;
extern template class error_of<errc::rpc_timeout>;
extern template class error_of<errc::remote_error>;
extern template class error_of<errc::peer_lost>;
extern template class error_of<errc::unknown_function>;
extern template class error_of<errc::unknown_worker>;
extern template class error_of<errc::encode_error>;
extern template class error_of<errc::decode_error>;
extern template class error_of<errc::store_error>;
extern template class error_of<errc::rendezvous_error>;
extern template class error_of<errc::transport_error>;
extern template class error_of<errc::not_initialized>;
extern template class error_of<errc::actor_down>;
extern template class error_of<errc::deadlock>;
extern template class error_of<errc::fenced>;
extern template class error_of<errc::overloaded>;
extern template class error_of<errc::rref_gone>;
extern template class error_of<errc::cancelled>;
extern template class error_of<errc::unknown_context>;
extern template class error_of<errc::type_mismatch>;
extern template class error_of<errc::leaked_rref>;

/// `f` as an exception of the class that belongs to its code.
std::exception_ptr to_exception(fault f);

/// The fault for the caller of `function` on `node`, which threw `thrown`: an error of ours keeps
/// its code and fields, anything else becomes a remote_error with its type and text. If the error
/// is about another call that this one made, this call is added to `via`.
fault describe(std::exception_ptr thrown, std::string node, std::string function);

/// Returns the calls that led to a throw, one a line; empty when they are not known (any more).
/// `exception` is the object thrown. Set by throw_hook.cpp.
using throw_tracer = std::string (*)(const void* exception);
void set_throw_tracer(throw_tracer tracer) noexcept;

}  // namespace troupe
