// Envelopes from bytes that may be anything, with payloads that may be any.
#include <ATen/Context.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>

#include <gtest/gtest.h>

#include "tests/messages/codec/message_testing.hpp"
#include "tests/messages/codec/sendable_types.hpp"
#include "tests/messages/hostile_bytes.hpp"
#include "tests/messages/tensor/tensor_table_testing.hpp"

namespace troupe::testing {
namespace {

constexpr envelope_kind every_kind[] = {envelope_kind::actor_message, envelope_kind::response,
                                        envelope_kind::failure, envelope_kind::call,
                                        envelope_kind::control};

using content = std::tuple<std::string, at::Tensor, std::vector<layer>>;

content text_alone() { return {"a text", {}, {}}; }
content small_tensors() { return {"a text", at::ones({3}), {{"b", at::arange(7), {}, {}}}}; }
content large_tensors() {
  const auto weight = at::randn({30, 40});
  return {std::string(5'000, 'x'), weight, {{"b", weight.select(1, 2), at::rand({900}), {}}}};
}

sealed_envelope seal_content(envelope_kind kind, const content& x) {
  const envelope_header header{kind, true, true, true, true, true, true, true,
                               9,    2,    3,    4,    5,    6,    7,    8};
  if (kind != envelope_kind::failure) return seal_value(caf::make_message(x), header);
  fault why;
  why.code = errc::peer_lost;
  why.text = std::get<0>(x).substr(0, 100);
  why.node = "worker1";
  why.function = "decode";
  return seal(header, {}, nullptr, &why);
}

// All that a node may ask of an envelope.
void read_all(frame bytes, std::vector<incoming_payload> payloads) {
  opened_envelope opened(std::move(bytes), std::move(payloads));
  unsigned sum = 0;
  for (const auto b : opened.body()) sum += std::to_integer<unsigned>(b);
  EXPECT_LT(sum, ~0u);
  EXPECT_LE(opened.header().kind, envelope_kind::control);
  if (opened.header().kind == envelope_kind::failure) {
    EXPECT_GE(opened.why().limit.count(), 0);
    return;
  }
  if (auto* tensors = opened.tensors())
    for (std::uint32_t i = 0; i < tensors->size(); ++i) touch(tensors->get(i));
  decoder in(opened.body(), opened.tensors(), nullptr);
  (void)in.get<caf::message>();
  in.expect_end();
}

// Bytes of an envelope that come with the payloads of `sealed`.
byte_reader reader_beside(const sealed_envelope& sealed) {
  return [payloads = carry(sealed).second](std::span<const std::byte> bytes) {
    read_all(frame(bytes), payloads);
  };
}

byte_vector bytes_of(const sealed_envelope& sealed) {
  const auto bytes = sealed.bytes.bytes();
  return {bytes.begin(), bytes.end()};
}

[[maybe_unused]] const bool registered = register_message_type<content>();

TEST(hostile_envelopes, of_every_kind_are_read_or_refused) {
  at::manual_seed(3);
  for (const auto kind : every_kind)
    for (const auto& x : {text_alone(), small_tensors(), large_tensors()}) {
      const auto sealed = seal_content(kind, x);
      const auto name = "kind " + std::to_string(static_cast<int>(kind)) + " with " +
                        std::to_string(sealed.payloads.size()) + " payloads";
      const auto read = reader_beside(sealed);
      const auto valid = bytes_of(sealed);
      EXPECT_TRUE(takes(read, valid, name)) << name;
      expect_prefixes_refused(read, valid, name);
      survive_changed_bytes(read, valid, name);
    }
}

TEST(hostile_envelopes, with_changed_words_are_read_or_refused) {
  const auto sealed = seal_content(envelope_kind::call, large_tensors());
  survive_changed_words(reader_beside(sealed), bytes_of(sealed), "a call");
  const auto failure = seal_content(envelope_kind::failure, text_alone());
  survive_changed_words(reader_beside(failure), bytes_of(failure), "a failure");
}

// The segment table and the root pointer of some, so that more than Cap'n Proto's first check is
// met.
TEST(hostile_envelopes, of_random_bytes_are_read_or_refused) {
  const auto sealed = seal_content(envelope_kind::call, small_tensors());
  const auto valid = bytes_of(sealed);
  const auto read = reader_beside(sealed);
  survive_random_bytes(read, {}, "an envelope", 7, 3'000);
  std::mt19937_64 random(8);
  for (int i = 0; i < 5'000; ++i) {
    auto bytes = valid;
    const auto from = 16 + random() % (bytes.size() - 16);
    const auto to = std::min<std::size_t>(bytes.size(), from + 1 + random() % 40);
    for (auto at = from; at < to; ++at)
      bytes[at] = std::byte(random() % 2 == 0 ? random() % 4 : random());
    takes(read, bytes, "an envelope with random words, number " + std::to_string(i));
  }
}

TEST(hostile_envelopes, with_other_payloads_are_read_or_refused) {
  std::mt19937_64 random(9);
  const auto sealed = seal_content(envelope_kind::response, large_tensors());
  int refused = 0;
  for (int i = 0; i < 2'000; ++i) {
    auto [bytes, payloads] = carry(sealed);
    for (auto n = 1 + random() % 2; n > 0; --n) {
      const auto which = payloads.empty() ? 0 : random() % payloads.size();
      switch (payloads.empty() ? 0 : random() % 5) {
        case 0: payloads.emplace_back(); break;
        case 1: payloads.erase(payloads.begin() + static_cast<long>(which)); break;
        case 2: payloads[which].size = random() % (payloads[which].size + 1); break;
        case 3: std::swap(payloads[which], payloads[random() % payloads.size()]); break;
        default:
          for (std::size_t b = 0; b < payloads[which].size; b += 1 + random() % 64)
            payloads[which].data.get()[b] = std::byte(random());
      }
    }
    try {
      read_all(std::move(bytes), std::move(payloads));
    } catch (const decode_error&) {
      ++refused;
    } catch (const type_mismatch&) {  // in what stands for a type, if that bit is of its fields
      ++refused;
    }
  }
  EXPECT_GT(refused, 500);
  EXPECT_LT(refused, 2'000);
}

}  // namespace
}  // namespace troupe::testing
