#include "troupe/actors/groups/nccl/nccl_communicator.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "troupe/actors/groups/backend/collective_error.hpp"
#include "troupe/messages/base/log.hpp"

namespace troupe::groups::nccl {

namespace {

using namespace std::chrono_literals;

// Of a communicator that ends while others may still need it.
constexpr auto farewell = 5s;
// A thread inside of NCCL comes out of it at once; one that does not is what an abort is for.
constexpr auto most_wait_for_call = 100ms;

// The longer it lasts, the less often it is looked at.
class pause {
public:
  void operator()() {
    if (looks_++ < 200) return std::this_thread::yield();
    std::this_thread::sleep_for(std::min<std::chrono::microseconds>(20us * (looks_ - 200), 1ms));
  }

private:
  int looks_ = 0;
};

}  // namespace

// Waits until what was asked for is done. Pre: `mutex_` is held.
void nccl_communicator::await(const char* function, const patience& until) {
  pause next;
  for (;;) {
    if (aborted_.load()) {
      if (auto why = until.problem()) std::rethrow_exception(why);
      throw transport_error("the communicator '" + name_ + "' was aborted");
    }
    auto state = result::success;
    check(*functions_, functions_->get_async_error(handle_, &state), "ncclCommGetAsyncError",
          handle_);
    check(*functions_, state, function, handle_);
    if (state == result::success) return;
    if (auto why = until.problem()) std::rethrow_exception(why);
    if (clock::now() >= until.deadline) std::rethrow_exception(until.timeout());
    next();
  }
}

std::shared_ptr<nccl_communicator> nccl_communicator::begin(
    std::shared_ptr<const nccl_functions> functions, const nccl_options& options,
    const std::string& name, const char* function, const maker& make, const patience& until) {
  std::shared_ptr<nccl_communicator> out(new nccl_communicator(std::move(functions), name));
  auto config = options.for_version(out->functions_->version, out->name_);
  communicator_handle made = nullptr;
  const auto begun = make(&made, &config);
  out->handle_ = made;
  try {
    check(*out->functions_, begun, function, made);
    const std::lock_guard lock(out->mutex_);
    if (made) out->await(function, until);
  } catch (...) {
    // Half made, it can only be aborted.
    out->abort();
    throw;
  }
  return out;
}

std::shared_ptr<nccl_communicator> nccl_communicator::make(
    std::shared_ptr<const nccl_functions> functions, const nccl_options& options,
    const std::string& name, int size, const unique_id& id, int rank, const patience& until) {
  const auto* const of = functions.get();
  return begin(
      std::move(functions), options, name, "ncclCommInitRankConfig",
      [&](communicator_handle* made, configuration* config) {
        return of->init_rank_config(made, size, id, rank, config);
      },
      until);
}

std::shared_ptr<nccl_communicator> nccl_communicator::split(int color, int key,
                                                            const nccl_options& options,
                                                            const std::string& name,
                                                            const patience& until) {
  auto made = begin(
      functions_, options, name, "ncclCommSplit",
      [&](communicator_handle* to, configuration* config) {
        const std::lock_guard lock(mutex_);
        const auto begun = functions_->split(handle_, color, key, to, config);
        // The parent takes part in it, and is not ready before.
        check(*functions_, begun, "ncclCommSplit", handle_);
        if (!*to) await("ncclCommSplit", until);
        return begun;
      },
      until);
  if (!made->handle_) return nullptr;
  adopt(made);
  return made;
}

std::shared_ptr<nccl_communicator> nccl_communicator::shrink(std::vector<int> excluded,
                                                             bool aborting,
                                                             const nccl_options& options,
                                                             const std::string& name,
                                                             const patience& until) {
  auto made = begin(
      functions_, options, name, "ncclCommShrink",
      [&](communicator_handle* to, configuration* config) {
        const std::lock_guard lock(mutex_);
        return functions_->shrink(handle_, excluded.data(), static_cast<int>(excluded.size()), to,
                                  config, aborting ? shrink_aborting : 0);
      },
      until);
  adopt(made);
  return made;
}

void nccl_communicator::adopt(const std::shared_ptr<nccl_communicator>& child) {
  const std::lock_guard lock(children_mutex_);
  std::erase_if(children_, [](const auto& one) { return one.expired(); });
  children_.push_back(child);
  if (aborted_.load()) child->abort();
}

void nccl_communicator::launch(const std::function<void(communicator_handle)>& calls,
                               const patience& until) {
  const std::lock_guard lock(mutex_);
  if (aborted_.load()) await("ncclGroupStart", until);
  check(*functions_, functions_->group_start(), "ncclGroupStart", handle_);
  std::exception_ptr why;
  try {
    calls(handle_);
  } catch (...) {
    why = std::current_exception();
  }
  // A group that was begun ends, so that the thread is in none.
  const auto ended = functions_->group_end();
  if (why) std::rethrow_exception(why);
  check(*functions_, ended, "ncclGroupEnd", handle_);
  if (ended == result::in_progress) await("ncclGroupEnd", until);
}

window_handle nccl_communicator::register_window(void* memory, std::size_t size,
                                                 const patience& until) {
  const std::lock_guard lock(mutex_);
  if (aborted_.load()) await("ncclCommWindowRegister", until);
  window_handle out = nullptr;
  check(*functions_, functions_->register_window(handle_, memory, size, &out, symmetric_window),
        "ncclCommWindowRegister", handle_);
  await("ncclCommWindowRegister", until);
  return out;
}

void nccl_communicator::deregister_window(window_handle window) noexcept {
  const std::lock_guard lock(mutex_);
  auto* const handle = handle_.load();
  if (!handle || aborted_.load()) return;
  if (functions_->deregister_window(handle, window) != result::success)
    log().debug("ncclCommWindowDeregister of '{}' has failed", name_);
}

// One that is busy has no error that its caller does not see.
std::exception_ptr nccl_communicator::async_error() {
  if (aborted_.load())
    return std::make_exception_ptr(group_failed("the communicator '" + name_ + "' was aborted"));
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock || !handle_.load()) return nullptr;
  try {
    auto state = result::success;
    check(*functions_, functions_->get_async_error(handle_, &state), "ncclCommGetAsyncError",
          handle_);
    check(*functions_, state, "an operation of NCCL", handle_);
  } catch (const std::exception&) {
    return std::current_exception();
  }
  return nullptr;
}

void nccl_communicator::abort() noexcept {
  if (aborted_.exchange(true)) return;
  std::vector<std::weak_ptr<nccl_communicator>> children;
  {
    const std::lock_guard lock(children_mutex_);
    children = children_;
  }
  for (const auto& one : children)
    if (const auto child = one.lock()) child->abort();
  // Whoever waits sees that it is aborted, and lets go.
  std::unique_lock lock(mutex_, std::defer_lock);
  const auto until = clock::now() + most_wait_for_call;
  while (!lock.try_lock() && clock::now() < until) std::this_thread::sleep_for(100us);
  auto* const handle = handle_.exchange(nullptr);
  if (!handle) return;
  if (const auto ended = functions_->abort(handle);
      ended != result::success && ended != result::in_progress)
    log().warn("ncclCommAbort of '{}' has failed: {}", name_, functions_->get_error_string(ended));
}

// Others may still get what this rank has sent: NCCL waits for that, but not for ever.
void nccl_communicator::end() noexcept {
  auto* const handle = handle_.load();
  if (!handle) return;
  const auto until = clock::now() + farewell;
  auto state = functions_->finalize(handle);
  pause next;
  while (state == result::in_progress && clock::now() < until) {
    next();
    if (functions_->get_async_error(handle, &state) != result::success) break;
  }
  if (state != result::success) return abort();
  handle_ = nullptr;
  if (functions_->destroy(handle) != result::success)
    log().debug("ncclCommDestroy of '{}' has failed", name_);
}

nccl_communicator::~nccl_communicator() { end(); }

}  // namespace troupe::groups::nccl
