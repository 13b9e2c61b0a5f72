// Bytes from elsewhere: a decoder reads them or throws decode_error, and does no harm.
#include <gtest/gtest.h>

#include "tests/messages/codec/message_testing.hpp"
#include "tests/messages/codec/sendable_types.hpp"
#include "tests/messages/hostile_bytes.hpp"

namespace troupe::testing {
namespace {

// What is read has one way to be written, so that nothing was misread. Not so in sets and maps,
// whose elements may come in any order and twice.
template <class T>
byte_reader exact_reader() {
  return [](std::span<const std::byte> bytes) {
    const auto again = encode(decode<T>(bytes));
    EXPECT_TRUE(std::ranges::equal(bytes, again));
  };
}

template <class T>
byte_reader reader() {
  return [](std::span<const std::byte> bytes) { decode<T>(bytes); };
}

template <class T>
byte_vector sample() {
  byte_vector best;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    random_values random(seed);
    auto bytes = encode(random.make<T>());
    if (bytes.size() > best.size() && bytes.size() < 400) best = std::move(bytes);
  }
  return best;
}

using exact_types =
    types<bool, std::int16_t, double, colour, switched, std::complex<double>,
          std::chrono::milliseconds, std::string, std::u16string, std::vector<double>,
          std::vector<bool>, std::vector<switched>, std::vector<std::byte>,
          std::vector<std::string>, std::vector<std::vector<float>>, std::list<std::uint16_t>,
          std::array<std::string, 2>, std::optional<std::optional<std::string>>,
          std::variant<std::monostate, int, std::string, std::vector<bool>>,
          std::tuple<bool, std::pair<int, std::string>, double>,
          std::vector<std::tuple<int, std::optional<float>>>, point, named_point,
          std::vector<inspected>, even, tree, wide>;
TEST(hostile_archive, is_read_or_refused) {
  for_each(exact_types(), []<class T>() {
    survive_everything(exact_reader<T>(), sample<T>(), std::string(type_name<T>()));
  });
}

// One of their numbers may cost a thousand times what a byte costs elsewhere.
TEST(hostile_archive, of_elements_without_content_is_read_or_refused) {
  const std::vector<std::vector<of_nothing>> nested(2, std::vector<of_nothing>(1));
  survive_everything(exact_reader<std::vector<std::vector<of_nothing>>>(), encode(nested),
                     "empty structs", 30);
  const std::vector<inspected_nothing> flat(3);
  survive_everything(exact_reader<std::vector<inspected_nothing>>(), encode(flat),
                     "empty by inspect", 30);
}

using associations =
    types<std::set<std::string>, std::multiset<int>, std::unordered_set<std::int64_t>,
          std::map<std::string, double>, std::multimap<std::uint8_t, bool>,
          std::unordered_map<std::string, std::vector<int>>, nested>;
TEST(hostile_archive, of_sets_and_maps_is_read_or_refused) {
  for_each(associations(), []<class T>() {
    survive_everything(reader<T>(), sample<T>(), std::string(type_name<T>()));
  });
}

// The text of an error takes a few hundred bytes.
template <class T>
void expect_refused_unallocated(std::uint64_t claimed) {
  auto bytes = encode(claimed);
  bytes.resize(64);
  allocation_meter::reset();
  EXPECT_THROW(decode<T>(bytes), decode_error) << type_name<T>();
  EXPECT_LT(allocation_meter::local().total, 4096u) << type_name<T>();
}

TEST(hostile_lengths, are_refused_before_memory_is_taken) {
  allocation_meter::reset();
  EXPECT_EQ(decode<std::vector<double>>(encode(std::vector<double>(500))).size(), 500u);
  EXPECT_GE(allocation_meter::local().total, 2 * 500 * sizeof(double));
  for (const auto claimed : {std::uint64_t{1} << 60, ~std::uint64_t{0}, std::uint64_t{1} << 61,
                             std::uint64_t{1} << 32, std::uint64_t{57}}) {
    expect_refused_unallocated<std::string>(claimed);
    expect_refused_unallocated<std::u16string>(claimed);
    expect_refused_unallocated<std::vector<std::byte>>(claimed);
    expect_refused_unallocated<std::vector<bool>>(claimed);
    expect_refused_unallocated<std::vector<double>>(claimed);
    expect_refused_unallocated<std::vector<std::complex<double>>>(claimed);
    expect_refused_unallocated<std::vector<std::string>>(claimed);
    expect_refused_unallocated<std::vector<std::optional<nothing>>>(claimed);
    expect_refused_unallocated<std::vector<std::pair<nothing, point>>>(claimed);
    expect_refused_unallocated<std::vector<std::array<point, 9>>>(claimed);
    expect_refused_unallocated<std::map<std::string, double>>(claimed);
    expect_refused_unallocated<std::unordered_set<std::int64_t>>(claimed);
    expect_refused_unallocated<tree>(claimed << 16);
  }
}

// Nothing but the number itself stands for such elements.
TEST(hostile_lengths, of_elements_without_content_are_bounded_over_a_message) {
  const auto claims = [](std::uint64_t inner, std::size_t times) {
    return encode(std::vector<std::uint64_t>(times, inner));
  };
  EXPECT_EQ(decode<std::vector<std::vector<nothing>>>(claims(8'000, 8)).size(), 8u);
  EXPECT_THROW(decode<std::vector<std::vector<nothing>>>(claims(8'192, 9)), decode_error);
  EXPECT_THROW(decode<std::vector<std::vector<nothing>>>(claims(~0ull, 1)), decode_error);
  const auto bytes = claims(60'000, 100'000);
  allocation_meter::reset();
  EXPECT_THROW(decode<std::vector<std::vector<nothing>>>(bytes), decode_error);
  EXPECT_LT(allocation_meter::local().total, std::size_t{1} << 20);
}

TEST(hostile_lengths, read_nothing_from_no_bytes) {
  decoder in({}, nullptr, nullptr);
  EXPECT_EQ(in.remaining(), 0u);
  EXPECT_NO_THROW(in.expect_end());
  EXPECT_NO_THROW(in.raw(nullptr, 0));
  EXPECT_NO_THROW(in.get<nothing>());
  EXPECT_THROW(in.get<bool>(), decode_error);
  EXPECT_THROW(in.get<std::string>(), decode_error);
  EXPECT_THROW(in.get<caf::message>(), decode_error);
}

}  // namespace
}  // namespace troupe::testing
