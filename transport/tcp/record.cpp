#include "troupe/transport/tcp/record.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <algorithm>
#include <cstring>

#include "troupe/messages/base/error.hpp"

namespace troupe::transport::tcp {

namespace {

// EVP takes lengths as int.
constexpr std::size_t most_at_once = std::size_t{1} << 30;

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

void record_cipher::free_context::operator()(evp_cipher_ctx_st* one) const noexcept {
  EVP_CIPHER_CTX_free(one);
}

record_cipher::record_cipher(stream_protection how, const stream_keys::key& key)
    : how_(how), key_(key) {
  if (how == stream_protection::off) return;
  context_.reset(EVP_CIPHER_CTX_new());
  need(context_ != nullptr);
}

record_cipher::~record_cipher() { OPENSSL_cleanse(key_.data(), key_.size()); }

void record_cipher::begin(bool sealing) {
  std::array<unsigned char, 12> nonce{};
  std::memcpy(nonce.data() + 4, &number_, sizeof number_);
  ++number_;
  // The key schedule is kept from the first record on: one direction never changes.
  need(EVP_CipherInit_ex(context_.get(), keyed_ ? nullptr : EVP_aes_256_gcm(), nullptr,
                         keyed_ ? nullptr : raw(key_.data()), nonce.data(), sealing));
  keyed_ = true;
}

void record_cipher::seal(std::span<const std::byte> head, std::span<const std::byte> body,
                         std::byte* sealed, tag& out) {
  if (how_ == stream_protection::off) return;
  begin(true);
  put(context_.get(), head, nullptr);
  put(context_.get(), body, encrypts() ? sealed : nullptr);
  int written = 0;
  unsigned char none[1];
  need(EVP_CipherFinal_ex(context_.get(), none, &written));
  need(EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_GET_TAG, tag_size, out.data()));
}

bool record_cipher::open(std::span<const std::byte> head, std::span<std::byte> body,
                         std::span<const std::byte, tag_size> given) {
  if (how_ == stream_protection::off) return true;
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

}  // namespace troupe::transport::tcp
