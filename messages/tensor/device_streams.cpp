#include "troupe/messages/tensor/device_streams.hpp"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <list>
#include <mutex>

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

c10::Stream current_of(const c10::Stream& stream) {
  return guard_of(stream).getStream(stream.device());
}

void note_use(const std::vector<weak_storage>& made, const c10::Stream& on) {
  for (const auto& weak : made)
    if (const auto storage = weak.lock(); storage && storage->device() == on.device())
      guard_of(on).recordDataPtrOnStream(storage->data_ptr(), on);
}

void set_current(const c10::Stream& stream) noexcept {
  try {
    guard_of(stream).exchangeStream(stream);
  } catch (const std::exception&) {
    // The device has failed, which whoever uses it next finds.
  }
}

// Memory that streams still read, of all nodes of the process: looked through when more comes.
class kept_storages {
public:
  void add(const stream_list& streams, std::vector<c10::Storage>&& what) {
    std::list<entry> done;  // dropped after the lock
    const std::lock_guard lock(mutex_);
    for (auto at = all_.begin(); at != all_.end();) {
      const auto next = std::next(at);
      if (at->is_done()) done.splice(done.end(), all_, at);
      at = next;
    }
    entry mine{{}, std::move(what)};
    for (const auto& stream : streams) {
      auto& event = mine.until.emplace_back(stream.device_type());
      event.record(stream);
    }
    if (!mine.is_done()) all_.push_back(std::move(mine));
  }

private:
  struct entry {
    std::vector<c10::Event> until;
    std::vector<c10::Storage> what;

    bool is_done() const {
      return std::all_of(until.begin(), until.end(), [](const auto& e) { return e.query(); });
    }
  };

  std::mutex mutex_;
  std::list<entry> all_;
};

}  // namespace

stream_events::stream_events(const device_work& work) : made_(work.made) {
  events_.reserve(work.streams.size());
  for (const auto& stream : work.streams) {
    events_.push_back({stream, c10::Event(stream.device_type())});
    events_.back().reached.record(stream);
  }
}

void stream_events::block_current() const {
  auto* const scope = stream_scope::here();
  for (const auto& event : events_) {
    const auto current = current_of(event.stream);
    if (current != event.stream) {
      event.reached.block(current);
      note_use(made_, current);
    }
    if (scope) scope->touch(event.stream.device());
  }
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
  for (const auto& stream : work_.streams)
    if (stream.device() == device) return;
  work_.streams.push_back(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
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
  for (auto* scope = outer_; scope; scope = scope->outer_)
    for (const auto& stream : scope->before_) set_current(stream);
  stream_scope::here_ = nullptr;
}

void no_streams::come_back() noexcept {
  std::vector<stream_scope*> all;
  for (auto* scope = outer_; scope; scope = scope->outer_) all.push_back(scope);
  for (auto scope = all.rbegin(); scope != all.rend(); ++scope)
    for (std::size_t i = 0; i < (*scope)->before_.size(); ++i)
      set_current((*scope)->work_.streams[i]);
  stream_scope::here_ = outer_;
}

std::shared_ptr<const device_work> current_work() {
  const auto* const scope = stream_scope::here();
  if (!scope || scope->empty()) return nullptr;
  auto out = std::make_shared<device_work>(scope->work());
  for (auto& stream : out->streams) stream = current_of(stream);  // the program may have set others
  return out;
}

std::shared_ptr<const stream_events> reached_here() {
  const auto work = current_work();
  return work ? std::make_shared<stream_events>(*work) : nullptr;
}

void hand_to_default(const device_work* work) {
  if (!work) return;
  for (const auto& stream : work->streams) {
    const auto all = default_of(stream);
    let_wait(all, stream);
    note_use(work->made, all);
  }
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

void keep_until_done(const stream_list& streams, std::vector<c10::Storage>&& what) {
  static auto* const kept = new kept_storages;  // streams may read until the process ends
  kept->add(streams, std::move(what));
}

}  // namespace troupe::detail
