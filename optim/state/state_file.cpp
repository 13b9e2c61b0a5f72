#include "troupe/optim/state/state_file.hpp"

#include <fmt/format.h>
#include <sodium.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "troupe/messages/codec/decoder.hpp"
#include "troupe/messages/codec/encoder.hpp"
#include "troupe/messages/envelope/envelope.hpp"
#include "troupe/messages/memory/storage_pool.hpp"
#include "troupe/messages/tensor/tensor_reader.hpp"
#include "troupe/messages/tensor/tensor_writer.hpp"

namespace troupe::detail {

namespace {

constexpr char magic[] = "troupe optimizer";  // without the terminating 0
constexpr std::size_t magic_size = sizeof magic - 1;
constexpr std::size_t most_envelope = std::size_t{64} << 20;

using digest = std::array<unsigned char, crypto_generichash_BYTES>;

class hash {
public:
  hash() { crypto_generichash_init(&state_, nullptr, 0, sizeof(digest)); }
  void add(const void* data, std::size_t size) {
    crypto_generichash_update(&state_, static_cast<const unsigned char*>(data), size);
  }
  digest end() {
    digest out;
    crypto_generichash_final(&state_, out.data(), out.size());
    return out;
  }

private:
  crypto_generichash_state state_;
};

class output {
public:
  explicit output(const std::string& path) : file_(path, std::ios::binary) {}

  void hashed(const void* data, std::size_t size) {
    hash_.add(data, size);
    plain(data, size);
  }
  void plain(const void* data, std::size_t size) {
    file_.write(static_cast<const char*>(data), static_cast<std::streamsize>(size));
  }
  // Writes the hash into the gap that was left for it.
  bool end() {
    const auto seal = hash_.end();
    file_.seekp(magic_size);
    plain(seal.data(), seal.size());
    file_.close();
    return !file_.fail();
  }

private:
  std::ofstream file_;
  hash hash_;
};

class input {
public:
  explicit input(const std::string& path) : path_(path), file_(path, std::ios::binary) {
    std::error_code why;
    left_ = std::filesystem::file_size(path, why);
    if (why || !file_) throw invalid_argument("cannot read " + path);
  }

  [[noreturn]] void refuse(const std::string& why) const {
    throw invalid_argument(
        fmt::format("{} is not the state of a distributed optimizer: {}", path_, why));
  }
  std::uintmax_t left() const noexcept { return left_; }

  void plain(void* to, std::size_t size) {
    if (size > left_) refuse("it ends early");
    file_.read(static_cast<char*>(to), static_cast<std::streamsize>(size));
    if (!file_) refuse("it cannot be read");
    left_ -= size;
  }
  void hashed(void* to, std::size_t size) {
    plain(to, size);
    hash_.add(to, size);
  }
  std::uint64_t number() {
    std::uint64_t out = 0;
    hashed(&out, sizeof out);
    return out;
  }
  digest end() { return hash_.end(); }

private:
  const std::string path_;
  std::ifstream file_;
  std::uintmax_t left_ = 0;
  hash hash_;
};

// The parts of a message, as `seal` makes them and `opened_envelope` takes them.
struct sealed_state {
  frame envelope;
  std::vector<incoming_payload> payloads;
};

sealed_state read_sealed(input& in) {
  char start[magic_size] = {};
  if (in.left() >= magic_size) in.plain(start, magic_size);
  if (std::memcmp(start, magic, magic_size) != 0) in.refuse("it does not begin like one");
  digest wanted;
  in.plain(wanted.data(), wanted.size());
  const auto envelope_size = in.number();
  const auto count = in.number();
  if (envelope_size > most_envelope || count > max_payloads) in.refuse("its sizes are impossible");
  std::vector<std::uint64_t> sizes;
  for (std::uint64_t i = 0; i < count; ++i) sizes.push_back(in.number());
  auto expected = envelope_size;
  for (const auto one : sizes) {
    if (one == 0 || one > in.left()) in.refuse("it ends early");
    expected += one;
  }
  if (expected > in.left()) in.refuse("it ends early");
  if (expected < in.left()) in.refuse("there is more after its end");
  sealed_state out;
  out.envelope = frame(envelope_size);
  out.envelope.resize(envelope_size);
  in.hashed(out.envelope.data(), envelope_size);
  storage_pool pool(0);
  for (const auto one : sizes) {
    out.payloads.push_back({pool.allocate(one), one, {}});
    in.hashed(out.payloads.back().data.get(), one);
  }
  if (in.end() != wanted) in.refuse("it is damaged");
  return out;
}

}  // namespace

void write_state(const std::string& file, const optimizer_state& state) {
  tensor_writer tensors;
  encoder body(&tensors, nullptr);
  body.put(state);
  const auto sealed = seal({}, body.bytes(), &tensors);
  const auto part = file + ".part";
  output out(part);
  out.plain(magic, magic_size);
  out.plain(digest().data(), sizeof(digest));
  const auto number = [&](std::uint64_t x) { out.hashed(&x, sizeof x); };
  number(sealed.bytes.size());
  number(sealed.payloads.size());
  for (const auto& one : sealed.payloads) number(one.size);
  out.hashed(sealed.bytes.data(), sealed.bytes.size());
  for (const auto& one : sealed.payloads) out.hashed(one.data, one.size);
  // Under its name the file is complete or absent: `rename` replaces it atomically.
  std::error_code why;
  if (!out.end()) throw invalid_argument("cannot write " + part);
  std::filesystem::rename(part, file, why);
  if (why) throw invalid_argument("cannot write " + file + ": " + why.message());
}

optimizer_state read_state(const std::string& file) {
  input in(file);
  auto sealed = read_sealed(in);
  try {
    opened_envelope opened(std::move(sealed.envelope), std::move(sealed.payloads));
    decoder body(opened.body(), opened.tensors(), nullptr);
    auto out = body.get<optimizer_state>();
    body.expect_end();
    return out;
  } catch (const decode_error& e) {
    in.refuse(e.what());
  }
}

}  // namespace troupe::detail
