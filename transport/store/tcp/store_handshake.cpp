#include "troupe/transport/store/tcp/store_handshake.hpp"

#include <algorithm>
#include <cstring>

namespace troupe::transport {

namespace {

constexpr std::array<std::uint8_t, store_handshake::magic_size> magic = {
    'T', 'R', 'O', 'U', 'P', 'E', 'S', store_handshake::version};

constexpr std::uint8_t server_role = 1;
constexpr std::uint8_t client_role = 2;
// Of the keys.
constexpr std::uint8_t from_client_role = 3;
constexpr std::uint8_t from_server_role = 4;

template <class Out, class... Parts>
void join(Out& out, const Parts&... parts) {
  auto* at = out.data();
  ((std::memcpy(at, parts.data(), parts.size()), at += parts.size()), ...);
}

}  // namespace

store_handshake::store_handshake(const job_secret& secret, const nonce& number)
    : key_(secret.subkey("troupe store handshake 1")), number_(number) {
  // Only the nonce of the own side is kept: the other one arrives.
  random_bytes(client_);
  random_bytes(server_);
}

store_handshake::greeting store_handshake::greet() const {
  greeting out;
  join(out, magic, client_);
  return out;
}

store_handshake::verdict store_handshake::check_magic(std::span<const std::byte> in) const {
  if (std::memcmp(in.data(), magic.data(), magic.size() - 1) != 0) return verdict::not_troupe;
  if (in[magic.size() - 1] != std::byte{version}) return verdict::other_version;
  return verdict::accepted;
}

store_handshake::verdict store_handshake::accept(std::span<const std::byte, sizeof(greeting)> in,
                                                 challenge& out) {
  // All of it is sent to whoever asks.
  out.fill(std::byte{0});
  std::memcpy(out.data(), magic.data(), magic.size());
  if (const auto v = check_magic(in); v != verdict::accepted) return v;
  std::copy_n(in.data() + magic_size, nonce_size, client_.data());
  join(out, magic, server_, number_, key_.sign(transcript(server_role)));
  return verdict::accepted;
}

store_handshake::verdict store_handshake::meet(std::span<const std::byte, sizeof(challenge)> in,
                                               answer& out) {
  if (const auto v = check_magic(in); v != verdict::accepted) return v;
  std::copy_n(in.data() + magic_size, nonce_size, server_.data());
  std::copy_n(in.data() + magic_size + nonce_size, nonce_size, number_.data());
  job_secret::mac theirs;
  std::copy_n(in.end() - theirs.size(), theirs.size(), theirs.data());
  if (!key_.verify(transcript(server_role), theirs)) return verdict::wrong_secret;
  out = key_.sign(transcript(client_role));
  return verdict::accepted;
}

bool store_handshake::admit(std::span<const std::byte, sizeof(answer)> in) const {
  answer theirs;
  std::copy_n(in.data(), theirs.size(), theirs.data());
  return key_.verify(transcript(client_role), theirs);
}

store_handshake::keys store_handshake::session() const {
  return {key_.sign(transcript(from_client_role)), key_.sign(transcript(from_server_role))};
}

store_handshake::transcribed store_handshake::transcript(std::uint8_t role) const {
  transcribed out;
  join(out, std::array{role, version}, client_, server_, number_);
  return out;
}

}  // namespace troupe::transport
