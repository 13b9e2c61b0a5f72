#include "troupe/actors/profiling/call_profile.hpp"

#include <algorithm>
#include <utility>

#include "troupe/messages/base/log.hpp"

namespace troupe::detail {

std::string range_name(std::string_view what, std::string_view function, std::string_view caller,
                       std::string_view callee) {
  std::string name(what);
  name.append("#").append(function).append("(").append(caller);
  return name.append(" -> ").append(callee).append(")");
}

std::int64_t range_number(transport::rank_t caller, std::uint64_t request) noexcept {
  if (request == 0) return -1;  // libtorch's for none
  constexpr std::uint64_t low = 0xffffff;
  const auto place = request & low, generation = request >> 32 & low;
  return static_cast<std::int64_t>((std::uint64_t{caller} & 0x7fff) << 48 | generation << 24 |
                                   place);
}

namespace {

// Events are recorded with all that either profile wants; each gets only what it wants itself.
std::vector<profile_event> only_wanted(std::vector<profile_event> all,
                                       const profile_options& what) {
  for (auto& one : all) {
    if (!what.shapes) one.shapes.clear();
    if (!what.memory) one.host_bytes = one.device_bytes = 0;
  }
  return all;
}

}  // namespace

call_profile::call_profile(const worker_info& self, std::string name, std::int64_t number,
                           const profile_options& what, std::optional<profile_options> callers,
                           std::shared_ptr<event_collector> process)
    : events_(std::make_shared<event_collector>(self.id, what, callers.has_value())),
      name_(std::move(name)),
      number_(number),
      callers_(callers),
      process_(std::move(process)) {}

std::vector<profile_event> call_profile::close() {
  if (std::exchange(closed_, true)) return {};
  profile_event whole;
  whole.name = name_;
  whole.node = events_->node;
  whole.thread = thread_;
  whole.number = number_;
  whole.start_ns = began_;
  whole.duration_ns = std::max<std::int64_t>(profile_time() - began_, 0);
  std::vector<profile_event> all{std::move(whole)};
  for (auto& one : events_->close()) {
    // The callee's range, which the program's own profilers see, is the whole again.
    if (one.name != name_) all.push_back(std::move(one));
  }
  if (process_) process_->add(only_wanted(all, process_->what));
  return callers_ ? only_wanted(std::move(all), *callers_) : std::vector<profile_event>();
}

std::shared_ptr<call_profile> begin_call_profile(const envelope_header& header,
                                                 const worker_info& self, const worker_info& caller,
                                                 std::string_view function) {
  std::optional<profile_options> callers;
  if (header.profiled) callers = profile_options{header.profiled_shapes, header.profiled_memory};
  auto process = process_collector();
  if (!callers && !process) return nullptr;  // it has just ended
  auto what = callers.value_or(profile_options());
  if (process) what = {what.shapes || process->what.shapes, what.memory || process->what.memory};
  return std::make_shared<call_profile>(self, range_name("rpc", function, caller.name, self.name),
                                        range_number(caller.id, header.request), what, callers,
                                        std::move(process));
}

std::unique_ptr<profiled_message> profiled_message::begin(std::string_view message,
                                                          const worker_info& from,
                                                          const worker_info& self) noexcept try {
  auto process = process_collector();
  if (!process) return nullptr;  // it has just ended
  const auto wanted = process->what;
  return std::make_unique<profiled_message>(
      std::make_shared<call_profile>(self, range_name("actor", message, from.name, self.name), -1,
                                     wanted, std::nullopt, std::move(process)));
} catch (const std::exception& e) {
  log().warn("a message is missing in the profile of this process: {}", e.what());
  return nullptr;
}

profiled_message::~profiled_message() {
  try {
    of_->close();
  } catch (const std::exception& e) {
    log().warn("a message is missing in the profile of this process: {}", e.what());
  }
}

}  // namespace troupe::detail
