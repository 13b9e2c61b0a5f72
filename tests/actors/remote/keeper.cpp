#include "tests/actors/remote/keeper.hpp"

namespace troupe::test {

TROUPE_MESSAGE_CODE(keep_one)
TROUPE_MESSAGE_CODE(keep_two)
TROUPE_MESSAGE_CODE(drop_all)

keeper::behavior_type keep_them(keeper::pointer) {
  auto kept = std::make_shared<std::vector<counter>>();
  return {
      [kept](const keep_one& x) {
        kept->push_back(x.whom);
        return static_cast<int>(kept->size());
      },
      [](const keep_two&) { return 2; },
      [kept](const drop_all&) { kept->clear(); },
  };
}

}  // namespace troupe::test
