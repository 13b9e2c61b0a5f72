// Operations of a group whose tensors are on devices.

#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "troupe/actors/groups/backend/backend_registry.hpp"
#include "troupe/actors/groups/process_group/group_core.hpp"
#include "troupe/messages/base/log.hpp"
#include "troupe/messages/tensor/current_stream.hpp"

namespace troupe::groups {

namespace {

std::shared_ptr<c10::Event> event_on(const c10::Stream& stream) {
  auto out = std::make_shared<c10::Event>(stream.device_type());
  out->record(stream);
  return out;
}

// While it lives, a stream of the operation's own is the current one of the device, and is behind
// what the caller's stream had in hand when the operation was asked for.
class own_stream {
public:
  own_stream(const c10::Stream& stream, const c10::Event& behind) : current_(stream) {
    behind.block(stream);
  }

private:
  const c10::StreamGuard current_;
};

}  // namespace

stream_backend* group_core::stream_backend_for(const operation& what) {
  if (what.device == c10::DeviceType::CPU) return nullptr;
  check_usable();
  check_device(what.device, what.kind);
  establish();
  const auto& all = ready_.load(std::memory_order_acquire)->of(what.device);
  for (const auto& one : all)
    if (one->supports(what.kind, what.dtype, what.device)) return one->on_streams();
  return nullptr;
}

std::shared_ptr<backend> group_core::backend_on_streams() const {
  const std::lock_guard lock(mutex_);
  for (const auto& one : backends())
    if (one->on_streams()) return one;
  return {};
}

int group_core::connections() const {
  const auto by = backend_on_streams();
  return by ? by->on_streams()->connections() : 0;
}

// In a turn of its own. If it fails, the ranks no longer agree on what there is.
template <class Result>
Result group_core::with_connections(function_ref<Result(stream_backend&, const time_limit&)> make) {
  const auto by = backend_on_streams();
  if (!by) return {};
  queue_->enter_in_order();
  const work_queue::turn turn(*queue_);
  check_usable();
  try {
    return make(*by->on_streams(), time_limit(timeout()));
  } catch (const invalid_argument&) {
    throw;  // of all ranks alike, before anything was sent
  } catch (...) {
    const auto why = failed_at(place_of({}), std::current_exception());
    std::rethrow_exception(why);
  }
}

std::shared_ptr<inherited_connections> group_core::split_connections(int count, int color,
                                                                     int key) {
  return with_connections<std::shared_ptr<inherited_connections>>(
      [&](stream_backend& by, const time_limit& limit) {
        return by.split(count, color, key, limit);
      });
}

std::shared_ptr<inherited_connections> group_core::shrink_connections(
    int count, const std::vector<int>& excluded) {
  return with_connections<std::shared_ptr<inherited_connections>>(
      [&](stream_backend& by, const time_limit& limit) {
        return by.shrink(count, excluded, limit);
      });
}

c10::DataPtr group_core::allocate_symmetric(std::size_t bytes, c10::Device device) {
  check_usable();
  establish();
  const auto& all = ready_.load(std::memory_order_acquire)->of(device.type());
  if (std::ranges::none_of(all, [](const auto& one) { return one->on_streams() != nullptr; }))
    throw invalid_argument(fmt::format(
        "empty_symmetric: group '{}' has no backend for {}, which could register memory",
        about_.name, device.str()));
  return with_connections<c10::DataPtr>([&](stream_backend& by, const time_limit& limit) {
    return by.allocate_symmetric(bytes, device, limit);
  });
}

void group_core::adopt(std::shared_ptr<inherited_connections> what) {
  if (const auto by = backend_on_streams(); by && what) by->on_streams()->adopt(std::move(what));
}

// The backend works in host memory.
void group_core::use_host(prepared_call& call) const {
  if (about_.backends.contains(std::string(any_device)) && !told_host_.exchange(true))
    log().warn(
        "group '{}' copies tensors on {} through the host, which is slow: it has no backend for "
        "that device. Name one when the group is made, as in \"cpu:troupe,cuda:nccl\"",
        about_.name, c10::DeviceTypeName(call.what().device, true));
  call.move_to_host();
  call.bind();
}

// Where nothing is in its way a stream gets it now, on the calling thread. What the host has to do
// itself would hold the caller up.
work group_core::start_on_device(prepared_call&& call) {
  const auto held = std::make_shared<prepared_call>(std::move(call));
  auto& what = held->bind();
  const auto device = held->device();
  auto* const on_streams = stream_backend_for(what);
  const auto stream = on_streams ? on_streams->side_stream(device)
                                 : c10::impl::VirtualGuardImpl(device.type())
                                       .getStreamFromGlobalPool(device, /*isHighPriority=*/false);
  const auto ready = event_on(current_stream(device));
  const auto state = std::make_shared<work_state>(channel_->driver(), place_of(what), queue_);
  if (on_streams) state->set_on_stream();
  const auto begin = [this, held, state, stream, ready](std::uint64_t record) {
    try {
      const own_stream on(stream, *ready);
      run_started(held, state, record);
    } catch (...) {
      // Of the device: the operation has not begun.
      stream_operation_ended(record, place_of(held->what()), std::current_exception(), state.get());
    }
  };
  const auto number = [this, held, state](std::uint64_t sequence) {
    held->what().sequence = sequence;
    state->set_sequence(sequence);
    return schedule(held->what());
  };
  if (const auto sequence = on_streams ? queue_->try_enter() : 0; sequence != 0) {
    const work_queue::turn turn(*queue_);
    begin(number(sequence));
    return work(state);
  }
  try {
    queue_->push([&](std::uint64_t sequence) -> work_queue::item {
      return [self = shared_from_this(), begin, record = number(sequence)](std::uint64_t) {
        begin(record);
      };
    });
  } catch (const std::runtime_error&) {
    check_usable();
    throw;
  }
  return work(state);
}

// Pre: it is on the current stream. It ends there later.
void group_core::watch_on_stream(stream_backend& by, const operation& what, std::uint64_t record,
                                 std::shared_ptr<prepared_call> call,
                                 std::shared_ptr<work_state> state) {
  const auto where = place_of(what);
  // Lists of tensors may be empty: then nothing is on any stream.
  if (what.inputs.empty() && what.outputs.empty()) {
    stream_operation_ended(record, where, nullptr, state.get());
    if (state) state->complete({});
    return;
  }
  stream_operation watched;
  watched.end = event_on(current_stream(device_of(what)));
  watched.kind = what.kind;
  watched.sequence = what.sequence;
  if (what.kind == operation_kind::send || what.kind == operation_kind::recv)
    watched.peer = what.peer;
  watched.limit = timeout();
  watched.began = std::chrono::steady_clock::now();
  watched.holds = call;
  if (state) state->put_on_stream(watched.end);
  // The group's handles may all be gone when it ends.
  watched.ended = [weak = weak_from_this(), record, where, call, state](std::exception_ptr why) {
    if (const auto self = weak.lock())
      self->stream_operation_ended(record, where, std::move(why), state.get());
    else if (state && why)
      state->fail(error_at(where, why));
    if (state && !state->result().ready())
      state->complete({call->results().begin(), call->results().end()});
  };
  by.watch(std::move(watched));
}

void group_core::stream_operation_ended(std::uint64_t record, const operation_place& where,
                                        std::exception_ptr why, work_state* state) noexcept {
  if (why) {
    why = failed_at(where, why);
    recorder_.fail(record);
  } else {
    recorder_.complete(record);
    auto last = last_completed_.load(std::memory_order_relaxed);
    while (last < where.sequence && !last_completed_.compare_exchange_weak(last, where.sequence)) {
    }
  }
  if (has_hooks_.load(std::memory_order_relaxed)) notify_hooks(where, why);
  if (state && why) state->fail(why);
}

// A send or recv on a stream, if that is how this group does it.
std::optional<work> group_core::start_alone(prepared_call& call) {
  if (call.what().device == c10::DeviceType::CPU) [[likely]]
    return std::nullopt;
  if (!stream_backend_for(call.bind())) return std::nullopt;
  std::vector<prepared_call> one;
  one.push_back(std::move(call));
  return start_batch(std::move(one)).front();
}

// A letter takes and brings host memory. Pre: make_dense.
void group_core::letter_by_host(prepared_call& call) const {
  if (call.what().device != c10::DeviceType::CPU) [[unlikely]]
    use_host(call);
}

// Another thread writes the output later: nothing that the caller's stream has in hand uses it
// then.
void group_core::finish_device(const prepared_call& call) const {
  if (call.what().device != c10::DeviceType::CPU && call.has_tensors())
    current_stream(call.device()).synchronize();
}

// An operation has failed, but a part of it may be on the current stream.
void group_core::keep_on_device(const std::shared_ptr<prepared_call>& call) const noexcept {
  try {
    const auto by = backend_on_streams();
    if (!by || !call->has_tensors()) return;
    stream_operation kept;
    kept.end = event_on(current_stream(call->device()));
    kept.holds = call;
    kept.limit = timeout();
    kept.began = std::chrono::steady_clock::now();
    kept.ended = [](const std::exception_ptr&) {};
    by->on_streams()->watch(std::move(kept));
  } catch (const std::exception& e) {
    log().debug("the tensors of an operation that has failed are not kept: {}", e.what());
  }
}

// In their turn, as one group of the library's: their order does not matter then.
std::vector<work> group_core::start_batch(std::vector<prepared_call>&& calls) {
  std::vector<std::shared_ptr<prepared_call>> held;
  std::vector<operation*> operations;
  std::vector<std::uint64_t> records;
  std::vector<std::shared_ptr<work_state>> states;
  held.reserve(calls.size());
  for (auto& one : calls) held.push_back(std::make_shared<prepared_call>(std::move(one)));
  auto& by = *stream_backend_for(held.front()->what());
  for (const auto& one : held) by.check(one->bind());
  const auto device = held.front()->device();
  const auto ready = event_on(current_stream(device));
  queue_->enter_in_order();
  const work_queue::turn turn(*queue_);
  check_usable();
  for (const auto& one : held) {
    auto& what = one->what();
    if (one->device() != device)
      throw invalid_argument(
          fmt::format("{}: the tensors of one batch are on one device, and these on {} and {}",
                      to_string(what.kind), device.str(), one->device().str()));
    states.push_back(std::make_shared<work_state>(channel_->driver(), place_of(what), nullptr));
    states.back()->set_on_stream();
    states.back()->begin();
    if (what.kind == operation_kind::recv) states.back()->set_source(what.peer);
    records.push_back(schedule(what, operation_state::started));
    operations.push_back(&what);
  }
  std::vector<work> out;
  out.reserve(states.size());
  for (const auto& one : states) out.emplace_back(one);
  try {
    const own_stream on(by.side_stream(device), *ready);
    for (const auto& one : held) {
      one->make_dense();
      one->bind();
    }
    by.run_together(operations, time_limit(timeout()));
    for (std::size_t i = 0; i < held.size(); ++i) {
      held[i]->finish();
      watch_on_stream(by, held[i]->what(), records[i], held[i], states[i]);
    }
  } catch (...) {
    const auto why = std::current_exception();
    for (std::size_t i = 0; i < held.size(); ++i)
      if (!states[i]->result().ready()) {
        keep_on_device(held[i]);
        stream_operation_ended(records[i], place_of(held[i]->what()), why, states[i].get());
      }
  }
  return out;
}

}  // namespace troupe::groups
