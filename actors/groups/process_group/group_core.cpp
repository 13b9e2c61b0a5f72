#include "troupe/actors/groups/process_group/group_core.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "troupe/actors/groups/backend/backend_registry.hpp"
#include "troupe/actors/groups/network/eviction.hpp"
#include "troupe/actors/groups/process_group/full_check.hpp"
#include "troupe/actors/groups/tracing/debug_level.hpp"
#include "troupe/actors/node/node_core.hpp"
#include "troupe/messages/base/log.hpp"

namespace troupe::groups {

namespace {

template <class T>
bool is_a(const std::exception_ptr& why) {
  try {
    std::rethrow_exception(why);
  } catch (const T&) {
    return true;
  } catch (...) {
    return false;
  }
}

bool is_abort(const std::exception_ptr& why) { return is_a<group_failed>(why); }

constexpr std::uint64_t bit_of(c10::DeviceType device) noexcept {
  return std::uint64_t{1} << static_cast<unsigned>(device);
}

// Messages do what is on the CPU. Tensors of "any" device go through the host, but those without
// memory.
std::uint64_t devices_of(const std::map<std::string, std::string>& backends) {
  auto out = bit_of(c10::DeviceType::CPU);
  for (const auto& [device, name] : backends)
    out |=
        device == any_device ? ~bit_of(c10::DeviceType::Meta) : bit_of(c10::Device(device).type());
  return out;
}

}  // namespace

std::shared_ptr<group_core> group_core::make(group_description about,
                                             std::shared_ptr<network::group_channel> channel,
                                             std::weak_ptr<node_core> node,
                                             std::function<void()> over) {
  std::shared_ptr<group_core> made(
      new group_core(std::move(about), std::move(channel), std::move(node), std::move(over)));
  made->watch_channel();
  return made;
}

group_core::group_core(group_description about, std::shared_ptr<network::group_channel> channel,
                       std::weak_ptr<node_core> node, std::function<void()> over)
    : about_(std::move(about)),
      channel_(std::move(channel)),
      node_(std::move(node)),
      over_(std::move(over)),
      queue_(std::make_shared<work_queue>(channel_->driver())),
      devices_(devices_of(about_.backends)),
      timeout_(about_.timeout) {}

group_core::~group_core() { destroy(); }

void group_core::watch_channel() {
  channel_->watch([weak = weak_from_this()](const std::exception_ptr& why) {
    if (const auto self = weak.lock()) self->fail(why);
  });
}

std::shared_ptr<node_core> group_core::node() const {
  auto found = node_.lock();
  if (!found) throw not_initialized(fmt::format("the node of group '{}' has ended", about_.name));
  return found;
}

bool group_core::destroyed() const {
  const std::lock_guard lock(mutex_);
  return destroyed_;
}

std::exception_ptr group_core::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void group_core::check_usable() const {
  if (!failed_.load(std::memory_order_acquire)) [[likely]]
    return;
  const auto why = describe(failure(), {}, {});
  fault f;
  f.code = errc::cancelled;
  f.text = destroyed() ? why.text
                       : fmt::format(
                             "group '{}' takes no more operations on rank {}, since it has "
                             "failed: {}. Shrink it, or make another one.",
                             about_.name, about_.rank, why.text);
  throw group_failed(std::move(f));
}

void group_core::establish() {
  check_usable();
  if (ready_.load(std::memory_order_acquire)) return;
  // As a turn of its own: of several threads one agrees with the other ranks.
  queue_->enter();
  const work_queue::turn turn(*queue_);
  establish_in_turn();
}

void group_core::establish_in_turn() {
  if (ready_.load(std::memory_order_acquire)) return;
  std::unique_ptr<group_backends> made;
  try {
    made = agree_on(about_, channel_, *node(), timeout());
  } catch (...) {
    fail(std::current_exception());
    throw;
  }
  std::exception_ptr why;
  std::vector<std::shared_ptr<backend>> all;
  {
    const std::lock_guard lock(mutex_);
    made_ = std::move(made);
    ready_.store(made_.get(), std::memory_order_release);
    why = failure_;
    if (why) all = backends();
  }
  if (get_debug_level() != debug_level::off) log_made();
  // It has failed meanwhile, and nobody has aborted these.
  for (const auto& one : all) one->abort(why);
}

// Before anything is asked for: the mistake is this rank's alone. Hot path.
void group_core::check_device(c10::DeviceType device, operation_kind kind) const {
  if ((devices_ & bit_of(device)) != 0) [[likely]]
    return;
  throw invalid_argument(
      fmt::format("No backend type associated with device type {}: {} of group '{}' has its "
                  "tensors there. Name a backend for it when the group is made, or move them",
                  c10::DeviceTypeName(device, true), to_string(kind), about_.name));
}

// Hot path.
backend& group_core::backend_for(const operation& what) const {
  auto& all = *ready_.load(std::memory_order_acquire);
  for (const auto& one : all.of(what.device))
    if (one->supports(what.kind, what.dtype, what.device)) return *one;
  if (what.device != c10::DeviceType::CPU && all.of(what.device).empty())
    for (const auto& one : all.of(c10::DeviceType::CPU))
      if (one->supports(what.kind, what.dtype, c10::DeviceType::CPU)) return *one;
  throw invalid_argument(fmt::format("no backend of group '{}' has {} for {} on {}", about_.name,
                                     to_string(what.kind), c10::toString(what.dtype),
                                     c10::DeviceTypeName(what.device, true)));
}

std::string group_core::backend_of(operation_kind kind, c10::ScalarType dtype,
                                   c10::DeviceType device) {
  check_usable();
  check_device(device, kind);
  operation what;
  what.kind = kind;
  what.dtype = dtype;
  what.device = device;
  // Backends go in a turn too.
  queue_->enter();
  const work_queue::turn turn(*queue_);
  check_usable();
  establish_in_turn();
  return std::string(backend_for(what).name());
}

// Hot path.
void group_core::run(prepared_call& call) {
  check_usable();
  check_device(call.what().device, call.what().kind);
  const auto sequence = queue_->try_enter();
  if (sequence == 0) return start(std::move(call)).wait();
  const work_queue::turn turn(*queue_);
  auto& what = call.bind();
  what.sequence = sequence;
  const auto record = schedule(what, operation_state::started);
  auto* const on_stream = execute(call, record, true);
  call.finish();
  if (on_stream) [[unlikely]]
    watch_on_stream(*on_stream, what, record, nullptr, nullptr);
}

// In its turn. Returns who has put it on a stream, where it ends later. Hot path.
stream_backend* group_core::execute(prepared_call& call, std::uint64_t record, bool started) {
  auto& what = call.bind();
  std::exception_ptr why;
  bool refused = false;
  try {
    if (failed_.load(std::memory_order_acquire)) [[unlikely]]
      std::rethrow_exception(failure());
    if (!ready_.load(std::memory_order_acquire)) [[unlikely]]
      establish_in_turn();
    if (!started) recorder_.start(record);
    refused = true;
    auto& by = backend_for(what);
    by.check(what);
    call.check_steps();
    refused = false;
    const time_limit limit(timeout_.load(std::memory_order_relaxed));
    if (ready_.load(std::memory_order_relaxed)->checks_in_full) [[unlikely]]
      check_in_full(*channel_, about_, what, details_.find(record), limit);
    call.make_dense();
    auto* const on_stream = by.on_streams();
    if (what.device != c10::DeviceType::CPU && !on_stream) [[unlikely]]
      use_host(call);
    by.run(what, limit);
    if (on_stream) [[unlikely]]
      return on_stream;
    recorder_.complete(record);
    last_completed_.store(what.sequence, std::memory_order_relaxed);
    if (has_hooks_.load(std::memory_order_relaxed)) [[unlikely]]
      notify_hooks(place_of(what), nullptr);
    return nullptr;
  } catch (...) {
    why = std::current_exception();
  }
  recorder_.fail(record);
  // What no backend can do fails on all ranks alike, before anything was sent: the group goes on.
  if (!refused) why = in_detail(what, record, failed_at(place_of(what), why));
  notify_hooks(place_of(what), why);
  std::rethrow_exception(why);
}

// An operation has failed by `why`. Returns what to throw, and the group has failed.
std::exception_ptr group_core::failed_at(const operation_place& where,
                                         const std::exception_ptr& why) {
  // Another rank has aborted a backend: why so, the network tells, a moment before or after.
  if (is_abort(why) && !failure()) await_failure();
  const auto before = failure();
  if (before && is_abort(why)) return error_at(where, before);
  // What a backend has found says where; what it was aborted with, or has got of others, does not.
  const auto placed =
      describe(why, {}, {}).text.starts_with(to_string(where)) ? why : error_at(where, why);
  if (!before) fail(placed);
  return placed;
}

void group_core::await_failure() noexcept {
  try {
    channel_->driver()->wait(known_, clock::now() + std::chrono::milliseconds(50));
  } catch (const std::exception&) {
    // The node ends.
  }
}

// Under the lock.
std::vector<std::shared_ptr<backend>> group_core::backends() const {
  return made_ ? made_->all() : std::vector<std::shared_ptr<backend>>();
}

// Backends are aborted without the lock: that of the network fails the channel, which calls this.
void group_core::fail(std::exception_ptr why) noexcept {
  // The others know what comes from the channel, and are told of all else.
  const bool known = channel_->failure() != nullptr;
  std::vector<std::shared_ptr<backend>> all;
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return;
    failure_ = why;
    failed_.store(true, std::memory_order_release);
    all = backends();
  }
  for (const auto& one : all) one->abort(why);
  channel_->driver()->finish(known_);
  if (!known) channel_->send_failure(describe(why, {}, {}));
  channel_->fail(why);
  if (get_debug_level() != debug_level::off)
    log().warn("group '{}' has failed on rank {}: {}", about_.name, about_.rank,
               describe(why, {}, {}).text);
  // A node or an actor that ends while nothing is under way is no failure.
  const bool is_end = is_a<not_initialized>(why) || is_a<actor_down>(why);
  if (is_end && last_completed() == last_sequence()) return;
  // Other groups of a lost node come first: their operations end then.
  if (auto self = weak_from_this().lock();
      !self || !network::eviction::defer([self] { self->write_trace(); }))
    write_trace();
}

void group_core::destroy() noexcept {
  const auto why = std::make_exception_ptr(group_failed(
      fmt::format("group '{}' has been destroyed on rank {}", about_.name, about_.rank)));
  std::vector<std::shared_ptr<backend>> all;
  bool again = false;
  {
    const std::lock_guard lock(mutex_);
    again = std::exchange(destroyed_, true);
    if (!again) {
      failure_ = why;
      failed_.store(true, std::memory_order_release);
      all = backends();
    }
  }
  if (again) return await_end();
  channel_->send_leave(last_sequence());
  for (const auto& one : all) {
    if (auto* const on_streams = one->on_streams())
      on_streams->leave(why);
    else
      one->abort(why);
  }
  channel_->fail(why);
  all.clear();
  queue_->close();
  // One that runs on a thread of the program ends soon, and uses them no more. The queue's own
  // thread gets here when it drops the last handle, after its operation.
  const bool waits = !queue_->is_worker();
  const bool entered = waits && queue_->enter_to_end();
  std::unique_ptr<group_backends> made;
  {
    const std::lock_guard lock(mutex_);
    made = std::move(made_);
    ready_ = nullptr;
  }
  made.reset();
  if (entered) queue_->leave();
  over_();
  channel_->driver()->finish(gone_);
}

// Another thread destroys it.
void group_core::await_end() noexcept {
  if (gone_.ready() || queue_->is_worker()) return;
  try {
    auto& driver = *channel_->driver();
    if (driver.simulated())
      driver.wait(gone_, never);
    else
      engine::wait_without_network(gone_, never);
  } catch (const std::exception&) {
    // The simulation is over.
  }
}

work group_core::start(prepared_call&& call) {
  check_usable();
  check_device(call.what().device, call.what().kind);
  if (call.what().device != c10::DeviceType::CPU) [[unlikely]]
    return start_on_device(std::move(call));
  auto held = std::make_shared<prepared_call>(std::move(call));
  auto state = std::make_shared<work_state>(channel_->driver(), place_of(held->what()), queue_);
  try {
    queue_->push([&](std::uint64_t sequence) -> work_queue::item {
      auto& what = held->bind();
      what.sequence = sequence;
      state->set_sequence(sequence);
      const auto record = schedule(what);
      return [self = shared_from_this(), held, state, record](std::uint64_t) {
        self->run_started(held, state, record);
      };
    });
  } catch (const std::runtime_error&) {
    check_usable();
    throw;
  }
  return work(std::move(state));
}

void group_core::run_started(const std::shared_ptr<prepared_call>& call,
                             const std::shared_ptr<work_state>& state,
                             std::uint64_t record) noexcept {
  try {
    state->begin();
    auto* const on_stream = execute(*call, record, false);
    call->finish();
    if (on_stream) return watch_on_stream(*on_stream, call->what(), record, call, state);
    state->complete({call->results().begin(), call->results().end()});
  } catch (...) {
    const auto why = std::current_exception();
    if (call->what().device != c10::DeviceType::CPU) keep_on_device(call);
    state->fail(why);
  }
}

void group_core::wait_for_pending() {
  queue_->enter_in_order();
  queue_->leave();
  if (const auto by = backend_on_streams()) by->on_streams()->wait_until_idle();
}

void group_core::add_hook(std::function<void(const completed_work&)> hook) {
  const std::lock_guard lock(mutex_);
  hooks_.push_back(std::move(hook));
  has_hooks_ = true;
}

void group_core::notify_hooks(const operation_place& what, const std::exception_ptr& why) noexcept {
  std::vector<std::function<void(const completed_work&)>> all;
  {
    const std::lock_guard lock(mutex_);
    all = hooks_;
  }
  for (const auto& one : all) {
    try {
      one({to_string(what.kind), what.sequence, why});
    } catch (...) {
      log().warn("a completion hook of group '{}' has thrown: {}", about_.name,
                 describe(std::current_exception(), {}, {}).text);
    }
  }
}

}  // namespace troupe::groups
