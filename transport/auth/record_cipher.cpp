#include "troupe/transport/auth/record_cipher.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <sodium.h>

#include <algorithm>
#include <cstring>

#include "troupe/messages/base/error.hpp"

namespace troupe::transport {

namespace {

// EVP takes lengths as int.
constexpr std::size_t most_at_once = std::size_t{1} << 30;
// Up to these sizes, libsodium is the faster of the two.
constexpr std::size_t small_authenticated = 1024;
constexpr std::size_t small_encrypted = 384;
constexpr std::size_t copied_at_once = 8 * 1024;

const unsigned char* raw(const std::byte* p) { return reinterpret_cast<const unsigned char*>(p); }
unsigned char* raw(std::byte* p) { return reinterpret_cast<unsigned char*>(p); }

void need(int done) {
  if (done != 1) throw transport_error("OpenSSL cannot protect a connection (AES-256-GCM)");
}

// Puts `in` through the cipher; `out` null: it is authenticated only.
void put(EVP_CIPHER_CTX* context, std::span<const std::byte> in, std::byte* out) {
  while (!in.empty()) {
    const auto part = std::min(in.size(), most_at_once);
    int written = 0;
    need(EVP_CipherUpdate(context, out ? raw(out) : nullptr, &written, raw(in.data()),
                          static_cast<int>(part)));
    in = in.subspan(part);
    if (out) out += part;
  }
}

}  // namespace

struct record_cipher::small_cipher {
  crypto_aead_aes256gcm_state state;
};

void record_cipher::free_small::operator()(small_cipher* one) const noexcept {
  sodium_memzero(one, sizeof *one);
  delete one;
}

void record_cipher::free_context::operator()(evp_cipher_ctx_st* one) const noexcept {
  EVP_CIPHER_CTX_free(one);
}

record_cipher::record_cipher(stream_protection how, const key& k) : how_(how), key_(k) {
  if (how == stream_protection::off) return;
  context_.reset(EVP_CIPHER_CTX_new());
  need(context_ != nullptr);
  if (sodium_init() < 0 || !crypto_aead_aes256gcm_is_available()) return;
  small_.reset(new small_cipher);
  crypto_aead_aes256gcm_beforenm(&small_->state, raw(key_.data()));
}

record_cipher::~record_cipher() { OPENSSL_cleanse(key_.data(), key_.size()); }

bool record_cipher::is_small(std::size_t head, std::size_t body) const noexcept {
  return small_ && head + body <= (encrypts() ? small_encrypted : small_authenticated);
}

std::array<unsigned char, 12> record_cipher::next_nonce() noexcept {
  std::array<unsigned char, 12> nonce{};
  std::memcpy(nonce.data() + 4, &number_, sizeof number_);
  ++number_;
  return nonce;
}

void record_cipher::begin(bool sealing) {
  const auto nonce = next_nonce();
  // The key schedule is kept from the first record on: one direction never changes.
  need(EVP_CipherInit_ex(context_.get(), keyed_ ? nullptr : EVP_aes_256_gcm(), nullptr,
                         keyed_ ? nullptr : raw(key_.data()), nonce.data(), sealing));
  keyed_ = true;
}

namespace {

// What is authenticated, in one piece: as it lies, or copied.
class small_text {
public:
  small_text(std::span<const std::byte> head, std::span<const std::byte> body) {
    if (body.empty()) {
      all_ = head;
    } else if (head.empty()) {
      all_ = body;
    } else if (head.data() + head.size() == body.data()) {
      all_ = {head.data(), head.size() + body.size()};
    } else {
      std::memcpy(copy_.data(), head.data(), head.size());
      std::memcpy(copy_.data() + head.size(), body.data(), body.size());
      all_ = std::span(copy_).first(head.size() + body.size());
    }
  }
  small_text(const small_text&) = delete;
  small_text& operator=(const small_text&) = delete;

  const unsigned char* data() const { return raw(all_.data()); }
  std::size_t size() const { return all_.size(); }

private:
  std::span<const std::byte> all_;
  std::array<std::byte, small_authenticated> copy_;
};

}  // namespace

void record_cipher::seal(std::span<const std::byte> head, std::span<const std::byte> body,
                         std::byte* sealed, tag& out) {
  if (how_ == stream_protection::off) return;
  if (is_small(head.size(), body.size())) {
    const auto nonce = next_nonce();
    const std::span<const std::byte> nothing;
    const small_text said(head, encrypts() ? nothing : body);
    const auto plain = encrypts() ? body : nothing;
    unsigned char none[1];
    crypto_aead_aes256gcm_encrypt_detached_afternm(
        plain.empty() ? none : raw(sealed), raw(out.data()), nullptr, raw(plain.data()),
        plain.size(), said.data(), said.size(), nullptr, nonce.data(), &small_->state);
    return;
  }
  begin(true);
  put(context_.get(), head, nullptr);
  put(context_.get(), body, encrypts() ? sealed : nullptr);
  finish_sealing(out);
}

void record_cipher::finish_sealing(tag& out) {
  int written = 0;
  unsigned char none[1];
  need(EVP_CipherFinal_ex(context_.get(), none, &written));
  need(EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_GET_TAG, tag_size, out.data()));
}

void record_cipher::seal_copy(std::span<const std::byte> head, std::span<const std::byte> body,
                              std::byte* copy, tag& out) {
  if (how_ == stream_protection::off) return;
  if (encrypts()) return seal(head, body, copy, out);  // the body is read once
  if (is_small(head.size(), body.size())) {
    std::memcpy(copy, body.data(), body.size());
    return seal(head, {copy, body.size()}, copy, out);
  }
  begin(true);
  put(context_.get(), head, nullptr);
  // A piece is authenticated while the core's nearest cache has it.
  for (std::size_t at = 0; at < body.size(); at += copied_at_once) {
    const auto part = std::min(copied_at_once, body.size() - at);
    std::memcpy(copy + at, body.data() + at, part);
    put(context_.get(), {copy + at, part}, nullptr);
  }
  finish_sealing(out);
}

bool record_cipher::open(std::span<const std::byte> head, std::span<std::byte> body,
                         std::span<const std::byte, tag_size> given) {
  if (how_ == stream_protection::off) return true;
  if (is_small(head.size(), body.size())) {
    const auto nonce = next_nonce();
    const small_text said(head, encrypts() ? std::span<const std::byte>() : body);
    const auto text = encrypts() ? body : std::span<std::byte>();
    unsigned char none[1];
    // Neither is null, though there is nothing in it.
    auto* const at = text.empty() ? none : raw(text.data());
    return crypto_aead_aes256gcm_decrypt_detached_afternm(
               at, nullptr, at, text.size(), raw(given.data()), said.data(), said.size(),
               nonce.data(), &small_->state) == 0;
  }
  begin(false);
  put(context_.get(), head, nullptr);
  put(context_.get(), body, encrypts() ? body.data() : nullptr);
  tag expected;
  std::memcpy(expected.data(), given.data(), tag_size);
  need(EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_SET_TAG, tag_size, expected.data()));
  int written = 0;
  unsigned char none[1];
  return EVP_CipherFinal_ex(context_.get(), none, &written) == 1;  // compares in constant time
}

}  // namespace troupe::transport
