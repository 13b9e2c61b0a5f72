// A fault to send, and what must have arrived.
#pragma once

#include <gtest/gtest.h>

#include "troupe/messages/base/error.hpp"

namespace troupe::testing {

/// A fault with something in every field.
inline fault full_fault(errc code = errc::remote_error) {
  fault f;
  f.code = code;
  f.text = "the weights of layer 3 are missing \xc3\xa9";
  f.node = "ps2";
  f.function = "decode";
  f.type = "std::out_of_range";
  f.trace = "throws()\ncalls()\n";
  f.via = "evaluate on trainer1\nstep on trainer0";
  f.limit = std::chrono::milliseconds(2500 + static_cast<int>(code));
  return f;
}

inline void expect_same_fault(const fault& got, const fault& sent) {
  EXPECT_EQ(got.code, sent.code);
  EXPECT_EQ(got.text, sent.text);
  EXPECT_EQ(got.node, sent.node);
  EXPECT_EQ(got.function, sent.function);
  EXPECT_EQ(got.type, sent.type);
  EXPECT_EQ(got.limit, sent.limit);
  EXPECT_EQ(got.trace, sent.trace);
  EXPECT_EQ(got.via, sent.via);
}

/// Calls `use` with every code that there is.
template <class Use>
void for_every_code(Use&& use) {
  for (auto code = static_cast<int>(errc::internal); code <= static_cast<int>(errc::leaked_rref);
       ++code)
    use(static_cast<errc>(code));
}

}  // namespace troupe::testing
