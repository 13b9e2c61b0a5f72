#pragma once

// Included before all else by compilers that have C++20's later rules of rewritten comparisons
// (P2468R2: clang 16, g++ 13), for Cap'n Proto before 0.11: `const char* == kj::StringPtr`, which
// its headers use, is no reversed member any more. Needs nothing of Cap'n Proto, so that a source
// which does not use it pays nothing.
namespace kj {

class StringPtr;

template <typename Text>
requires(__is_same(Text, StringPtr)) inline bool operator==(const char* text, const Text& other) {
  return other == text;
}

}  // namespace kj
