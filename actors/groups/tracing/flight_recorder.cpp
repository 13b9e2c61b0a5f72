#include "troupe/actors/groups/tracing/flight_recorder.hpp"

#include <ATen/core/Tensor.h>

#include <algorithm>

namespace troupe::groups {

namespace {

// The words of a slot.
enum word : std::size_t {
  what_word,
  sequence_word,
  inputs_word,
  outputs_word,
  place_word,
  scheduled_word,
  started_word,
  ended_word,
};

constexpr int state_shift = 24;

std::uint64_t elements_in(std::span<const at::Tensor> tensors) noexcept {
  std::uint64_t sum = 0;
  for (const auto& one : tensors) sum += static_cast<std::uint64_t>(one.numel());
  return sum;
}

std::uint64_t now_ns() noexcept {
  return static_cast<std::uint64_t>(
      std::chrono::nanoseconds(clock::recently().time_since_epoch()).count());
}

}  // namespace

const char* to_string(operation_state state) noexcept {
  switch (state) {
    case operation_state::scheduled: return "scheduled";
    case operation_state::started: return "started";
    case operation_state::completed: return "completed";
    case operation_state::failed: return "failed";
  }
  return "unknown";
}

flight_recorder::flight_recorder() : slots_(std::make_unique<slot[]>(capacity)) {}

std::uint64_t flight_recorder::schedule(const operation& what, operation_state state) noexcept {
  const auto id = last_.fetch_add(1, std::memory_order_relaxed) + 1;
  auto& to = slot_of(id);
  // A reader that sees a word of the new record sees that the slot is being written, or its new id.
  to.id.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  const auto put = [&](word where, std::uint64_t value) {
    to.words[where].store(value, std::memory_order_relaxed);
  };
  put(what_word, static_cast<std::uint64_t>(what.kind) |
                     static_cast<std::uint64_t>(what.reduction) << 8 |
                     static_cast<std::uint64_t>(static_cast<std::uint8_t>(what.dtype)) << 16 |
                     static_cast<std::uint64_t>(state) << state_shift);
  put(sequence_word, what.sequence);
  put(inputs_word, elements_in(what.inputs));
  put(outputs_word, elements_in(what.outputs));
  const bool has_peer = what.kind == operation_kind::send || what.kind == operation_kind::recv;
  put(place_word, static_cast<std::uint32_t>(has_peer ? what.peer : what.root) |
                      static_cast<std::uint64_t>(static_cast<std::uint32_t>(what.tag)) << 32);
  const auto now = now_ns();
  put(scheduled_word, now);
  put(started_word, state == operation_state::started ? now : 0);
  put(ended_word, 0);
  to.id.store(id, std::memory_order_release);
  return id;
}

void flight_recorder::advance(std::uint64_t id, operation_state state) noexcept {
  auto& to = slot_of(id);
  if (to.id.load(std::memory_order_relaxed) != id) return;  // newer ones have its place
  const auto at = state == operation_state::started ? started_word : ended_word;
  to.words[at].store(now_ns(), std::memory_order_relaxed);
  auto what = to.words[what_word].load(std::memory_order_relaxed);
  what &= ~(std::uint64_t{0xff} << state_shift);
  what |= static_cast<std::uint64_t>(state) << state_shift;
  to.words[what_word].store(what, std::memory_order_release);
}

std::vector<operation_record> flight_recorder::records() const {
  std::vector<operation_record> out;
  const auto last = last_.load(std::memory_order_acquire);
  for (auto id = last > capacity ? last - capacity + 1 : 1; id <= last; ++id) {
    const auto& from = slot_of(id);
    if (from.id.load(std::memory_order_acquire) != id) continue;
    std::array<std::uint64_t, 8> words{};
    for (std::size_t i = 0; i < words.size(); ++i)
      words[i] = from.words[i].load(std::memory_order_acquire);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (from.id.load(std::memory_order_relaxed) != id) continue;
    operation_record one;
    one.id = id;
    one.kind = static_cast<operation_kind>(words[what_word] & 0xff);
    one.reduction = static_cast<reduce_op>(words[what_word] >> 8 & 0xff);
    one.dtype = static_cast<c10::ScalarType>(words[what_word] >> 16 & 0xff);
    one.state = static_cast<operation_state>(words[what_word] >> state_shift & 0xff);
    one.sequence = words[sequence_word];
    one.inputs = words[inputs_word];
    one.outputs = words[outputs_word];
    one.root = static_cast<int>(static_cast<std::uint32_t>(words[place_word]));
    one.tag = static_cast<int>(words[place_word] >> 32);
    one.scheduled_ns = static_cast<std::int64_t>(words[scheduled_word]);
    one.started_ns = static_cast<std::int64_t>(words[started_word]);
    one.ended_ns = static_cast<std::int64_t>(words[ended_word]);
    out.push_back(one);
  }
  return out;
}

}  // namespace troupe::groups
