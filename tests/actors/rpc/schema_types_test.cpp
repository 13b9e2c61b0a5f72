// Types that are written by a schema of Cap'n Proto, in calls and as messages to actors.
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>

#include <troupe/schema.hpp>

#include "tests/actors/node/job.hpp"
#include "troupe/messages/schema/error.capnp.h"

namespace troupe::test {

struct complaint {
  int number = 0;
  std::string text;
};
void to_schema(const complaint& from, schema::Fault::Builder to) {
  to.setCode(static_cast<std::uint16_t>(from.number));
  to.setText(from.text.c_str());
}
void from_schema(schema::Fault::Reader from, complaint& to) {
  to.number = from.getCode();
  to.text = from.getText().cStr();
}
TROUPE_SCHEMA(complaint, schema::Fault)

struct complaint_with_proof {
  complaint what;
  std::map<std::string, std::vector<at::Tensor>> proof;
};
TROUPE_MESSAGE(complaint_with_proof, what, proof)

using office = actor<answers<complaint, complaint>>;

namespace {

class schema_types : public on_networks {};
TROUPE_ON_NETWORKS(schema_types);

complaint_with_proof louder(complaint_with_proof x) {
  x.what.text += "!";
  return x;
}
office::behavior_type deaf() {
  return {[](const complaint& x) { return complaint{x.number + 1, "what was " + x.text + "?"}; }};
}

TEST_P(schema_types, travel_in_calls_beside_tensors) {
  auto nodes = start({"a", "b"});
  const auto back = nodes[0].rpc_sync<&louder>(
      "b", complaint_with_proof{{7, "too slow"}, {{"runs", {at::ones({3})}}}});
  EXPECT_EQ(back.what.number, 7);
  EXPECT_EQ(back.what.text, "too slow!");
  EXPECT_TRUE(at::equal(back.proof.at("runs").at(0), at::ones({3})));
  shut_down(nodes);
}

TEST_P(schema_types, are_messages_of_actors) {
  auto nodes = start({"a", "b"});
  {
    const auto there = nodes[0].spawn_on<&deaf>("b");
    const auto answer = request(there, complaint{7, "too slow"}).get();
    EXPECT_EQ(answer.number, 8);
    EXPECT_EQ(answer.text, "what was too slow?");
  }
  shut_down(nodes);
}

}  // namespace
}  // namespace troupe::test
