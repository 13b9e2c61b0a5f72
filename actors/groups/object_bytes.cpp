#include "troupe/actors/groups/object_bytes.hpp"

#include <fmt/format.h>

#include <new>

#include "troupe/messages/codec/decoder.hpp"
#include "troupe/messages/codec/encoder.hpp"
#include "troupe/messages/codec/structure.hpp"
#include "troupe/messages/envelope/envelope.hpp"
#include "troupe/messages/tensor/device_route.hpp"
#include "troupe/messages/tensor/tensor_reader.hpp"
#include "troupe/messages/tensor/tensor_writer.hpp"

namespace troupe::groups {

namespace {

// What the bytes of one rank begin with.
constexpr std::uint8_t is_value = 0, is_failure = 1;

// As payloads are aligned, in memory of their own: the tensors keep it.
std::shared_ptr<std::byte> payload_memory(std::size_t size) {
  constexpr std::align_val_t alignment{64};
  return {static_cast<std::byte*>(::operator new(size, alignment)),
          [](std::byte* memory) { ::operator delete(memory, alignment); }};
}

// Every rank can read what lies in host memory.
const device_route& to_host() {
  static const auto route = device_route::to_host();
  return route;
}

// Bytes of another type may well be read, as values that nobody has sent.
void check_type(decoder& in, const object_type& type, int from, int to) {
  const auto sent = in.get<std::uint64_t>();
  const auto name = in.get<std::string>();
  if (sent == type.identity) return;
  if (name == type.name)
    throw type_mismatch(mismatch_of(type.name, fmt::format("rank {}", from),
                                    fmt::format("rank {}", to), type.structure()));
  throw decode_error(
      fmt::format("rank {} has given an object of type {}, and rank {} reads one of type {}: name "
                  "the same type on both",
                  from, name, to, type.name));
}

}  // namespace

// Zero; the type; then an envelope and its payloads: how many, and of each its size and its bytes.
std::vector<std::byte> object_to_bytes(const object_type& type,
                                       function_ref<void(encoder&)> write) {
  tensor_writer tensors;
  encoder body(&tensors, nullptr);
  write(body);
  tensors.go_by(to_host());
  const auto sealed = seal({}, body.bytes(), &tensors);
  encoder out(nullptr, nullptr);
  out.put(is_value);
  out.put(type.identity);
  out.put(std::string(type.name));
  const auto put = [&](std::span<const std::byte> bytes) {
    out.put(static_cast<std::uint64_t>(bytes.size()));
    out.raw(bytes.data(), bytes.size());
  };
  out.put(static_cast<std::uint64_t>(sealed.payloads.size()));
  put(sealed.bytes.bytes());
  for (const auto& one : sealed.payloads) put({one.data, one.size});
  return out.take();
}

packed_object pack_object(const object_type& type, function_ref<void(encoder&)> write) {
  packed_object out;
  try {
    out.bytes = object_to_bytes(type, write);
  } catch (...) {
    out.failure = std::current_exception();
    const auto text = describe(out.failure, {}, {}).text;
    const auto* const from = reinterpret_cast<const std::byte*>(text.data());
    out.bytes.push_back(std::byte{is_failure});
    out.bytes.insert(out.bytes.end(), from, from + text.size());
  }
  return out;
}

std::optional<std::string> failure_in(std::span<const std::byte> bytes, int from) {
  if (bytes.empty() || bytes.front() > std::byte{is_failure})
    throw decode_error(fmt::format("rank {} has given neither an object nor a failure", from));
  if (bytes.front() == std::byte{is_value}) return {};
  return std::string(reinterpret_cast<const char*>(bytes.data()) + 1, bytes.size() - 1);
}

void bytes_to_object(std::span<const std::byte> bytes, const object_type& type, int from, int to,
                     function_ref<void(decoder&)> read) {
  decoder in(bytes, nullptr, nullptr);
  if (in.get<std::uint8_t>() != is_value) throw decode_error("these bytes are of no object");
  check_type(in, type, from, to);
  const auto next_size = [&] {
    const auto size = in.get<std::uint64_t>();
    if (size > in.remaining()) throw decode_error("an object's bytes end early");
    return static_cast<std::size_t>(size);
  };
  const auto count = in.get<std::uint64_t>();
  if (count > max_payloads) throw decode_error("an object has too many payloads");
  const auto size = next_size();
  frame envelope(size);
  envelope.resize(size);
  in.raw(envelope.data(), size);
  std::vector<incoming_payload> payloads;
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto each = next_size();
    if (each == 0) throw decode_error("a payload of an object is empty");
    incoming_payload next{payload_memory(each), each, {}};
    in.raw(next.data.get(), each);
    payloads.push_back(std::move(next));
  }
  in.expect_end();
  opened_envelope opened(std::move(envelope), std::move(payloads));
  decoder body(opened.body(), opened.tensors(), nullptr);
  read(body);
  body.expect_end();
  body.let_tensors_go();
}

}  // namespace troupe::groups
