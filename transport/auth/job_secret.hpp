#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace troupe::transport {

/// The key that only members of one job have. Wiped when destroyed; never printed or logged.
class job_secret {
public:
  static constexpr std::size_t size = 32;

  /// HMAC-SHA-512-256 (libsodium crypto_auth).
  using mac = std::array<std::byte, 32>;

  /// A new random secret.
  job_secret();

  /// Reads 64 hex digits. Throws invalid_argument, whose text does not repeat `text`.
  static job_secret from_hex(std::string_view text);

  /// Reads a file that begins with 64 hex digits. Throws invalid_argument that names the file: it
  /// must be a regular file that belongs to this user, and unreadable for others.
  static job_secret from_file(const std::string& path);

  /// The secret with these `bytes`.
  static job_secret from_bytes(std::span<const std::byte, size> bytes) noexcept;

  job_secret(const job_secret&) = default;
  job_secret& operator=(const job_secret&) = default;
  ~job_secret();

  /// 64 hex digits, for the environment of a child process.
  std::string hex() const;

  /// For storage that only this user can read.
  std::span<const std::byte, size> bytes() const noexcept {
    return std::as_bytes(std::span<const unsigned char, size>(key_));
  }

  /// An independent key for one use, so that a proof of one protocol is not valid in another.
  job_secret subkey(std::string_view purpose) const;

  /// A proof that the sender of `message` has the secret.
  mac sign(std::span<const std::byte> message) const noexcept;

  /// Compares in constant time.
  bool verify(std::span<const std::byte> message, const mac& proof) const noexcept;

  /// Compares in constant time.
  friend bool operator==(const job_secret& a, const job_secret& b) noexcept;

private:
  struct uninitialized {};
  explicit job_secret(uninitialized) noexcept {}

  std::array<unsigned char, size> key_;
};

/// Fills `bytes` with random bytes from the operating system, for nonces and ids.
void random_bytes(std::span<std::byte> bytes) noexcept;

/// A random number, unique for all practical purposes; never 0.
std::uint64_t random_id() noexcept;

/// A 64-bit hash (BLAKE2b) of `text`, the same on every machine.
std::uint64_t stable_hash(std::string_view text) noexcept;

}  // namespace troupe::transport
