#pragma once

#include <troupe/troupe.hpp>

namespace troupe::test {

struct parcel_of_texts {
  std::vector<std::string> texts;
};
TROUPE_MESSAGE_EXTERN(parcel_of_texts, texts)

/// More than its base, and so with code of its own.
struct labelled_parcel : parcel_of_texts {
  std::string label;
};
TROUPE_MESSAGE(labelled_parcel, texts, label)

/// The same with "!" behind each.
parcel_of_texts unpack(parcel_of_texts what);

}  // namespace troupe::test
