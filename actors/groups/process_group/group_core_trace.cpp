// What a group keeps and tells of its operations.

#include <fmt/format.h>

#include "troupe/actors/groups/backend/signature.hpp"
#include "troupe/actors/groups/process_group/group_core.hpp"
#include "troupe/actors/groups/tracing/debug_level.hpp"
#include "troupe/messages/base/log.hpp"

namespace troupe::groups {

// Hot path.
std::uint64_t group_core::schedule(const operation& what, operation_state state) {
  const auto record = recorder_.schedule(what, state);
  if (get_debug_level() == debug_level::detail) [[unlikely]]
    details_.add(record, what);
  return record;
}

std::vector<operation_record> group_core::records() const {
  auto out = recorder_.records();
  for (auto& one : out) one.detail = details_.find(one.id);
  return out;
}

trace_header group_core::trace_about() const {
  return {about_.name, about_.description, about_.rank,     about_.members,
          failure(),   last_sequence(),    last_completed()};
}

void group_core::write_trace() noexcept {
  if (about_.trace_directory.empty()) return;
  try {
    write_trace_file(about_.trace_directory, trace_about(), records());
  } catch (const std::exception& e) {
    log().warn("the trace of group '{}' was not written: {}", about_.name, e.what());
  }
}

// What is known of the call at debug level `detail`.
std::exception_ptr group_core::in_detail(const operation& what, std::uint64_t record,
                                         const std::exception_ptr& why) const {
  const auto call = details_.find(record);
  // A mismatch that `check_in_full` has found says more.
  if (!call || describe(why, {}, {}).text.find("has called") != std::string::npos) return why;
  return error_with(
      why, fmt::format("\nrank {} ('{}') has called {}, inputs {}, outputs {}, at\n{}", rank(),
                       about_.members[static_cast<std::size_t>(rank())].name,
                       to_string(signature_of(what, size())), call->inputs, call->outputs,
                       call->stack_text()));
}

void group_core::log_made() const {
  std::string by;
  const std::lock_guard lock(mutex_);
  for (const auto& one : backends()) by += fmt::format("{}{}", by.empty() ? "" : ", ", one->name());
  log().info(
      "group '{}'{} was made: rank {} of {}, backends {}, a timeout of {} ms, debug level {}",
      about_.name, about_.description.empty() ? "" : fmt::format(" ({})", about_.description),
      rank(), size(), by, timeout().count(), to_string(get_debug_level()));
}

}  // namespace troupe::groups
