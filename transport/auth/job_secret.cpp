#include "troupe/transport/auth/job_secret.hpp"

#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "troupe/messages/base/error.hpp"
#include "troupe/transport/system/private_folder.hpp"

namespace troupe::transport {

namespace {

static_assert(job_secret::size == crypto_auth_KEYBYTES);
static_assert(std::tuple_size_v<job_secret::mac> == crypto_auth_BYTES);

// Cheap and thread-safe when repeated; it only fails where the system has no randomness at all.
void need_sodium() {
  if (sodium_init() < 0) throw internal_error("libsodium cannot be initialised");
}

const unsigned char* raw(const void* data) noexcept {
  return static_cast<const unsigned char*>(data);
}

}  // namespace

job_secret::job_secret() {
  need_sodium();
  randombytes_buf(key_.data(), key_.size());
}

job_secret::~job_secret() { sodium_memzero(key_.data(), key_.size()); }

job_secret job_secret::from_hex(std::string_view text) {
  need_sodium();
  job_secret out{uninitialized{}};
  std::size_t length = 0;
  const char* end = nullptr;
  const bool ok =
      text.size() == 2 * size &&
      sodium_hex2bin(out.key_.data(), size, text.data(), text.size(), nullptr, &length, &end) == 0;
  if (!ok || length != size || end != text.data() + text.size())
    throw invalid_argument("a job's secret must be 64 hex digits (32 bytes), but this one has " +
                           std::to_string(text.size()) +
                           " characters or others than 0-9 and a-f; make one with: openssl rand "
                           "-hex 32");
  return out;
}

job_secret job_secret::from_bytes(std::span<const std::byte, size> bytes) noexcept {
  job_secret out{uninitialized{}};
  std::memcpy(out.key_.data(), bytes.data(), size);
  return out;
}

job_secret job_secret::from_file(const std::string& path) {
  const auto refuse = [&](const std::string& why) {
    throw invalid_argument("the file of the job's secret, " + path + ", cannot be used: " + why);
  };
  // Not blocking: a pipe would wait for somebody to write.
  const unique_fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) refuse(std::strerror(errno));
  if (const auto why = not_private(file.get(), S_IFREG); !why.empty()) refuse(why);
  std::array<char, 2 * size + 1> text{};
  std::size_t length = 0;
  for (ssize_t n = 1; n > 0 && length<text.size(); length += n> 0 ? std::size_t(n) : 0)
    n = ::read(file.get(), text.data() + length, text.size() - length);
  const std::string_view all(text.data(), length);
  const auto word = all.substr(0, all.find_first_of(" \t\r\n"));
  try {
    return from_hex(word);
  } catch (const invalid_argument& e) {
    refuse(e.fault().text);
  }
  return {};
}

std::string job_secret::hex() const {
  std::string out(2 * size + 1, '\0');
  sodium_bin2hex(out.data(), out.size(), key_.data(), key_.size());
  out.pop_back();
  return out;
}

job_secret job_secret::subkey(std::string_view purpose) const {
  job_secret out{uninitialized{}};
  crypto_auth(out.key_.data(), raw(purpose.data()), purpose.size(), key_.data());
  return out;
}

job_secret::mac job_secret::sign(std::span<const std::byte> message) const noexcept {
  mac out;
  crypto_auth(reinterpret_cast<unsigned char*>(out.data()), raw(message.data()), message.size(),
              key_.data());
  return out;
}

bool job_secret::verify(std::span<const std::byte> message, const mac& proof) const noexcept {
  return crypto_auth_verify(raw(proof.data()), raw(message.data()), message.size(), key_.data()) ==
         0;
}

bool operator==(const job_secret& a, const job_secret& b) noexcept {
  return sodium_memcmp(a.key_.data(), b.key_.data(), job_secret::size) == 0;
}

void random_bytes(std::span<std::byte> bytes) noexcept {
  if (sodium_init() < 0) std::abort();  // without randomness any process could join the job
  randombytes_buf(bytes.data(), bytes.size());
}

std::uint64_t random_id() noexcept {
  std::uint64_t out = 0;
  while (out == 0) random_bytes(std::as_writable_bytes(std::span(&out, 1)));
  return out;
}

std::uint64_t stable_hash(std::string_view text) noexcept {
  static_assert(crypto_generichash_BYTES_MIN >= 8);
  unsigned char digest[crypto_generichash_BYTES_MIN];
  crypto_generichash(digest, sizeof digest, raw(text.data()), text.size(), nullptr, 0);
  std::uint64_t out = 0;
  for (int i = 0; i < 8; ++i) out |= std::uint64_t{digest[i]} << (8 * i);
  return out;
}

}  // namespace troupe::transport
