// Values there and back: through the archive alone, or sealed, carried over and opened again.
#pragma once

#include <caf/actor_cast.hpp>
#include <caf/actor_config.hpp>
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/scoped_actor.hpp>

#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "troupe/messages/codec/archive.hpp"
#include "troupe/messages/codec/message_codec.hpp"
#include "troupe/messages/envelope/envelope.hpp"
#include "troupe/messages/memory/storage_pool.hpp"
#include "troupe/messages/tensor/tensor_reader.hpp"
#include "troupe/messages/tensor/tensor_writer.hpp"

namespace troupe::testing {

/// An actor, for its handle.
class some_actor {
public:
  some_actor() : system_(config_.set("scheduler.max-threads", 1)), self_(system_) {}
  caf::actor handle() const { return caf::actor(self_); }

private:
  caf::actor_system_config config_;
  caf::actor_system system_;
  caf::scoped_actor self_;
};

/// Handles as numbers, from 1; 0 is no actor.
class numbered_handles final : public handle_translator {
public:
  void write(encoder& out, const caf::strong_actor_ptr& handle) override {
    if (handle) known_.push_back(handle);
    out.put(static_cast<std::uint64_t>(handle ? known_.size() : 0));
  }

  caf::strong_actor_ptr read(decoder& in) override {
    const auto number = in.get<std::uint64_t>();
    if (number > known_.size()) throw decode_error("there is no actor of that number");
    return number == 0 ? nullptr : known_[static_cast<std::size_t>(number) - 1];
  }

private:
  std::vector<caf::strong_actor_ptr> known_;
};

template <class T>
std::vector<std::byte> encode(const T& x, handle_translator* handles = nullptr) {
  encoder out(nullptr, handles);
  out.put(x);
  return out.take();
}

template <class T>
T decode(std::span<const std::byte> bytes, handle_translator* handles = nullptr) {
  decoder in(bytes, nullptr, handles);
  auto x = in.get<T>();
  in.expect_end();
  return x;
}

/// A message as it lies at the receiver.
using arrived_message = std::pair<frame, std::vector<incoming_payload>>;

inline arrived_message carry(const sealed_envelope& sealed) {
  arrived_message out;
  out.first = frame(sealed.bytes.bytes());
  for (const auto& payload : sealed.payloads) {
    storage_pool pool;
    auto& to = out.second.emplace_back();
    to.data = pool.allocate(payload.size);
    to.size = payload.size;
    if (payload.size > 0) std::memcpy(to.data.get(), payload.data, payload.size);
  }
  return out;
}

template <class T>
sealed_envelope seal_value(const T& x, envelope_header header = {},
                           handle_translator* handles = nullptr) {
  tensor_writer tensors;
  encoder out(&tensors, handles);
  out.put(x);
  return seal(header, out.bytes(), &tensors);
}

template <class T>
T read_value(opened_envelope& envelope, handle_translator* handles = nullptr) {
  decoder in(envelope.body(), envelope.tensors(), handles);
  auto x = in.get<T>();
  in.expect_end();
  return x;
}

/// Through an envelope and out again.
template <class T>
T send(const T& x, handle_translator* handles = nullptr) {
  auto [bytes, payloads] = carry(seal_value(x, {}, handles));
  opened_envelope opened(std::move(bytes), std::move(payloads));
  return read_value<T>(opened, handles);
}

}  // namespace troupe::testing
