#pragma once

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "troupe/transport/transport.hpp"

namespace troupe::transport::test {

/// Records what a transport delivers.
struct recorder : sink {
  std::vector<incoming_message> messages;
  std::vector<std::pair<rank_t, peer_loss>> lost;

  void on_message(incoming_message&& message) override { messages.push_back(std::move(message)); }
  void on_peer_lost(rank_t peer, peer_loss why) override {
    lost.emplace_back(peer, std::move(why));
  }
};

/// A pool that counts what is out.
class counting_pool : public payload_pool {
public:
  std::shared_ptr<std::byte> allocate(std::size_t size, memory_place) override {
    auto* bytes = static_cast<std::byte*>(std::aligned_alloc(64, (size + 63) / 64 * 64));
    if (!bytes) throw std::bad_alloc();
    out_->fetch_add(1);
    return {bytes, [out = out_](std::byte* p) {
              std::free(p);
              out->fetch_sub(1);
            }};
  }

  long out() const { return out_->load(); }

private:
  std::shared_ptr<std::atomic<long>> out_ = std::make_shared<std::atomic<long>>(0);
};

/// For a payload whose `keep` nobody else uses: outgoing_payload::take.
inline std::shared_ptr<std::byte> take_all(const outgoing_payload& payload) {
  return {std::const_pointer_cast<void>(payload.keep), const_cast<std::byte*>(payload.data)};
}

/// One node and what it has received.
struct node {
  recorder received;
  counting_pool pool;
  std::unique_ptr<transport> net;

  transport* operator->() { return net.get(); }
};

/// Bytes that show where they came from: byte i is a function of `seed` and i.
inline std::byte pattern(std::uint64_t seed, std::size_t i) {
  return static_cast<std::byte>((seed * 31 + i * 7 + (i >> 8) + (i >> 16)) & 0xff);
}

inline frame patterned_frame(std::size_t size, std::uint64_t seed) {
  frame f(size);
  for (std::size_t i = 0; i < size; ++i) f.data()[i] = pattern(seed, i);
  f.resize(size);
  return f;
}

inline outgoing_payload patterned_payload(std::size_t size, std::uint64_t seed) {
  auto bytes = std::make_shared<std::vector<std::byte>>(size);
  for (std::size_t i = 0; i < size; ++i) (*bytes)[i] = pattern(seed, i);
  outgoing_payload p;
  p.data = bytes->data();
  p.size = size;
  p.keep = std::move(bytes);
  return p;
}

inline bool has_pattern(const std::byte* bytes, std::size_t size, std::uint64_t seed) {
  for (std::size_t i = 0; i < size; ++i)
    if (bytes[i] != pattern(seed, i)) return false;
  return true;
}

/// Polls `nodes` until `done` or the deadline; returns whether it was done.
template <class Done, class... Nodes>
bool run_until(Done done, std::chrono::milliseconds limit, Nodes&... nodes) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!done()) {
    (nodes->progress(), ...);
    if (std::chrono::steady_clock::now() > end) return done();
  }
  return true;
}

}  // namespace troupe::transport::test
