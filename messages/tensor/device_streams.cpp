#include "troupe/messages/tensor/device_streams.hpp"

#include <ATen/core/Tensor.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "troupe/messages/tensor/current_stream.hpp"
#include "troupe/messages/tensor/tensor_moves.hpp"

namespace troupe::detail {

namespace {

c10::impl::VirtualGuardImpl guard_of(const c10::Stream& stream) {
  return c10::impl::VirtualGuardImpl(stream.device_type());
}

void let_wait(const c10::Stream& waiting, const c10::Stream& before) {
  if (waiting == before) return;
  c10::Event reached(before.device_type());
  reached.record(before);
  reached.block(waiting);
}

c10::Stream default_of(const c10::Stream& stream) {
  return guard_of(stream).getDefaultStream(stream.device());
}

// Unless there is one of the same device.
void add_stream(stream_list& to, const c10::Stream& stream) {
  const auto same = [&](const auto& one) { return one.device() == stream.device(); };
  if (std::none_of(to.begin(), to.end(), same)) to.push_back(stream);
}

void note_use(const std::vector<weak_storage>& made, const c10::Stream& on) {
  for (const auto& weak : made)
    if (const auto storage = weak.lock(); storage && storage->device() == on.device())
      guard_of(on).recordDataPtrOnStream(storage->data_ptr(), on);
}

// Drops what has ended, and what is there twice.
void tidy(std::vector<weak_storage>& made) {
  std::erase_if(made, [](const weak_storage& one) { return one.expired(); });
  std::sort(made.begin(), made.end());
  made.erase(std::unique(made.begin(), made.end()), made.end());
}

void append(std::vector<weak_storage>& to, const std::vector<weak_storage>& what) {
  to.insert(to.end(), what.begin(), what.end());
}

// Has it a device whose work runs later?
bool lies_on_device(const at::Tensor& x) {
  return x.defined() && !x.device().is_cpu() && device_count(place_of(x.device()).where) > 0;
}

// The memory of `x`, that of its parts if it is sparse.
template <class Visitor>
void each_storage(const at::Tensor& x, Visitor&& look) {
  if (x.layout() == at::kSparse) {
    look(x._indices().storage());
    look(x._values().storage());
  } else if (x.layout() == at::kSparseCsr || x.layout() == at::kSparseBsr) {
    look(x.crow_indices().storage());
    look(x.col_indices().storage());
    look(x.values().storage());
  } else if (x.layout() == at::kSparseCsc || x.layout() == at::kSparseBsc) {
    look(x.ccol_indices().storage());
    look(x.row_indices().storage());
    look(x.values().storage());
  } else if (x.has_storage()) {
    look(x.storage());
  }
}

// Returns the one before.
std::optional<c10::Stream> set_current(const c10::Stream& stream) noexcept {
  try {
    return guard_of(stream).exchangeStream(stream);
  } catch (const std::exception&) {
    return std::nullopt;  // the device has failed, which whoever uses it next finds
  }
}

}  // namespace

void note_made(const at::Tensor& x, device_work& in) {
  if (!lies_on_device(x)) return;
  add_stream(in.streams, current_stream(x.device()));
  each_storage(x, [&](const c10::Storage& one) { in.made.push_back(one.getWeakStorageImpl()); });
}

stream_events::stream_events(device_work&& work) : made_(std::move(work.made)) {
  events_.reserve(work.streams.size());
  for (const auto& stream : work.streams) {
    events_.push_back({stream, c10::Event(stream.device_type())});
    events_.back().reached.record(stream);
  }
}

void stream_events::block_current() const {
  auto* const scope = stream_scope::here();
  for (const auto& event : events_) {
    const auto current = current_stream(event.stream.device());
    if (current != event.stream) {
      event.reached.block(current);
      note_use(made_, current);
    }
    if (scope) scope->touch(event.stream.device());
  }
  if (scope) scope->use(made_);
}

void stream_scope::enter(const device_work& work) {
  work_ = work;
  for (const auto& stream : work_.streams)
    before_.push_back(guard_of(stream).exchangeStream(stream));
}

void stream_scope::leave() noexcept {
  for (const auto& stream : before_) set_current(stream);
}

void stream_scope::touch(const c10::Device& device) {
  add_stream(work_.streams, current_stream(device));
}

void stream_scope::use(const std::vector<weak_storage>& made) {
  append(work_.made, made);
  if (work_.made.size() < tidy_at_) return;
  tidy(work_.made);
  tidy_at_ = std::max<std::size_t>(64, 2 * work_.made.size());
}

handler_streams::handler_streams(const device_work* work) : scope_(work) {
  for (const auto& stream : scope_.work().streams) let_wait(stream, default_of(stream));
}

handler_streams::~handler_streams() {
  if (scope_.empty()) return;
  try {
    hand_to_default(&scope_.work());
  } catch (const std::exception&) {
    // The device has failed, which whoever uses it next finds.
  }
}

void no_streams::leave() noexcept {
  for (auto* scope = outer_; scope; scope = scope->outer_) {
    for (const auto& stream : scope->before_) {
      const auto left = set_current(stream);
      if (left) left_.push_back(*left);
    }
  }
  stream_scope::here_ = nullptr;
}

void no_streams::come_back() noexcept {
  for (auto stream = left_.rbegin(); stream != left_.rend(); ++stream) set_current(*stream);
  stream_scope::here_ = outer_;
}

std::shared_ptr<const device_work> current_work() {
  const auto* const scope = stream_scope::here();
  if (!scope || scope->empty()) return nullptr;
  auto out = std::make_shared<device_work>(scope->work());
  for (auto& stream : out->streams)
    stream = current_stream(stream.device());  // the program may have set others
  return out;
}

std::shared_ptr<const stream_events> reached_here(device_work&& made) {
  if (const auto work = current_work()) {
    for (const auto& stream : work->streams) add_stream(made.streams, stream);
    append(made.made, work->made);
  }
  if (made.streams.empty()) return nullptr;
  tidy(made.made);
  return std::make_shared<stream_events>(std::move(made));
}

void hand_to_default(const device_work* work) {
  if (!work) return;
  for (const auto& stream : work->streams) {
    const auto all = default_of(stream);
    let_wait(all, stream);
    note_use(work->made, all);
  }
}

device_work handed_on(const device_work& work) {
  device_work out{{}, work.made};
  for (const auto& before : work.streams) {
    const auto& stream =
        out.streams.emplace_back(guard_of(before).getStreamFromGlobalPool(before.device()));
    let_wait(stream, before);
    note_use(work.made, stream);
  }
  return out;
}

void take_from_default() {
  for (const auto& [type, count] : devices_here()) {
    for (int i = 0; i < count; ++i) {
      const auto device = device_of({type, static_cast<std::int8_t>(i)});
      const c10::impl::VirtualGuardImpl guard(device.type());
      let_wait(guard.getStream(device), guard.getDefaultStream(device));
    }
  }
}

void take_from_default(const at::Tensor& x) {
  device_work of_x;
  note_made(x, of_x);
  for (const auto& stream : of_x.streams) {
    let_wait(stream, default_of(stream));
    note_use(of_x.made, stream);
  }
}

}  // namespace troupe::detail
