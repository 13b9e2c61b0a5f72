#include "troupe/actors/groups/nccl/nccl_functions.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "troupe/messages/base/error.hpp"

namespace troupe::groups::nccl {

namespace {

// NCCL 2.14 is the first whose communicators do not block.
constexpr int oldest = 21400;

class symbols {
public:
  symbols(void* library, std::string name) : library_(library), name_(std::move(name)) {}

  template <class Function>
  void find(Function& to, const char* name) {
    if (!find_if_there(to, name)) missing_.push_back(name);
  }

  template <class Function>
  bool find_if_there(Function& to, const char* name) {
    to = reinterpret_cast<Function>(dlsym(library_, name));
    return to != nullptr;
  }

  void check() const {
    if (missing_.empty()) return;
    throw invalid_argument(
        fmt::format("'{}' is no NCCL of 2.14 or later: it lacks {}", name_, missing_.front()));
  }

private:
  void* const library_;
  const std::string name_;
  std::vector<const char*> missing_;
};

std::shared_ptr<const nccl_functions> load(const std::string& library) {
  // It would override what communicators are made with, and nobody who waits could be freed.
  if (const char* const blocking = std::getenv("NCCL_COMM_BLOCKING"); blocking && *blocking == '1')
    throw invalid_argument(
        "NCCL_COMM_BLOCKING=1 lets NCCL block where it cannot be aborted: unset it");
  // Its symbols are its own: libtorch may have brought another copy.
  void* const opened = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!opened) {
    const char* const why = dlerror();
    throw invalid_argument(
        fmt::format("NCCL cannot be opened: {}. Install it (the wheel nvidia-nccl-cu13, or "
                    "libnccl2), or say where it is by TROUPE_NCCL_LIBRARY=/path/to/libnccl.so.2",
                    why ? why : library));
  }
  auto out = std::make_shared<nccl_functions>();
  out->library = library;
  symbols all(opened, library);
  result (*get_version)(int*) = nullptr;
  all.find(get_version, "ncclGetVersion");
  all.find(out->get_error_string, "ncclGetErrorString");
  all.find_if_there(out->get_last_error, "ncclGetLastError");
  all.find(out->get_unique_id, "ncclGetUniqueId");
  all.find(out->init_rank_config, "ncclCommInitRankConfig");
  all.find(out->finalize, "ncclCommFinalize");
  all.find(out->destroy, "ncclCommDestroy");
  all.find(out->abort, "ncclCommAbort");
  all.find(out->get_async_error, "ncclCommGetAsyncError");
  all.find(out->group_start, "ncclGroupStart");
  all.find(out->group_end, "ncclGroupEnd");
  all.find(out->all_reduce, "ncclAllReduce");
  all.find(out->reduce, "ncclReduce");
  all.find(out->broadcast, "ncclBroadcast");
  all.find(out->all_gather, "ncclAllGather");
  all.find(out->reduce_scatter, "ncclReduceScatter");
  all.find(out->send, "ncclSend");
  all.find(out->recv, "ncclRecv");
  all.find(out->create_premul_sum, "ncclRedOpCreatePreMulSum");
  all.find(out->destroy_reduction, "ncclRedOpDestroy");
  all.find_if_there(out->split, "ncclCommSplit");
  all.find_if_there(out->shrink, "ncclCommShrink");
  all.find_if_there(out->allocate, "ncclMemAlloc");
  all.find_if_there(out->release, "ncclMemFree");
  all.find_if_there(out->register_window, "ncclCommWindowRegister");
  all.find_if_there(out->deregister_window, "ncclCommWindowDeregister");
  all.check();
  check(*out, get_version(&out->version), "ncclGetVersion");
  if (out->version < oldest)
    throw invalid_argument(fmt::format("'{}' is NCCL {}, and Troupe needs {} or later", library,
                                       version_text(out->version), version_text(oldest)));
  return out;
}

}  // namespace

std::shared_ptr<const nccl_functions> nccl_functions::open(const std::string& library) {
  static std::mutex mutex;
  static auto& opened = *new std::map<std::string, std::shared_ptr<const nccl_functions>>();
  const std::lock_guard lock(mutex);
  auto& found = opened[library];
  if (!found) found = load(library);
  return found;
}

std::string default_library() {
  const char* const set = std::getenv("TROUPE_NCCL_LIBRARY");
  return set && *set ? set : "libnccl.so.2";
}

void check(const nccl_functions& functions, result what, const char* function,
           communicator_handle of) {
  if (what == result::success || what == result::in_progress) return;
  const char* const said = functions.get_last_error ? functions.get_last_error(of) : nullptr;
  throw transport_error(fmt::format("{} has failed: {}{}{}", function,
                                    functions.get_error_string(what), said && *said ? ": " : "",
                                    said && *said ? said : ""));
}

std::string version_text(int version) {
  // Up to 2.8 the numbers were shorter.
  return version < 10000
             ? fmt::format("{}.{}.{}", version / 1000, version / 100 % 10, version % 100)
             : fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace troupe::groups::nccl
