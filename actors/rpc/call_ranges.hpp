#pragma once

#include <memory>
#include <string_view>

#include "troupe/actors/messaging/request_table.hpp"
#include "troupe/actors/profiling/call_profile.hpp"

namespace at {
struct RecordFunction;
}

namespace troupe::detail {

class profiled_call;

/// A range of libtorch's profilers from a call to its answer: "rpc_async#add(a -> b)", "rpc_sync"
/// where the caller waits for it at once, "rpc_remote" where an rref takes the answer. `sink`
/// becomes one that ends it. Begun as soon as the request has its number. What the callee records
/// comes just before the answer, and goes to the calling thread's profile: Troupe's, or libtorch's
/// legacy one. Costs a look at the profilers' state while nobody profiles.
class caller_range {
public:
  caller_range(std::shared_ptr<reply_sink>& sink, bool sync);

  /// Has the callee record what the profile of the calling thread wants of it.
  void ask(envelope_header& header) const noexcept;

  /// Any thread may end it.
  void begin(std::string_view function, std::string_view caller, std::string_view callee,
             std::int64_t number);

private:
  std::string_view kind_;
  std::shared_ptr<profiled_call> call_;
};

/// A range while the callee's function runs; of a coroutine, until it first waits: "rpc#add(a ->
/// b)".
class callee_range {
public:
  callee_range(std::string_view function, std::string_view caller, std::string_view callee,
               std::int64_t number);
  ~callee_range();
  callee_range(const callee_range&) = delete;
  callee_range& operator=(const callee_range&) = delete;

private:
  std::unique_ptr<at::RecordFunction> range_;
};

}  // namespace troupe::detail
