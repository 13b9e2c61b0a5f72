#include "tests/actors/remote/extern_message.hpp"

namespace troupe::test {

TROUPE_MESSAGE_CODE(parcel_of_texts)

parcel_of_texts unpack(parcel_of_texts what) {
  for (auto& text : what.texts) text += '!';
  return what;
}

}  // namespace troupe::test
