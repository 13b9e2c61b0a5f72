// A double of NCCL: a shared library with the functions of libnccl that Troupe calls, for memory
// and streams of the simulated accelerator. It does what it is told to, late, and fails when asked.

#include <c10/core/Allocator.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "accelerator.hpp"
#include "double_communicator.hpp"
#include "double_faults.hpp"

using namespace troupe::groups::nccl;
using namespace troupe::test::nccl_double;

namespace {

std::mutex mutex;

// The handles that are valid. Not destroyed: streams may still run when the process ends.
auto& communicators() {
  static auto& all = *new std::map<communicator_handle, std::shared_ptr<communicator>>;
  return all;
}

std::shared_ptr<communicator> find(communicator_handle handle) {
  const std::lock_guard lock(mutex);
  const auto found = communicators().find(handle);
  return found == communicators().end() ? nullptr : found->second;
}

communicator_handle add(std::shared_ptr<communicator> made) {
  auto* const handle = reinterpret_cast<communicator_handle>(made.get());
  const std::lock_guard lock(mutex);
  communicators().emplace(handle, std::move(made));
  return handle;
}

// Those whose ranks wait for one another's end.
std::set<communicator_handle>& finalizing() {
  static auto& all = *new std::set<communicator_handle>;
  return all;
}

std::shared_ptr<communicator> take(communicator_handle handle) {
  const std::lock_guard lock(mutex);
  finalizing().erase(handle);
  auto found = communicators().extract(handle);
  return found ? std::move(found.mapped()) : nullptr;
}

// A thread's group of calls.
struct grouped {
  int depth = 0;
  std::vector<std::pair<std::shared_ptr<communicator>, std::pair<void*, std::vector<call>>>> calls;
};
thread_local grouped group;

result launch_all() {
  auto all = std::exchange(group.calls, {});
  auto out = result::success;
  for (auto& [on, what] : all) {
    const auto wrong = next_fault("group_end", on->rank());
    if (wrong.kind == fault_kind::hangs || wrong.kind == fault_kind::waits)
      out = on->launch_later(what.first, std::move(what.second), wrong);
    else
      on->launch(what.first, std::move(what.second));
  }
  return out;
}

result put(communicator_handle handle, void* stream, call what) {
  const auto on = find(handle);
  if (!on) return result::invalid_argument;
  if (on->state() != result::success) return result::invalid_usage;
  for (const void* pointer : {what.from, const_cast<const void*>(what.to)})
    if (pointer && !troupe_sim_is_device_pointer(pointer)) return result::invalid_argument;
  what.wrong = next_fault(name_of(what.function), on->rank());
  if (what.wrong.kind == fault_kind::fails) return result::system_error;
  if (const auto factor = on->factor_of(what.how)) {
    what.factor = *factor;
    what.premultiplied = true;
  }
  if (group.calls.empty() || group.calls.back().first != on ||
      group.calls.back().second.first != stream)
    group.calls.push_back({on, {stream, {}}});
  group.calls.back().second.second.push_back(what);
  return group.depth == 0 ? launch_all() : result::success;
}

double number_at(const void* factor, data_type type) {
  const auto read = [&](auto value) {
    std::memcpy(&value, factor, sizeof value);
    return static_cast<double>(value);
  };
  switch (type) {
    case data_type::float64: return read(double());
    case data_type::float32: return read(float());
    case data_type::float16: return read(c10::Half());
    default: return read(c10::BFloat16());
  }
}

result begun(communicator_handle* to, std::shared_ptr<communicator> made) {
  *to = add(std::move(made));
  return result::in_progress;
}

}  // namespace

extern "C" {

result ncclGetVersion(int* version) {
  *version = 22809;
  return result::success;
}

const char* ncclGetErrorString(result what) {
  switch (what) {
    case result::success: return "no error";
    case result::system_error: return "unhandled system error";
    case result::invalid_argument: return "invalid argument";
    case result::invalid_usage: return "invalid usage";
    case result::remote_error: return "remote process exited or there was a network error";
    case result::in_progress: return "NCCL operation in progress";
    default: return "internal error";
  }
}

const char* ncclGetLastError(communicator_handle /*of*/) { return "the double of NCCL"; }

result ncclGetUniqueId(unique_id* id) {
  if (next_fault("get_unique_id", 0).kind != fault_kind::none) return result::system_error;
  *id = region::make();
  return result::success;
}

result ncclCommInitRankConfig(communicator_handle* made, int ranks, unique_id id, int rank,
                              configuration* config) {
  if (config->magic != 0xcafebeef || config->blocking != 0 || ranks > region::most_ranks)
    return result::invalid_argument;
  return begun(made, communicator::join(id, rank, ranks));
}

result ncclCommSplit(communicator_handle handle, int color, int key, communicator_handle* made,
                     configuration* config) {
  const auto parent = find(handle);
  if (!parent || config->blocking != 0) return result::invalid_argument;
  std::vector<int> all;
  for (int rank = 0; rank < parent->size(); ++rank) all.push_back(rank);
  *made = nullptr;
  parent->begin_split(color, key, std::move(all),
                      [made](auto child) { *made = child ? add(std::move(child)) : nullptr; });
  return result::in_progress;
}

result ncclCommShrink(communicator_handle handle, int* excluded, int count,
                      communicator_handle* made, configuration* config, int /*flags*/) {
  const auto parent = find(handle);
  if (!parent || config->blocking != 0) return result::invalid_argument;
  if (!parent->idle()) return result::invalid_usage;
  const std::set<int> gone(excluded, excluded + count);
  std::vector<int> left;
  for (int rank = 0; rank < parent->size(); ++rank)
    if (!gone.contains(rank)) left.push_back(rank);
  *made = nullptr;
  parent->begin_split(0, parent->rank(), std::move(left),
                      [made](auto child) { *made = add(std::move(child)); });
  return result::in_progress;
}

result ncclCommFinalize(communicator_handle handle) {
  const auto on = find(handle);
  if (!on) return result::invalid_argument;
  count_call("finalize");
  {
    const std::lock_guard lock(mutex);
    finalizing().insert(handle);
  }
  return on->finalize() ? result::success : result::in_progress;
}

result ncclCommDestroy(communicator_handle handle) {
  count_call("destroy");
  return take(handle) ? result::success : result::invalid_argument;
}

result ncclCommAbort(communicator_handle handle) {
  count_call("abort");
  const auto gone = take(handle);
  if (!gone) return result::invalid_argument;
  gone->abort();
  return result::success;
}

result ncclCommGetAsyncError(communicator_handle handle, result* state) {
  const auto on = find(handle);
  if (!on) return result::invalid_argument;
  *state = on->state();
  const std::lock_guard lock(mutex);
  if (finalizing().contains(handle) && *state == result::success && !on->finalize())
    *state = result::in_progress;
  return result::success;
}

result ncclGroupStart() {
  ++group.depth;
  return result::success;
}

result ncclGroupEnd() { return --group.depth == 0 ? launch_all() : result::success; }

result ncclAllReduce(const void* from, void* to, std::size_t count, data_type type, int how,
                     communicator_handle on, void* stream) {
  return put(on, stream, {call::what::all_reduce, from, to, count, type, how});
}

result ncclReduce(const void* from, void* to, std::size_t count, data_type type, int how, int root,
                  communicator_handle on, void* stream) {
  return put(on, stream, {call::what::reduce, from, to, count, type, how, root});
}

result ncclBroadcast(const void* from, void* to, std::size_t count, data_type type, int root,
                     communicator_handle on, void* stream) {
  return put(on, stream, {call::what::broadcast, from, to, count, type, 0, root});
}

result ncclAllGather(const void* from, void* to, std::size_t count, data_type type,
                     communicator_handle on, void* stream) {
  return put(on, stream, {call::what::all_gather, from, to, count, type});
}

result ncclReduceScatter(const void* from, void* to, std::size_t count, data_type type, int how,
                         communicator_handle on, void* stream) {
  return put(on, stream, {call::what::reduce_scatter, from, to, count, type, how});
}

result ncclSend(const void* from, std::size_t count, data_type type, int to, communicator_handle on,
                void* stream) {
  return put(on, stream, {call::what::send, from, nullptr, count, type, 0, to});
}

result ncclRecv(void* to, std::size_t count, data_type type, int from, communicator_handle on,
                void* stream) {
  return put(on, stream, {call::what::recv, nullptr, to, count, type, 0, from});
}

result ncclRedOpCreatePreMulSum(int* made, void* factor, data_type type, scalar_residence where,
                                communicator_handle handle) {
  const auto on = find(handle);
  if (!on || where != scalar_residence::host_immediate) return result::invalid_argument;
  *made = on->make_reduction(number_at(factor, type));
  return result::success;
}

result ncclRedOpDestroy(int /*number*/, communicator_handle handle) {
  return find(handle) ? result::success : result::invalid_argument;
}

result ncclMemAlloc(void** made, std::size_t size) {
  count_call("mem_alloc");
  // Whole windows.
  const auto whole = (size + window_alignment - 1) / window_alignment * window_alignment;
  *made = c10::GetAllocator(troupe::test::accelerator::device_type)->raw_allocate(whole);
  return result::success;
}

result ncclMemFree(void* memory) {
  count_call("mem_free");
  c10::GetAllocator(troupe::test::accelerator::device_type)->raw_deallocate(memory);
  return result::success;
}

result ncclCommWindowRegister(communicator_handle handle, void* memory, std::size_t /*size*/,
                              window_handle* window, int /*flags*/) {
  count_call("register_window");
  if (!find(handle) || !troupe_sim_is_device_pointer(memory)) return result::invalid_argument;
  *window = static_cast<window_handle>(memory);
  return result::success;
}

result ncclCommWindowDeregister(communicator_handle handle, window_handle /*window*/) {
  count_call("deregister_window");
  return find(handle) ? result::success : result::invalid_argument;
}

}  // extern "C"
