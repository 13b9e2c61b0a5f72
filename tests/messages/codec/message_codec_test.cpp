// Messages and errors of CAF there and back.
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>

#include "troupe/messages/codec/message_codec.hpp"

#include <gtest/gtest.h>

#include <caf/atom.hpp>
#include <caf/exit_reason.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/sec.hpp>
#include <caf/system_messages.hpp>
#include <caf/unit.hpp>

#include "tests/messages/base/fault_testing.hpp"
#include "tests/messages/codec/message_testing.hpp"
#include "tests/messages/codec/sendable_types.hpp"

namespace troupe::testing {

// A type that was not made sendable; CAF itself would take it.
struct never_registered {
  int x = 0;
};
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, never_registered& x) {
  return f(x.x);
}

namespace {

[[maybe_unused]] const bool registered =
    register_message_type<at::Tensor>() && register_message_type<inspected>() &&
    register_message_type<std::vector<layer>>() &&
    register_message_type<std::map<std::string, std::vector<int>>>();

// The same types and the same values, as far as they can be written.
void expect_same(const caf::message& a, const caf::message& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_EQ(a.type(i), b.type(i)) << i;
  EXPECT_EQ(encode(a), encode(b));
}

template <class T>
void append_random(caf::message& m, random_values& random) {
  m += caf::make_message(random.make<T>());
}

TEST(message_codec, carries_elements_of_every_kind) {
  using append = void (*)(caf::message&, random_values&);
  const append kinds[] = {append_random<bool>,
                          append_random<std::int8_t>,
                          append_random<std::uint8_t>,
                          append_random<std::int16_t>,
                          append_random<std::uint16_t>,
                          append_random<int>,
                          append_random<unsigned>,
                          append_random<long>,
                          append_random<long long>,
                          append_random<unsigned long long>,
                          append_random<float>,
                          append_random<double>,
                          append_random<std::string>,
                          append_random<std::vector<std::string>>,
                          append_random<std::vector<char>>,
                          append_random<std::vector<float>>,
                          append_random<std::vector<double>>,
                          append_random<std::vector<std::int64_t>>,
                          append_random<std::map<std::string, std::vector<int>>>,
                          append_random<point>,
                          append_random<inspected>,
                          append_random<nothing>,
                          append_random<tree>};
  for (const auto kind : kinds) {
    random_values random(1);
    caf::message m;
    kind(m, random);
    expect_same(send(m), m);
    kind(m, random);
    expect_same(send(m), m);
  }
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    random_values random(seed);
    caf::message m;
    for (auto n = random.below(12); n > 0; --n) kinds[random.below(std::size(kinds))](m, random);
    expect_same(send(m), m);
  }
}

TEST(message_codec, keeps_the_values) {
  const auto m = send(caf::make_message(7, std::string("seven"), point{1, 2, colour::green},
                                        caf::atom("seven"), caf::unit, std::vector<double>{7}));
  ASSERT_TRUE((m.match_elements<int, std::string, point, caf::atom_value, caf::unit_t,
                                std::vector<double>>()));
  EXPECT_EQ(m.get_as<int>(0), 7);
  EXPECT_EQ(m.get_as<std::string>(1), "seven");
  EXPECT_EQ(m.get_as<point>(2), (point{1, 2, colour::green}));
  EXPECT_EQ(m.get_as<caf::atom_value>(3), caf::atom("seven"));
  EXPECT_EQ(m.get_as<std::vector<double>>(5), std::vector<double>{7});
}

TEST(message_codec, carries_tensors_as_elements) {
  const auto weight = at::randn({30, 40});
  const layer x{"dense", weight, at::randn({40}), {weight.t(), at::Tensor()}};
  const auto m =
      send(caf::make_message(weight, x, std::string("between"), std::vector{x, x}, at::Tensor()));
  ASSERT_TRUE((m.match_elements<at::Tensor, layer, std::string, std::vector<layer>, at::Tensor>()));
  EXPECT_TRUE(at::equal(m.get_as<at::Tensor>(0), weight));
  EXPECT_EQ(m.get_as<layer>(1) == x, true);
  EXPECT_EQ(m.get_as<std::vector<layer>>(3) == std::vector({x, x}), true);
  EXPECT_FALSE(m.get_as<at::Tensor>(4).defined());
  EXPECT_TRUE(m.get_as<at::Tensor>(0).is_alias_of(m.get_as<layer>(1).buffers[0]));
  EXPECT_FALSE(m.get_as<at::Tensor>(0).is_alias_of(weight));
}

TEST(message_codec, writes_and_reads_elements_without_a_message) {
  encoder out(nullptr, nullptr);
  put_as_message(out, 7, std::string("seven"), point{1, 2, colour::green}, nothing());
  EXPECT_EQ(out.bytes(), encode(caf::make_message(7, std::string("seven"),
                                                  point{1, 2, colour::green}, nothing())));
  out.reset(nullptr, nullptr);
  put_as_message(out, point{1, 2, colour::green});
  const auto bytes = out.take();
  decoder in(bytes, nullptr, nullptr);
  nested another;
  EXPECT_FALSE(get_as_message(in, another));
  EXPECT_EQ(in.remaining(), bytes.size());
  point same;
  EXPECT_TRUE(get_as_message(in, same));
  EXPECT_EQ(same, (point{1, 2, colour::green}));
  EXPECT_NO_THROW(in.expect_end());
}

// The receiver reads a message: what is written without one counts as deep as with one.
TEST(message_codec, bounds_nesting_of_elements_without_a_message) {
  auto m = caf::make_message(1);
  for (int i = 1; i < 63; ++i) m = caf::make_message(i, m);
  encoder out(nullptr, nullptr);
  put_as_message(out, m);
  EXPECT_NO_THROW(decode<caf::message>(out.bytes()));
  m = caf::make_message(63, m);
  EXPECT_NO_THROW(encode(m));
  EXPECT_THROW(put_as_message(out, m), encode_error);
}

TEST(message_codec, carries_messages_in_messages) {
  auto m = caf::make_message(std::string("innermost"));
  for (int i = 0; i < 60; ++i) m = caf::make_message(i, m);
  expect_same(send(m), m);
  for (int i = 0; i < 10; ++i) m = caf::make_message(i, m);
  EXPECT_THROW(encode(m), encode_error);
  std::vector<std::byte> bytes;
  for (int i = 0; i < 70; ++i) {
    const auto level = encode(std::pair(std::uint8_t{1}, type_identity<caf::message>()));
    bytes.insert(bytes.end(), level.begin(), level.end());
  }
  bytes.push_back(std::byte(0));
  EXPECT_THROW(decode<caf::message>(bytes), decode_error);
}

TEST(message_codec, bounds_the_number_of_elements) {
  caf::message m;
  for (int i = 0; i < 64; ++i) m += caf::make_message(i);
  expect_same(send(m), m);
  m += caf::make_message(64);
  EXPECT_THROW(encode(m), encode_error);
  auto bytes = encode(caf::make_message(nothing(), nothing()));
  bytes[0] = std::byte(65);
  for (int i = 2; i < 65; ++i) {
    const auto hash = encode(type_identity<nothing>());
    bytes.insert(bytes.end(), hash.begin(), hash.end());
  }
  EXPECT_THROW(decode<caf::message>(bytes), decode_error);
}

TEST(message_codec, names_a_type_that_cannot_be_sent) {
  try {
    encode(caf::make_message(1, never_registered()));
    FAIL() << "nothing was thrown";
  } catch (const encode_error& e) {
    EXPECT_NE(std::string(e.what()).find("never_registered"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("TROUPE_MESSAGE"), std::string::npos) << e.what();
  }
}

// Every bit of a type's hash counts.
TEST(message_codec, refuses_types_that_nobody_knows) {
  const auto valid = encode(caf::make_message(std::string("text")));
  for (std::size_t bit = 0; bit < 64; ++bit) {
    auto bytes = valid;
    bytes[1 + bit / 8] ^= std::byte(1u << bit % 8);
    try {
      decode<caf::message>(bytes);
      ADD_FAILURE() << "bit " << bit << " changed: nothing was thrown";
    } catch (const error& e) {
      EXPECT_EQ(e.code(), bit < 24 ? errc::type_mismatch : errc::decode_error) << "bit " << bit;
      EXPECT_NE(std::string(e.what()).find("do all nodes run the same program?"), std::string::npos)
          << e.what();
    }
  }
}

TEST(message_codec, refuses_a_value_of_another_type) {
  const auto relabelled = [](const auto& x, std::uint64_t hash) {
    auto bytes = encode(caf::make_message(x));
    std::memcpy(bytes.data() + 1, &hash, sizeof hash);
    return bytes;
  };
  const auto as_double = relabelled(7, type_identity<double>());
  const auto as_int = relabelled(7.0, type_identity<int>());
  const auto as_string = relabelled(std::vector<double>{1, 2}, type_identity<std::string>());
  const auto as_flag = relabelled(std::int8_t{7}, type_identity<bool>());
  for (const auto& bytes : {as_double, as_int, as_string, as_flag})
    EXPECT_THROW(decode<caf::message>(bytes), decode_error);
}

TEST(message_codec, carries_handles_and_messages_of_the_system) {
  some_actor actor;
  const auto whom = actor.handle();
  numbered_handles handles;
  const auto m =
      send(caf::make_message(
               whom, caf::actor_cast<caf::strong_actor_ptr>(whom), whom.address(),
               caf::down_msg{whom.address(), caf::make_error(caf::exit_reason::kill)},
               caf::exit_msg{whom.address(), caf::make_error(caf::sec::bad_function_call)}),
           &handles);
  ASSERT_TRUE((m.match_elements<caf::actor, caf::strong_actor_ptr, caf::actor_addr, caf::down_msg,
                                caf::exit_msg>()));
  EXPECT_EQ(m.get_as<caf::actor>(0), whom);
  EXPECT_EQ(m.get_as<caf::strong_actor_ptr>(1), whom);
  EXPECT_EQ(m.get_as<caf::actor_addr>(2), whom.address());
  EXPECT_EQ(m.get_as<caf::down_msg>(3).source, whom.address());
  EXPECT_EQ(m.get_as<caf::down_msg>(3).reason, caf::exit_reason::kill);
  EXPECT_EQ(m.get_as<caf::exit_msg>(4).reason, caf::sec::bad_function_call);
}

TEST(message_codec, carries_errors) {
  const caf::error errors[] = {
      caf::none, caf::make_error(caf::sec::request_timeout),
      caf::make_error(caf::sec::unexpected_message, std::string("why"), 7, point{1, 2, {}}),
      caf::make_error(caf::exit_reason::user_shutdown),
      caf::error(255, caf::atom("mine"),
                 caf::make_message(caf::make_error(caf::sec::bad_function_call)))};
  for (const auto& e : errors) {
    const auto back = send(e);
    EXPECT_EQ(back, e);
    if (e) expect_same(back.context(), e.context());
  }
}

// The error is on its way already: half of it is better than another error.
TEST(message_codec, describes_what_an_error_cannot_carry) {
  const auto back = send(caf::make_error(caf::sec::runtime_error, std::string("the reason"),
                                         never_registered(), at::Tensor()));
  EXPECT_EQ(back, caf::sec::runtime_error);
  ASSERT_TRUE(back.context().match_elements<std::string>());
  EXPECT_NE(back.context().get_as<std::string>(0).find("the reason"), std::string::npos);
}

TEST(faults, keep_their_fields_as_errors_of_actors) {
  for_every_code([](errc code) {
    const auto f = full_fault(code);
    const auto e = send(to_caf(f));
    EXPECT_TRUE(is_troupe(e));
    expect_same_fault(to_fault(e), f);
  });
}

TEST(faults, of_another_version_become_internal) {
  for (const unsigned code : {200u, 255u}) {
    fault newer;
    newer.text = "something new";
    auto e = to_caf(newer);
    e = caf::error(static_cast<std::uint8_t>(code), e.category(), e.context());
    const auto f = to_fault(e);
    EXPECT_EQ(f.code, errc::internal);
    EXPECT_EQ(f.text, "error code " + std::to_string(code) + " of another version: something new");
  }
}

// Nobody may overflow by adding a limit to a time.
TEST(faults, keep_only_limits_that_can_be) {
  for (const auto limit : {std::numeric_limits<std::int64_t>::min(), std::int64_t{-1},
                           std::numeric_limits<std::int64_t>::max()}) {
    fault hostile;
    hostile.limit = std::chrono::milliseconds(limit);
    const auto f = to_fault(to_caf(hostile));
    EXPECT_GE(f.limit.count(), 0);
    EXPECT_GE(std::chrono::nanoseconds(f.limit).count(), 0);
  }
}

TEST(faults, stand_for_the_errors_of_others) {
  const auto f = [](const caf::error& e) { return to_fault(e); };
  EXPECT_EQ(f(caf::none).text, "no error");
  EXPECT_EQ(f(caf::make_error(caf::sec::request_timeout)).code, errc::rpc_timeout);
  EXPECT_EQ(f(caf::make_error(caf::sec::request_receiver_down)).code, errc::actor_down);
  EXPECT_EQ(f(caf::make_error(caf::exit_reason::kill)).code, errc::actor_down);
  const auto own = f(caf::make_error(caf::sec::runtime_error, std::string("the reason")));
  EXPECT_EQ(own.code, errc::remote_error);
  EXPECT_EQ(own.type, "caf::error");
  EXPECT_NE(own.text.find("runtime_error"), std::string::npos) << own.text;
  EXPECT_NE(own.text.find("the reason"), std::string::npos) << own.text;
  EXPECT_FALSE(is_troupe(caf::make_error(caf::sec::runtime_error)));
  EXPECT_FALSE(is_troupe(caf::none));
  // Our category with other content is forged.
  const caf::error strange(3, to_caf({}).category(), caf::make_message(7));
  EXPECT_TRUE(is_troupe(strange));
  EXPECT_EQ(f(strange).code, errc::remote_error);
}

}  // namespace
}  // namespace troupe::testing
