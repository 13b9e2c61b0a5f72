// Envelopes: sealed, carried and opened, with every kind of content.
#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include "troupe/messages/envelope/envelope.hpp"

#include <capnp/message.h>
#include <capnp/serialize.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "tests/messages/base/fault_testing.hpp"
#include "tests/messages/codec/message_testing.hpp"
#include "tests/messages/codec/sendable_types.hpp"
#include "troupe/messages/envelope/plain_envelope.hpp"
#include "troupe/messages/schema/envelope.capnp.h"

namespace troupe::testing {
namespace {

constexpr envelope_kind every_kind[] = {envelope_kind::actor_message, envelope_kind::response,
                                        envelope_kind::failure, envelope_kind::call,
                                        envelope_kind::control};

std::vector<std::byte> bytes_of(std::size_t size) {
  std::vector<std::byte> out(size);
  for (std::size_t i = 0; i < size; ++i) out[i] = std::byte(i * 7 + i / 256);
  return out;
}

opened_envelope open(const sealed_envelope& sealed) {
  auto [bytes, payloads] = carry(sealed);
  return opened_envelope(std::move(bytes), std::move(payloads));
}

opened_envelope open(capnp::MessageBuilder& message) {
  const auto flat = capnp::messageToFlatArray(message);
  const auto bytes = flat.asBytes();
  return opened_envelope(frame(std::as_bytes(std::span(bytes.begin(), bytes.size()))), {});
}

template <class F>
std::string complaint(F&& f) {
  try {
    f();
  } catch (const decode_error& e) {
    return e.what();
  }
  return "nothing was thrown";
}

#define EXPECT_COMPLAINT(call, part)                                        \
  EXPECT_NE(complaint([&] { (void)(call); }).find(part), std::string::npos) \
      << complaint([&] { (void)(call); })

envelope_header any_header(envelope_kind kind, random_values& random) {
  return {kind,
          random.make<bool>(),
          random.make<bool>(),
          random.make<bool>(),
          random.make<bool>(),
          random.make<bool>(),
          random.make<bool>(),
          random.make<bool>(),
          random.make<std::uint32_t>(),
          random.make<std::uint32_t>(),
          random.bits(),
          random.bits(),
          random.bits(),
          random.bits(),
          random.bits(),
          random.bits()};
}

// What Cap'n Proto itself makes of a header and a body.
std::vector<std::byte> by_the_builder(const envelope_header& header,
                                      std::span<const std::byte> body) {
  capnp::MallocMessageBuilder message;
  auto root = message.initRoot<schema::Envelope>();
  root.setVersion(protocol_version);
  root.setKind(static_cast<schema::Kind>(header.kind));
  root.setUrgent(header.urgent);
  root.setRecorded(header.recorded);
  root.setUsesReplyRoute(header.uses_reply_route);
  root.setUnrecorded(header.unrecorded);
  root.setProfiled(header.profiled);
  root.setProfiledShapes(header.profiled_shapes);
  root.setProfiledMemory(header.profiled_memory);
  root.setLimit(header.limit);
  root.setEpoch(header.epoch);
  root.setJob(header.job);
  root.setIncarnation(header.incarnation);
  root.setSequence(header.sequence);
  root.setTarget(header.target);
  root.setRequest(header.request);
  root.setSender(header.sender);
  auto data = root.getBody().initInline(static_cast<unsigned>(body.size()));
  if (!body.empty()) std::memcpy(data.begin(), body.data(), body.size());
  const auto flat = capnp::messageToFlatArray(message);
  const auto bytes = std::as_bytes(std::span(flat.asBytes().begin(), flat.asBytes().size()));
  return {bytes.begin(), bytes.end()};
}

TEST(envelope, plain_ones_are_what_capn_proto_writes) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    random_values random(seed);
    const auto body = bytes_of(seed == 1 ? 0 : seed == 2 ? 4096 : random.bits() % 4097);
    const auto sent = any_header(every_kind[seed % 5], random);
    const auto sealed = seal(sent, body);
    const auto expected = by_the_builder(sent, body);
    ASSERT_TRUE(std::ranges::equal(sealed.bytes.bytes(), expected)) << body.size() << " bytes";
    ASSERT_TRUE(read_plain_envelope(sealed.bytes.bytes()).has_value());
  }
}

TEST(envelope, plain_ones_are_read_as_capn_proto_reads_them) {
  const envelope_header sent{
      envelope_kind::call, true, false, true, true, true, false, true, 60'000, 7, 1, 2, 3, 4, 5, 6};
  const auto whole = by_the_builder(sent, bytes_of(21));
  // Flips each bit of all but the body: both readers read the same, or nothing.
  for (std::size_t bit = 0; bit < 8 * 104; ++bit) {
    auto bytes = whole;
    bytes[bit / 8] ^= std::byte(1u << bit % 8);
    const auto plain = read_plain_envelope(bytes);
    if (!plain) continue;
    capnp::FlatArrayMessageReader message(
        kj::arrayPtr(reinterpret_cast<const capnp::word*>(bytes.data()), bytes.size() / 8));
    const auto root = message.getRoot<schema::Envelope>();
    EXPECT_EQ(plain->version, root.getVersion());
    EXPECT_EQ(plain->kind, static_cast<std::uint16_t>(root.getKind()));
    EXPECT_EQ(plain->header.urgent, root.getUrgent());
    EXPECT_EQ(plain->header.recorded, root.getRecorded());
    EXPECT_EQ(plain->header.uses_reply_route, root.getUsesReplyRoute());
    EXPECT_EQ(plain->header.unrecorded, root.getUnrecorded());
    EXPECT_EQ(plain->header.profiled, root.getProfiled());
    EXPECT_EQ(plain->header.profiled_shapes, root.getProfiledShapes());
    EXPECT_EQ(plain->header.profiled_memory, root.getProfiledMemory());
    EXPECT_EQ(plain->header.limit, root.getLimit());
    EXPECT_EQ(plain->header.epoch, root.getEpoch());
    EXPECT_EQ(plain->header.job, root.getJob());
    EXPECT_EQ(plain->header.incarnation, root.getIncarnation());
    EXPECT_EQ(plain->header.sequence, root.getSequence());
    EXPECT_EQ(plain->header.target, root.getTarget());
    EXPECT_EQ(plain->header.request, root.getRequest());
    EXPECT_EQ(plain->header.sender, root.getSender());
    EXPECT_FALSE(root.hasTensors() || root.hasFault());
    const auto body = root.getBody().getInline();
    EXPECT_TRUE(std::ranges::equal(plain->body, std::as_bytes(std::span(body.begin(), body.end()))))
        << "bit " << bit;
  }
}

TEST(envelope, one_that_is_cut_is_not_plain) {
  const auto whole = by_the_builder({}, bytes_of(21));
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_FALSE(read_plain_envelope(std::span(whole).first(size))) << size;
}

struct speechless : std::exception {
  const char* what() const noexcept override { return nullptr; }
};

TEST(envelope, errors_of_odd_exceptions_can_be_reported) {
  EXPECT_EQ(describe(std::make_exception_ptr(speechless()), "n", "f").text, "");
  const auto longer = std::make_exception_ptr(std::runtime_error(std::string(1 << 20, 'x')));
  EXPECT_LT(describe(longer, "n", "f").text.size(), 20'000u);
}

TEST(envelope, keeps_its_header) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed)
    for (const auto kind : every_kind) {
      random_values random(seed);
      const auto sent = any_header(kind, random);
      const auto opened = open(seal(sent, {}));
      const auto& got = opened.header();
      EXPECT_EQ(got.kind, sent.kind);
      EXPECT_EQ(got.urgent, sent.urgent);
      EXPECT_EQ(got.recorded, sent.recorded);
      EXPECT_EQ(got.uses_reply_route, sent.uses_reply_route);
      EXPECT_EQ(got.unrecorded, sent.unrecorded);
      EXPECT_EQ(got.profiled, sent.profiled);
      EXPECT_EQ(got.profiled_shapes, sent.profiled_shapes);
      EXPECT_EQ(got.profiled_memory, sent.profiled_memory);
      EXPECT_EQ(got.limit, sent.limit);
      EXPECT_EQ(got.epoch, sent.epoch);
      EXPECT_EQ(got.job, sent.job);
      EXPECT_EQ(got.incarnation, sent.incarnation);
      EXPECT_EQ(got.sequence, sent.sequence);
      EXPECT_EQ(got.target, sent.target);
      EXPECT_EQ(got.request, sent.request);
      EXPECT_EQ(got.sender, sent.sender);
      EXPECT_TRUE(opened.body().empty());
    }
}

// Small bodies lie inside, others are the last payload.
TEST(envelope, keeps_bodies_of_every_size) {
  for (const std::size_t size : {0, 1, 7, 8, 9, 100, 4095, 4096, 4097, 8192, 1'000'000}) {
    const auto body = bytes_of(size);
    const auto sealed = seal({}, body);
    EXPECT_EQ(sealed.payloads.size(), size > 4096 ? 1u : 0u) << size;
    EXPECT_EQ(sealed.bytes.size() % 8, 0u);
    auto opened = open(sealed);
    EXPECT_TRUE(std::ranges::equal(opened.body(), body)) << size;
    EXPECT_EQ(opened.tensors(), nullptr);
  }
}

TEST(envelope, keeps_tensors_beside_bodies) {
  const auto small = at::arange(10);
  const auto large = at::randn({100, 100});
  for (const std::size_t size : {10, 100'000})
    for (const auto& tensors : std::vector<std::vector<at::Tensor>>{
             {}, {small}, {large}, {small, large, at::Tensor(), large.t()}}) {
      const auto x = std::pair(tensors, bytes_of(size));
      const auto sealed = seal_value(x);
      const std::size_t large_ones =
          tensors.size() > 1 || (tensors.size() == 1 && tensors[0].dim() == 2);
      EXPECT_EQ(sealed.payloads.size(), large_ones + (size > 4096));
      auto opened = open(sealed);
      const auto back =
          read_value<std::pair<std::vector<at::Tensor>, std::vector<std::byte>>>(opened);
      EXPECT_TRUE(std::equal(back.first.begin(), back.first.end(), tensors.begin(), tensors.end(),
                             same_tensor));
      EXPECT_EQ(back.second, x.second);
    }
}

// What lies in a payload is not copied, and outlives the envelope.
TEST(envelope, leaves_tensors_where_they_landed) {
  auto [bytes, payloads] = carry(seal_value(at::ones({5000})));
  ASSERT_EQ(payloads.size(), 1u);
  const auto* landed = payloads[0].data.get();
  at::Tensor kept;
  {
    opened_envelope opened(std::move(bytes), std::move(payloads));
    kept = read_value<at::Tensor>(opened);
  }
  EXPECT_EQ(kept.const_data_ptr(), static_cast<const void*>(landed));
  EXPECT_EQ(kept.sum().item<float>(), 5000);
}

TEST(envelope, gives_its_message_back_for_another_to_open) {
  random_values random(5);
  for (const std::size_t size : {10, 10'000}) {
    const auto x =
        std::tuple(layer{"a", at::randn({70, 80}), {}, {}}, at::ones({3}), std::string(size, 'x'));
    auto [bytes, payloads] = carry(seal_value(x, {.kind = envelope_kind::call, .target = 7}));
    auto first = std::make_unique<opened_envelope>(std::move(bytes), std::move(payloads));
    EXPECT_EQ(first->header().target, 7u);
    auto [again, again_payloads] = first->give_back();
    first.reset();
    opened_envelope second(std::move(again), std::move(again_payloads));
    EXPECT_EQ(second.header().target, 7u);
    EXPECT_EQ(second.header().kind, envelope_kind::call);
    const auto back = read_value<std::remove_const_t<decltype(x)>>(second);
    EXPECT_EQ(std::get<0>(back) == std::get<0>(x), true);
    EXPECT_TRUE(same_tensor(std::get<1>(back), std::get<1>(x)));
    EXPECT_EQ(std::get<2>(back), std::get<2>(x));
  }
}

// Every class of error, thrown there, is the same class here, with the same fields, and names
// through whom it came.
template <class Error>
void expect_the_same_error() {
  auto passed_on = full_fault();
  passed_on.via += "\nanother function on another node";
  const Error sent(std::move(passed_on));
  const auto why = [&] {
    try {
      throw Error(full_fault());
    } catch (...) {
      return describe(std::current_exception(), "another node", "another function");
    }
  }();
  const auto opened = open(seal({.kind = envelope_kind::failure, .target = 9}, {}, nullptr, &why));
  const auto check = [&](const error& got) {
    EXPECT_EQ(typeid(got), typeid(Error));
    expect_same_fault(got.fault(), sent.fault());
    EXPECT_STREQ(got.what(), sent.what());
  };
  try {
    std::rethrow_exception(to_exception(opened.why()));
  } catch (const Error& e) {
    check(e);
  } catch (const std::exception& e) {
    ADD_FAILURE() << "another class: " << e.what();
  }
}

TEST(envelope, brings_every_class_of_error) {
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (expect_the_same_error<error_of<static_cast<errc>(I + 1)>>(), ...);
  }
  (std::make_index_sequence<static_cast<std::size_t>(errc::leaked_rref)>());
}

TEST(envelope, brings_what_a_function_threw_as_a_remote_error) {
  const auto why = [] {
    try {
      throw std::out_of_range("row 7 of 5");
    } catch (...) {
      return describe(std::current_exception(), "ps2", "decode");
    }
  }();
  try {
    const auto opened = open(seal({.kind = envelope_kind::failure}, {}, nullptr, &why));
    std::rethrow_exception(to_exception(opened.why()));
  } catch (const remote_error& e) {
    EXPECT_EQ(e.fault().text, "row 7 of 5");
    EXPECT_EQ(e.fault().type, "std::out_of_range");
    EXPECT_EQ(e.node(), "ps2");
    EXPECT_EQ(e.function(), "decode");
  }
}

// The next reader of an error finds it too, however long it is.
TEST(envelope, reports_why_as_often_as_it_is_asked) {
  fault f;
  f.text = std::string(100'000, 'x');
  f.function = "decode";
  const auto opened = open(seal({.kind = envelope_kind::failure}, {}, nullptr, &f));
  const auto first = opened.why();
  EXPECT_EQ(first.text.size(), std::size_t{64} << 10);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(opened.why().text, first.text);
}

TEST(envelope, has_an_error_only_if_it_is_a_failure) {
  const fault f;
  for (const auto kind : every_kind) {
    if (kind == envelope_kind::failure) continue;
    EXPECT_THROW(open(seal({.kind = kind}, {}, nullptr, &f)).why(), decode_error);
  }
  // Somebody forgot to give a reason: still an error, of no known kind.
  EXPECT_EQ(open(seal({.kind = envelope_kind::failure}, {})).why().code, errc::internal);
}

TEST(envelope, of_another_version_is_refused) {
  capnp::MallocMessageBuilder message;
  auto root = message.initRoot<schema::Envelope>();
  root.setVersion(protocol_version + 1);
  EXPECT_COMPLAINT(open(message), "protocol version " + std::to_string(protocol_version + 1) +
                                      "; this node speaks " + std::to_string(protocol_version));
  root.setVersion(protocol_version);
  root.setKind(static_cast<schema::Kind>(5));
  EXPECT_COMPLAINT(open(message), "unknown kind 5");
  root.setKind(schema::Kind::CONTROL);
  EXPECT_EQ(complaint([&] { open(message); }), "nothing was thrown");
}

// Where the body lies is a number too.
TEST(envelope, with_a_body_in_an_unknown_place_is_refused) {
  capnp::MallocMessageBuilder message;
  auto root = message.initRoot<schema::Envelope>();
  root.setVersion(protocol_version);
  root.getBody().setPayload();
  const auto flat = capnp::messageToFlatArray(message);
  const auto bytes = flat.asBytes();
  std::vector<std::byte> before(reinterpret_cast<const std::byte*>(bytes.begin()),
                                reinterpret_cast<const std::byte*>(bytes.end()));
  root.getBody().initInline(0);
  const auto inside_flat = capnp::messageToFlatArray(message);
  const auto inside = inside_flat.asBytes();
  std::size_t place = 16;  // behind the segment table and the root pointer
  while (before[place] == std::byte(inside[place])) ++place;
  for (const unsigned which : {2u, 7u, 255u}) {
    before[place] = std::byte(which);
    std::vector<incoming_payload> payloads(1);
    payloads[0].data = storage_pool().allocate(8);
    payloads[0].size = 8;
    EXPECT_COMPLAINT(opened_envelope(frame(before), payloads), "in an unknown place");
  }
}

TEST(envelope, and_its_payloads_must_fit) {
  const auto reopen = [](const sealed_envelope& sealed, auto change) {
    auto message = carry(sealed);
    change(message.second);
    opened_envelope opened(std::move(message.first), std::move(message.second));
    if (auto* tensors = opened.tensors())
      for (std::uint32_t i = 0; i < tensors->size(); ++i) (void)tensors->get(i);
  };
  using payloads = std::vector<incoming_payload>;
  const auto none = seal({}, bytes_of(10));
  const auto body = seal({}, bytes_of(10'000));
  const auto tensor = seal_value(at::ones({5000}));
  const auto both = seal_value(std::pair(at::ones({5000}), std::string(10'000, 'x')));
  EXPECT_EQ(complaint([&] { reopen(both, [](payloads&) {}); }), "nothing was thrown");
  const auto drop = [](payloads& p) { p.pop_back(); };
  const auto repeat = [](payloads& p) { p.push_back(p.empty() ? incoming_payload() : p.back()); };
  EXPECT_COMPLAINT(reopen(body, drop), "body is missing");
  EXPECT_COMPLAINT(reopen(tensor, drop), "payload");
  EXPECT_COMPLAINT(reopen(both, drop), "payload");
  for (const auto* sealed : {&none, &body, &tensor, &both})
    EXPECT_COMPLAINT(reopen(*sealed, repeat), "payload");
  EXPECT_COMPLAINT(reopen(body, [](payloads& p) { p[0].place.where = memory_place::kind::cuda; }),
                   "lies on a device");
  EXPECT_COMPLAINT(reopen(tensor, [](payloads& p) { p[0].size -= 4; }), "Storage 0");
}

TEST(envelope, of_a_wrong_size_is_refused) {
  for (const std::size_t size : {0, 1, 7, 8, 9, 15, 17})
    EXPECT_COMPLAINT(opened_envelope(frame(bytes_of(size)), {}), "an envelope of");
}

// An envelope that no receiver would open is not sent.
TEST(envelope, that_grows_too_large_is_not_sealed) {
  const auto x = at::zeros({}).view(std::vector<std::int64_t>(64, 1));
  std::vector<at::Tensor> many(120'000, x);
  EXPECT_THROW(seal_value(many), encode_error);
  many.resize(10'000);
  EXPECT_EQ(send(many).size(), 10'000u);
}

}  // namespace
}  // namespace troupe::testing
