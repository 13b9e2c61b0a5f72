#include "troupe/transport/auth/record_cipher.hpp"

#include <aegis.h>
#include <aegis128l.h>
#include <aegis128x2.h>
#include <sodium.h>

#include <algorithm>
#include <cstring>

namespace troupe::transport {

namespace {

// Copied, and then protected while the core's nearest cache has it.
constexpr std::size_t copied_at_once = 8 * 1024;

const std::uint8_t* raw(const std::byte* p) { return reinterpret_cast<const std::uint8_t*>(p); }
std::uint8_t* raw(std::byte* p) { return reinterpret_cast<std::uint8_t*>(p); }

// Authenticates, and hides nothing. What it computes with is not wiped: that is no more than one
// record's, on a stack that the next record overwrites, and the key beside it lives longer. A part
// of a block is kept for the next `add`.
class mac {
public:
  mac(const std::uint8_t* key, const std::uint8_t* nonce) {
    aegis128x2_mac_init(&state_, key, nonce);
  }
  mac(const mac&) = delete;
  mac& operator=(const mac&) = delete;

  void add(std::span<const std::byte> part) {
    if (part.empty()) return;  // libaegis copies from it, though no byte: null is not allowed there
    aegis128x2_mac_update(&state_, raw(part.data()), part.size());
  }
  void finish(record_cipher::tag& out) {
    aegis128x2_mac_final(&state_, raw(out.data()), out.size());
  }
  // In constant time.
  bool is(std::span<const std::byte, record_cipher::tag_size> given) {
    return aegis128x2_mac_verify(&state_, raw(given.data()), given.size()) == 0;
  }

private:
  aegis128x2_mac_state state_;
};

bool is_brief(std::span<const std::byte> head, std::span<const std::byte> body) noexcept {
  return head.size() + body.size() <= record_cipher::most_brief;
}

// The head and body of a brief record in one piece: where they lie, if that is what they are.
class one_piece {
public:
  one_piece(std::span<const std::byte> head, std::span<const std::byte> body)
      : size_(head.size() + body.size()) {
    if (body.empty() || head.data() + head.size() == body.data()) {
      at_ = head.data();
      return;
    }
    at_ = std::ranges::copy(body, std::ranges::copy(head, copy_.begin()).out).out - size_;
  }
  one_piece(const one_piece&) = delete;
  one_piece& operator=(const one_piece&) = delete;

  const std::uint8_t* data() const noexcept { return raw(at_); }
  std::size_t size() const noexcept { return size_; }

private:
  std::array<std::byte, record_cipher::most_brief> copy_;
  std::size_t size_;
  const std::byte* at_;
};

}  // namespace

record_cipher::record_cipher(stream_protection how, const key& k) : how_(how) {
  std::memcpy(key_.data(), k.data(), key_.size());
  std::memcpy(added_.data(), k.data() + key_.size(), added_.size());
}

record_cipher::~record_cipher() {
  sodium_memzero(key_.data(), key_.size());
  sodium_memzero(added_.data(), added_.size());
}

record_cipher::bytes16 record_cipher::next_nonce() noexcept {
  auto nonce = added_;
  std::uint64_t low;
  std::memcpy(&low, nonce.data(), sizeof low);
  low ^= number_++;
  std::memcpy(nonce.data(), &low, sizeof low);
  return nonce;
}

void record_cipher::seal(std::span<const std::byte> head, std::span<const std::byte> body,
                         std::byte* sealed, tag& out) noexcept {
  if (how_ == stream_protection::off) return;
  const auto nonce = next_nonce();
  if (encrypts()) {
    aegis128x2_encrypt_detached(raw(sealed), raw(out.data()), out.size(), raw(body.data()),
                                body.size(), raw(head.data()), head.size(), nonce.data(),
                                key_.data());
    return;
  }
  if (is_brief(head, body)) {
    const one_piece all(head, body);
    aegis128l_encrypt_detached(nullptr, raw(out.data()), out.size(), nullptr, 0, all.data(),
                               all.size(), nonce.data(), key_.data());
    return;
  }
  mac said(key_.data(), nonce.data());
  said.add(head);
  said.add(body);
  said.finish(out);
}

void record_cipher::seal_copy(std::span<const std::byte> head, std::span<const std::byte> body,
                              std::byte* copy, tag& out) noexcept {
  if (how_ == stream_protection::off) return;
  // libaegis reads each byte once, as it may write to where it reads from: both the encrypted bytes
  // and the tag are of one state of `body`, though that may change meanwhile.
  if (encrypts()) return seal(head, body, copy, out);
  if (is_brief(head, body)) {
    std::ranges::copy(body, copy);
    return seal(head, {copy, body.size()}, copy, out);
  }
  const auto nonce = next_nonce();
  mac said(key_.data(), nonce.data());
  said.add(head);
  for (std::size_t at = 0; at < body.size(); at += copied_at_once) {
    const auto part = std::min(copied_at_once, body.size() - at);
    std::memcpy(copy + at, body.data() + at, part);
    said.add({copy + at, part});
  }
  said.finish(out);
}

bool record_cipher::open(std::span<const std::byte> head, std::span<std::byte> body,
                         std::span<const std::byte, tag_size> given) noexcept {
  if (how_ == stream_protection::off) return true;
  const auto nonce = next_nonce();
  if (encrypts())
    return aegis128x2_decrypt_detached(raw(body.data()), raw(body.data()), body.size(),
                                       raw(given.data()), given.size(), raw(head.data()),
                                       head.size(), nonce.data(), key_.data()) == 0;
  if (is_brief(head, body)) {
    const one_piece all(head, body);
    return aegis128l_decrypt_detached(nullptr, nullptr, 0, raw(given.data()), given.size(),
                                      all.data(), all.size(), nonce.data(), key_.data()) == 0;
  }
  mac said(key_.data(), nonce.data());
  said.add(head);
  said.add(body);
  return said.is(given);
}

}  // namespace troupe::transport
