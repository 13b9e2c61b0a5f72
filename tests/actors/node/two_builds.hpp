#pragma once

// What two programs share by name: TROUPE_TEST_OTHER_BUILD defines some of it in another way.

#include <map>
#include <troupe/troupe.hpp>

namespace troupe::test::builds {

#ifdef TROUPE_TEST_OTHER_BUILD
inline constexpr bool other_build = true;
#else
inline constexpr bool other_build = false;
#endif

/// A field of another type.
struct retyped {
  int count = 0;
  std::conditional_t<other_build, double, float> weight = 0;
};
TROUPE_MESSAGE(retyped, count, weight)

/// One field more.
struct longer {
  int first = 0;
#ifdef TROUPE_TEST_OTHER_BUILD
  int second = 0;
#endif
};
#ifdef TROUPE_TEST_OTHER_BUILD
TROUPE_MESSAGE(longer, first, second)
#else
TROUPE_MESSAGE(longer, first)
#endif

/// The same types, and another order.
struct swapped {
  int width = 0;
  int height = 0;
};
#ifdef TROUPE_TEST_OTHER_BUILD
TROUPE_MESSAGE(swapped, height, width)
#else
TROUPE_MESSAGE(swapped, width, height)
#endif

enum class colour : std::conditional_t<other_build, std::uint16_t, std::uint8_t> { red, green };

struct painted {
  colour paint = colour::red;
};
TROUPE_MESSAGE(painted, paint)

/// Alike itself, and what is deep inside is not.
struct outer {
  std::map<std::string, std::vector<std::optional<std::variant<int, retyped>>>> inside;
};
TROUPE_MESSAGE(outer, inside)

/// The same in both, and made of itself.
struct tree {
  int value = 0;
  std::vector<tree> children;
};
TROUPE_MESSAGE(tree, value, children)

inline int take_retyped(const retyped& x) { return x.count; }
inline int take_longer(const longer& x) { return x.first; }
inline int take_swapped(const swapped& x) { return x.width; }
inline int take_painted(const painted& x) { return static_cast<int>(x.paint); }
inline std::size_t take_outer(const outer& x) { return x.inside.size(); }
inline std::size_t take_tree(const tree& x) { return x.children.size(); }
inline retyped give_retyped(int count) { return {count, 0.5}; }

/// How often each build trains, where the caller gives no number.
inline int trained(int rounds, int repeats) { return rounds * repeats; }
/// The other build's has a parameter more.
#ifdef TROUPE_TEST_OTHER_BUILD
inline int learnt(int rounds, int repeats) { return rounds * repeats; }
#else
inline int learnt(int rounds) { return rounds; }
#endif

/// Takes and answers what is alike and what is not.
using taker = actor<answers<retyped, int>, answers<tree, int>, answers<int, retyped>,
                    accepts<longer>, answers<std::string, int>>;

inline taker::behavior_type take() {
  auto taken = std::make_shared<int>(0);
  return {
      [](const retyped& x) { return x.count; },       [](const tree& x) { return x.value; },
      [](int x) {
        return retyped{x, 0.5}; },          [taken](const longer&) { ++*taken; },
      [taken](const std::string&) { return *taken; },
  };
}

}  // namespace troupe::test::builds

TROUPE_DEFAULTS(&troupe::test::builds::trained, troupe::test::builds::other_build ? 100 : 10)
#ifdef TROUPE_TEST_OTHER_BUILD
TROUPE_DEFAULTS(&troupe::test::builds::learnt, 100)
#endif
