#include "troupe/messages/base/error.hpp"

#include <c10/util/Exception.h>
#include <cxxabi.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <typeinfo>
#include <utility>

namespace troupe {

namespace {

std::string sentence(const fault& f) {
  std::string out = f.text;
  if (out.empty()) out = to_string(f.code);
  if (!f.type.empty()) out = f.type + ": " + out;
  if (!f.function.empty() || !f.node.empty()) {
    out += " [";
    if (!f.function.empty()) out += f.function;
    if (!f.function.empty() && !f.node.empty()) out += ' ';
    if (!f.node.empty()) out += "on " + f.node;
    for (std::size_t begin = 0; begin < f.via.size();) {
      const auto end = std::min(f.via.find('\n', begin), f.via.size());
      out += ", called by " + f.via.substr(begin, end - begin);
      begin = end + 1;
    }
    out += ']';
  }
  return out;
}

std::string demangle(const char* name) {
  int status = 0;
  std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(name, nullptr, nullptr, &status),
                                              &std::free);
  return status == 0 ? text.get() : name;
}

// nullptr: there is no such code.
const char* name_of(errc code) noexcept {
  switch (code) {
    case errc::internal: return "internal error";
    case errc::invalid_argument: return "invalid argument";
    case errc::rpc_timeout: return "rpc timeout";
    case errc::remote_error: return "remote error";
    case errc::peer_lost: return "peer lost";
    case errc::unknown_function: return "unknown function";
    case errc::unknown_worker: return "unknown worker";
    case errc::encode_error: return "encode error";
    case errc::decode_error: return "decode error";
    case errc::store_error: return "store error";
    case errc::rendezvous_error: return "rendezvous error";
    case errc::transport_error: return "transport error";
    case errc::not_initialized: return "not initialized";
    case errc::actor_down: return "actor down";
    case errc::deadlock: return "deadlock";
    case errc::fenced: return "fenced";
    case errc::overloaded: return "overloaded";
    case errc::rref_gone: return "rref gone";
    case errc::cancelled: return "cancelled";
    case errc::unknown_context: return "unknown context";
    case errc::type_mismatch: return "type mismatch";
    case errc::leaked_rref: return "leaked rref";
  }
  return nullptr;
}

}  // namespace

const char* to_string(errc code) noexcept {
  const char* name = name_of(code);
  return name ? name : "unknown error";
}

void set_code(fault& f, unsigned code) {
  if (code <= 255 && name_of(static_cast<errc>(code))) {
    f.code = static_cast<errc>(code);
    return;
  }
  f.code = errc::internal;
  f.text = "error code " + std::to_string(code) + " of another version: " + f.text;
}

error::error(struct fault f) : std::runtime_error(sentence(f)), fault_(std::move(f)) {}

namespace {

fault fault_of(std::string text) {
  fault f;
  f.text = std::move(text);
  return f;
}

}  // namespace

template <errc Code>
error_of<Code>::error_of(struct fault f) : error((f.code = Code, std::move(f))) {}
template <errc Code>
error_of<Code>::error_of(std::string text) : error_of(fault_of(std::move(text))) {}

template class error_of<errc::internal>;
template class error_of<errc::invalid_argument>;
template class error_of<errc::rpc_timeout>;
template class error_of<errc::remote_error>;
template class error_of<errc::peer_lost>;
template class error_of<errc::unknown_function>;
template class error_of<errc::unknown_worker>;
template class error_of<errc::encode_error>;
template class error_of<errc::decode_error>;
template class error_of<errc::store_error>;
template class error_of<errc::rendezvous_error>;
template class error_of<errc::transport_error>;
template class error_of<errc::not_initialized>;
template class error_of<errc::actor_down>;
template class error_of<errc::deadlock>;
template class error_of<errc::fenced>;
template class error_of<errc::overloaded>;
template class error_of<errc::rref_gone>;
template class error_of<errc::cancelled>;
template class error_of<errc::unknown_context>;
template class error_of<errc::type_mismatch>;
template class error_of<errc::leaked_rref>;

std::exception_ptr to_exception(fault f) {
  switch (f.code) {
    case errc::internal: break;
    case errc::invalid_argument: return std::make_exception_ptr(invalid_argument(std::move(f)));
    case errc::rpc_timeout: return std::make_exception_ptr(rpc_timeout(std::move(f)));
    case errc::remote_error: return std::make_exception_ptr(remote_error(std::move(f)));
    case errc::peer_lost: return std::make_exception_ptr(peer_lost(std::move(f)));
    case errc::unknown_function: return std::make_exception_ptr(unknown_function(std::move(f)));
    case errc::unknown_worker: return std::make_exception_ptr(unknown_worker(std::move(f)));
    case errc::encode_error: return std::make_exception_ptr(encode_error(std::move(f)));
    case errc::decode_error: return std::make_exception_ptr(decode_error(std::move(f)));
    case errc::store_error: return std::make_exception_ptr(store_error(std::move(f)));
    case errc::rendezvous_error: return std::make_exception_ptr(rendezvous_error(std::move(f)));
    case errc::transport_error: return std::make_exception_ptr(transport_error(std::move(f)));
    case errc::not_initialized: return std::make_exception_ptr(not_initialized(std::move(f)));
    case errc::actor_down: return std::make_exception_ptr(actor_down(std::move(f)));
    case errc::deadlock: return std::make_exception_ptr(deadlock_error(std::move(f)));
    case errc::fenced: return std::make_exception_ptr(fenced_error(std::move(f)));
    case errc::overloaded: return std::make_exception_ptr(overloaded_error(std::move(f)));
    case errc::rref_gone: return std::make_exception_ptr(rref_gone(std::move(f)));
    case errc::cancelled: return std::make_exception_ptr(cancelled_error(std::move(f)));
    case errc::unknown_context: return std::make_exception_ptr(unknown_context(std::move(f)));
    case errc::type_mismatch: return std::make_exception_ptr(type_mismatch(std::move(f)));
    case errc::leaked_rref: return std::make_exception_ptr(leaked_rref_error(std::move(f)));
  }
  return std::make_exception_ptr(internal_error(std::move(f)));
}

namespace {

// The longest text of an exception that travels: an error is not longer than the message that led
// to it.
constexpr std::size_t longest_text = 16 * 1024;

// The longest list of calls that pass an error on: a recursion over nodes may be a thousand deep.
constexpr std::size_t longest_via = 2 * 1024;

std::atomic<throw_tracer> tracer{nullptr};

// Adds node and function to `f`, which was thrown in that function or passed through it.
void complete(fault& f, const std::string& node, const std::string& function) {
  if (f.via.empty() && (f.node.empty() || node.empty() || f.node == node)) {
    const bool began_here = f.node.empty() || f.function.empty() || f.function == function;
    if (f.node.empty()) f.node = node;
    if (f.function.empty()) f.function = function;
    if (began_here) return;
  }
  if (node.empty() || function.empty()) return;
  const auto passed = function + " on " + node;
  const auto last = f.via.substr(f.via.rfind('\n') + 1);
  if (last == passed || last == "...") return;
  if (!f.via.empty()) f.via += '\n';
  f.via += f.via.size() < longest_via ? passed : "...";
}

}  // namespace

void set_throw_tracer(throw_tracer to) noexcept { tracer = to; }

fault describe(std::exception_ptr thrown, std::string node, std::string function) {
  fault out;
  if (const auto trace = tracer.load()) {
    // An exception_ptr is a pointer to the object (Itanium C++ ABI, 2.4.3; libstdc++ and libc++).
    const void* object = nullptr;
    static_assert(sizeof object == sizeof thrown);
    std::memcpy(&object, &thrown, sizeof object);  // NOLINT(bugprone-undefined-memory-manipulation)
    out.trace = trace(object);
  }
  try {
    std::rethrow_exception(std::move(thrown));
  } catch (const error& e) {
    out = e.fault();
    complete(out, node, function);
    return out;
  } catch (const std::exception& e) {
    // Without the backtrace that libtorch adds to its errors.
    const auto* torchs = dynamic_cast<const c10::Error*>(&e);
    const char* text = torchs ? torchs->what_without_backtrace() : e.what();
    out.text = text ? text : "";
    if (out.text.size() > longest_text) out.text = out.text.substr(0, longest_text) + "...";
    out.type = demangle(typeid(e).name());
  } catch (...) {
    out.text = "something that is not a std::exception was thrown";
    const auto* type = abi::__cxa_current_exception_type();
    out.type = type ? demangle(type->name()) : "unknown";
  }
  out.code = errc::remote_error;
  out.node = std::move(node);
  out.function = std::move(function);
  return out;
}

}  // namespace troupe
