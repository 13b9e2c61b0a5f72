// Every type that the archive knows comes back as it went.
#include <ATen/Context.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>

#include "troupe/messages/codec/archive.hpp"

#include <gtest/gtest.h>

#include <caf/scoped_actor.hpp>

#include "tests/messages/codec/message_testing.hpp"
#include "tests/messages/codec/sendable_types.hpp"

namespace troupe::testing {
namespace {

using arithmetic =
    types<bool, char, signed char, unsigned char, std::int16_t, std::uint16_t, std::int32_t,
          std::uint32_t, std::int64_t, std::uint64_t, long long, float, double, wchar_t, char16_t,
          std::byte, colour, wide_enum, switched, std::complex<float>, std::complex<double>,
          std::chrono::nanoseconds, std::chrono::duration<double>,
          std::chrono::system_clock::time_point, std::chrono::steady_clock::time_point>;

using containers =
    types<std::string, std::u16string, std::vector<std::int8_t>, std::vector<double>,
          std::vector<bool>, std::vector<std::byte>, std::vector<colour>, std::vector<switched>,
          std::vector<std::string>, std::vector<std::complex<double>>,
          std::vector<std::vector<float>>, std::deque<std::string>, std::list<std::uint16_t>,
          std::set<std::string>, std::multiset<int>, std::unordered_set<std::int64_t>,
          std::map<std::string, double>, std::multimap<int, std::string>,
          std::unordered_map<std::string, std::vector<int>>, std::array<std::int32_t, 5>,
          std::array<std::string, 2>, std::array<int, 0>, std::optional<std::string>,
          std::optional<std::optional<bool>>, std::variant<int, std::string, std::vector<bool>>,
          std::variant<std::monostate, double>, std::pair<int, std::string>, std::tuple<>,
          std::tuple<bool, std::string, double>,
          std::vector<std::tuple<int, std::optional<float>>>>;

// Elements that take no bytes, alone and in containers.
using empty_ones =
    types<nothing, of_nothing, inspected_nothing, std::vector<nothing>, std::vector<of_nothing>,
          std::vector<inspected_nothing>, std::list<std::pair<nothing, nothing>>,
          std::vector<std::tuple<>>, std::vector<std::tuple<nothing, nothing>>,
          std::vector<std::array<int, 0>>, std::vector<std::array<nothing, 4>>,
          std::optional<nothing>, std::vector<std::optional<nothing>>,
          std::map<std::string, nothing>, std::vector<std::vector<nothing>>>;

using user_types =
    types<point, named_point, inspected, even, tree, wide, nested, std::vector<point>,
          std::map<std::string, std::vector<inspected>>, std::optional<tree>,
          std::variant<point, nested>, std::vector<std::pair<even, wide>>>;

template <class T>
void expect_same_after_the_way() {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    random_values random(seed);
    const auto x = random.make<T>();
    const auto bytes = encode(x);
    const auto back = decode<T>(bytes);
    EXPECT_EQ(back == x, true) << "seed " << seed;
    // And the same in the middle of others, where its end must be found.
    const auto several = std::tuple(std::string("before"), x, std::uint8_t{7}, x);
    EXPECT_EQ(send(several) == several, true) << "seed " << seed;
  }
}

TEST(archive, brings_back_numbers) {
  for_each(arithmetic(), []<class T>() { expect_same_after_the_way<T>(); });
}

TEST(archive, brings_back_containers) {
  for_each(containers(), []<class T>() { expect_same_after_the_way<T>(); });
}

TEST(archive, brings_back_what_has_no_content) {
  for_each(empty_ones(), []<class T>() { expect_same_after_the_way<T>(); });
}

TEST(archive, brings_back_user_types) {
  for_each(user_types(), []<class T>() { expect_same_after_the_way<T>(); });
}

TEST(archive, keeps_every_bit_of_a_number) {
  for (const std::uint64_t bits :
       {0x7ff8000000000001ull, 0xfff0dead0000beefull, 1ull, 1ull << 63}) {
    double x = 0;
    std::memcpy(&x, &bits, sizeof x);
    const auto back = decode<std::vector<double>>(encode(std::vector{x, x})).at(1);
    EXPECT_EQ(std::memcmp(&back, &bits, sizeof x), 0);
  }
}

TEST(archive, writes_what_the_format_specifies) {
  const auto bytes = [](std::initializer_list<int> values) {
    std::vector<std::byte> out;
    for (const int v : values) out.push_back(std::byte(v));
    return out;
  };
  EXPECT_EQ(encode(std::uint32_t{0x01020304}), bytes({4, 3, 2, 1}));
  EXPECT_EQ(encode(true), bytes({1}));
  EXPECT_EQ(encode(colour::blue), bytes({2}));
  EXPECT_EQ(encode(std::string("ab")), bytes({2, 0, 0, 0, 0, 0, 0, 0, 'a', 'b'}));
  EXPECT_EQ(encode(std::vector<bool>{true, false}), bytes({2, 0, 0, 0, 0, 0, 0, 0, 1, 0}));
  EXPECT_EQ(encode(std::vector<std::byte>{std::byte{9}}), bytes({1, 0, 0, 0, 0, 0, 0, 0, 9}));
  EXPECT_EQ(encode(std::optional<std::uint8_t>(5)), bytes({1, 5}));
  EXPECT_EQ(encode(std::optional<std::uint8_t>()), bytes({0}));
  EXPECT_EQ(encode(std::variant<bool, std::uint8_t>(std::uint8_t{5})), bytes({1, 5}));
  EXPECT_EQ(encode(nothing{}), bytes({}));
  EXPECT_EQ(encode(std::pair(std::uint8_t{1}, std::uint8_t{2})), bytes({1, 2}));
}

TEST(archive, reads_into_a_value_that_was_used_before) {
  std::map<std::string, int> x{{"old", 1}};
  const auto bytes = encode(std::map<std::string, int>{{"new", 2}});
  decoder in(bytes, nullptr, nullptr);
  in.get_into(x);
  EXPECT_EQ(x, (std::map<std::string, int>{{"new", 2}}));
  std::optional<int> y = 7;
  const auto none = encode(std::optional<int>());
  decoder(none, nullptr, nullptr).get_into(y);
  EXPECT_FALSE(y);
}

TEST(archive, takes_large_containers) {
  EXPECT_EQ(send(std::vector<nothing>(65'536)).size(), 65'536u);
  EXPECT_EQ(send(std::vector<inspected>(70'000)).size(), 70'000u);
  EXPECT_EQ(send(std::vector<std::optional<bool>>(200'000)).size(), 200'000u);
  std::vector<std::byte> block(std::size_t{4} << 20, std::byte{3});
  EXPECT_EQ(send(block), block);
}

// A variant is left without a value when the new one's constructor throws.
struct fragile {
  fragile() = default;
  explicit fragile(int) { throw std::runtime_error("fragile"); }
  std::vector<int> content;
};
TROUPE_MESSAGE(fragile, content)

// What the other side would refuse is refused here, where the caller can do something about it.
TEST(archive, refuses_to_write_what_cannot_be_read) {
  EXPECT_THROW(encode(std::vector<nothing>(65'537)), encode_error);
  EXPECT_THROW(encode(std::vector<inspected_nothing>(65'537)), encode_error);
  EXPECT_THROW(encode(std::vector<std::vector<nothing>>(2, std::vector<nothing>(40'000))),
               encode_error);
  std::variant<bool, fragile> valueless;
  EXPECT_THROW(valueless.emplace<fragile>(1), std::runtime_error);
  EXPECT_THROW(encode(valueless), encode_error);
  EXPECT_THROW(encode(at::ones({2})), encode_error);
  EXPECT_THROW(encode(caf::actor()), encode_error);
}

tree chain(int length) {
  tree out;
  for (int i = 1; i < length; ++i) {
    tree parent;
    parent.children.push_back(std::move(out));
    out = std::move(parent);
  }
  return out;
}

// A tree's level is two of the archive's: the struct and its vector.
TEST(archive, bounds_nesting_on_both_sides) {
  const auto deep = chain(32);
  EXPECT_EQ(decode<tree>(encode(deep)) == deep, true);
  EXPECT_THROW(encode(chain(33)), encode_error);
  EXPECT_THROW(encode(chain(10'000)), encode_error);
  std::vector<std::byte> bytes;
  for (int i = 0; i < 100'000; ++i) {
    const auto level = encode(std::pair(std::int16_t{1}, std::uint64_t{1}));
    bytes.insert(bytes.end(), level.begin(), level.end());
  }
  EXPECT_THROW(decode<tree>(bytes), decode_error);
}

TEST(archive, can_be_used_again_after_an_error) {
  encoder out(nullptr, nullptr);
  EXPECT_THROW(out.put(std::vector<nothing>(65'537)), encode_error);
  EXPECT_THROW(out.put(chain(40)), encode_error);
  out.reset(nullptr, nullptr);
  for (int i = 0; i < 100; ++i) {
    out.reset(nullptr, nullptr);
    out.put(std::vector<nothing>(60'000));
    out.put(chain(32));
  }
  EXPECT_EQ(out.bytes().size(), 8 + encode(chain(32)).size());
}

TEST(archive, refuses_wrong_values) {
  const auto refuses = [](const auto& written, auto as) {
    EXPECT_THROW(decode<decltype(as)>(encode(written)), decode_error);
  };
  refuses(std::uint8_t{2}, bool{});
  refuses(std::uint8_t{2}, switched{});
  refuses(std::uint8_t{2}, std::optional<nothing>{});
  refuses(std::uint8_t{2}, std::variant<std::monostate, nothing>{});
  refuses(std::vector<std::uint8_t>{1, 0, 2}, std::vector<bool>{});
  refuses(std::vector<std::uint8_t>{1, 0, 2}, std::vector<switched>{});
  refuses(std::int32_t{3}, even{});
  refuses(std::int32_t{3}, std::int64_t{});
  refuses(std::int64_t{3}, std::int32_t{});
  refuses(std::string("abc"), std::vector<double>{});
  refuses(std::vector<double>{1, 2}, std::string{});
  refuses(nothing{}, std::uint8_t{});
  refuses(std::uint32_t{0}, at::Tensor());
  refuses(std::uint64_t{0}, caf::actor());
}

TEST(archive, reports_what_is_wrong) {
  const auto complaint = [](auto as, const std::vector<std::byte>& bytes) {
    try {
      decode<decltype(as)>(bytes);
    } catch (const decode_error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(complaint(std::uint32_t{}, encode(std::uint8_t{1})),
            "a message ends early: 4 bytes wanted, 1 left");
  EXPECT_EQ(complaint(std::uint8_t{}, encode(std::uint32_t{1})),
            "3 bytes too many after a message's body");
  EXPECT_EQ(complaint(std::string(), encode(std::uint64_t{1} << 60)),
            "a container claims 1152921504606846976 elements with 0 bytes left");
  EXPECT_EQ(complaint(std::variant<bool, int>(), encode(std::uint8_t{7})),
            "a variant holds alternative 7 of 2");
  EXPECT_NE(complaint(even(), encode(std::int32_t{1})).find("inspect of"), std::string::npos);
}

TEST(archive, carries_tensors_inside_user_types) {
  at::manual_seed(11);
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    random_values random(seed);
    const auto x = random.make<std::vector<model>>();
    EXPECT_EQ(send(x) == x, true) << "seed " << seed;
  }
}

TEST(archive, keeps_tensors_that_share_memory_together) {
  const auto base = at::arange(1000, at::kFloat);
  layer x{"views", base, base.narrow(0, 500, 500), {base, at::Tensor()}};
  const auto back = send(x);
  EXPECT_EQ(back == x, true);
  EXPECT_TRUE(back.weight.is_alias_of(*back.bias));
  EXPECT_TRUE(back.weight.is_alias_of(back.buffers[0]));
  back.weight[999] = -1;
  EXPECT_EQ((*back.bias)[499].item<float>(), -1);
  EXPECT_EQ(base[999].item<float>(), 999);
}

TEST(archive, carries_handles_through_the_translator) {
  some_actor actor;
  const auto whom = actor.handle();
  numbered_handles handles;
  EXPECT_EQ(send(whom, &handles), whom);
  EXPECT_EQ(send(caf::actor_cast<caf::strong_actor_ptr>(whom), &handles), whom);
  EXPECT_EQ(send(whom.address(), &handles), whom.address());
  EXPECT_EQ(send(caf::strong_actor_ptr(), &handles), nullptr);
  const std::map<std::string, std::vector<caf::actor>> many{{"a", std::vector(2, whom)}, {"b", {}}};
  EXPECT_EQ(send(many, &handles), many);
  EXPECT_THROW(decode<caf::actor>(encode(std::uint64_t{99}), &handles), decode_error);
}

}  // namespace
}  // namespace troupe::testing
