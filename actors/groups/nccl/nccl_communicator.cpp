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
constexpr auto most_farewell = 5s;
// A thread inside of NCCL comes out of it soon, since no call blocks; then it sees the abort.
constexpr auto most_wait_for_call = 10s;

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

void nccl_communicator::check_not_aborted(const patience& until) const {
  if (!aborted_.load()) return;
  if (auto why = until.problem()) std::rethrow_exception(why);
  throw transport_error("the communicator '" + name_ + "' was aborted");
}

// Waits until what was asked for is done. Pre: `mutex_` is held.
void nccl_communicator::await(const char* function, const patience& until) {
  pause next;
  for (;;) {
    check_not_aborted(until);
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

std::shared_ptr<nccl_communicator> nccl_communicator::make(
    std::shared_ptr<const nccl_functions> functions, const nccl_options& options,
    const std::string& name, int size, const unique_id& id, int rank, const patience& until) {
  std::shared_ptr<nccl_communicator> out(new nccl_communicator(std::move(functions), name));
  auto config = options.for_version(out->functions_->version, out->name_);
  // Of a new one the handle is there at once.
  communicator_handle made = nullptr;
  const auto begun = out->functions_->init_rank_config(&made, size, id, rank, &config);
  out->handle_ = made;
  try {
    check(*out->functions_, begun, "ncclCommInitRankConfig", made);
    const std::lock_guard lock(out->mutex_);
    out->await("ncclCommInitRankConfig", until);
  } catch (...) {
    // Half made, it can only be aborted.
    out->abort();
    throw;
  }
  return out;
}

// This one takes part in it, and is not ready before. If that is given up, what NCCL still makes is
// ended by the abort of this one.
std::shared_ptr<nccl_communicator> nccl_communicator::make_child(const nccl_options& options,
                                                                 const std::string& name,
                                                                 const char* function,
                                                                 const maker& make,
                                                                 const patience& until) {
  std::shared_ptr<nccl_communicator> out(new nccl_communicator(functions_, name));
  auto config = options.for_version(functions_->version, out->name_);
  {
    const auto place = std::make_shared<slot>();
    const std::lock_guard lock(mutex_);
    check_not_aborted(until);
    slots_.push_back(place);
    check(*functions_, make(&place->handle, &config), function, handle_);
    await(function, until);
    std::erase(slots_, place);
    out->handle_ = place->handle;
  }
  if (!out->handle_) return nullptr;
  try {
    const std::lock_guard lock(out->mutex_);
    out->await(function, until);
  } catch (...) {
    out->abort();
    throw;
  }
  adopt(out);
  return out;
}

std::shared_ptr<nccl_communicator> nccl_communicator::split(int color, int key,
                                                            const nccl_options& options,
                                                            const std::string& name,
                                                            const patience& until) {
  return make_child(
      options, name, "ncclCommSplit",
      [&](communicator_handle* to, configuration* config) {
        return functions_->split(handle_, color, key, to, config);
      },
      until);
}

std::shared_ptr<nccl_communicator> nccl_communicator::shrink(std::vector<int> excluded,
                                                             const nccl_options& options,
                                                             const std::string& name,
                                                             const patience& until) {
  return make_child(
      options, name, "ncclCommShrink",
      [&](communicator_handle* to, configuration* config) {
        return functions_->shrink(handle_, excluded.data(), static_cast<int>(excluded.size()), to,
                                  config, 0);
      },
      until);
}

void nccl_communicator::adopt(const std::shared_ptr<nccl_communicator>& child) {
  {
    const std::lock_guard lock(children_mutex_);
    std::erase_if(children_, [](const auto& one) { return one.expired(); });
    children_.push_back(child);
  }
  // An abort that has not seen it.
  if (aborted_.load()) child->abort();
}

void nccl_communicator::launch(const std::function<void(communicator_handle)>& calls,
                               const patience& until) {
  const std::lock_guard lock(mutex_);
  check_not_aborted(until);
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
  // NCCL may write it after this has given up.
  const auto out = std::make_shared<window_handle>(nullptr);
  const std::lock_guard lock(mutex_);
  check_not_aborted(until);
  check(*functions_,
        functions_->register_window(handle_, memory, size, out.get(), symmetric_window),
        "ncclCommWindowRegister", handle_);
  try {
    await("ncclCommWindowRegister", until);
  } catch (...) {
    new std::shared_ptr<window_handle>(out);
    throw;
  }
  return *out;
}

void nccl_communicator::deregister_window(window_handle window) noexcept {
  const std::lock_guard lock(mutex_);
  auto* const handle = handle_.load();
  if (!handle || aborted_.load()) return;
  auto ended = functions_->deregister_window(handle, window);
  const auto until = clock::now() + most_farewell;
  for (pause next; ended == result::in_progress && clock::now() < until; next())
    if (aborted_.load() || functions_->get_async_error(handle, &ended) != result::success) return;
  if (ended != result::success) log().debug("ncclCommWindowDeregister of '{}' has failed", name_);
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
  abort_alone();
  std::vector<std::weak_ptr<nccl_communicator>> children;
  {
    const std::lock_guard lock(children_mutex_);
    children = children_;
  }
  for (const auto& one : children)
    if (const auto child = one.lock()) child->abort();
}

void nccl_communicator::abort_alone() noexcept {
  // Whoever waits sees that it is aborted, and lets go.
  aborted_ = true;
  const std::lock_guard one_at_a_time(abort_mutex_);
  std::unique_lock lock(mutex_, std::defer_lock);
  const auto until = clock::now() + most_wait_for_call;
  while (!lock.try_lock() && clock::now() < until) std::this_thread::sleep_for(100us);
  auto* const handle = handle_.exchange(nullptr);
  if (!handle) return;
  const auto end_one = [&](communicator_handle what) {
    const auto ended = functions_->abort(what);
    if (ended != result::success && ended != result::in_progress)
      log().warn("ncclCommAbort of '{}' has failed: {}", name_,
                 functions_->get_error_string(ended));
  };
  end_one(handle);
  // Made by NCCL after nobody has waited for them any more: its threads have ended now.
  for (const auto& one : std::exchange(slots_, {}))
    if (one->handle) end_one(one->handle);
}

void nccl_communicator::end() noexcept {
  auto* const handle = handle_.load();
  if (!handle) return;
  const auto until = clock::now() + most_farewell;
  auto state = functions_->finalize(handle);
  for (pause next; state == result::in_progress && clock::now() < until; next())
    if (functions_->get_async_error(handle, &state) != result::success) break;
  if (state != result::success) return abort_alone();
  handle_ = nullptr;
  if (functions_->destroy(handle) != result::success)
    log().debug("ncclCommDestroy of '{}' has failed", name_);
}

nccl_communicator::~nccl_communicator() { end(); }

}  // namespace troupe::groups::nccl
