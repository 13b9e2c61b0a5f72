// Many loans at random.

#include <random>
#include "tests/transport/lending/lending_fixture.hpp"

namespace troupe::transport::lending::test {
namespace {

// Both send, keep, send back and drop at random, over messages that overtake each other; then
// nothing is in use.
TEST_F(lending_test, nothing_leaks_whatever_happens) {
  struct held {
    std::shared_ptr<std::byte> data;
    std::size_t size;
    std::uint64_t seed;
  };
  std::mt19937_64 random(11);
  std::array<std::vector<held>, 2> keeps;
  std::array<lender*, 2> nodes = {&a, &b};
  std::uint64_t seed = 0;
  std::size_t checked = 0;
  const auto take = [&](std::size_t who) {
    for (auto& m : nodes[who]->received.messages) {
      const auto* const of = reinterpret_cast<const std::uint64_t*>(m.envelope.data());
      for (std::size_t i = 0; i < m.payloads.size(); ++i) {
        auto& p = m.payloads[i];
        ASSERT_TRUE(has_pattern(p.data.get(), std::min<std::size_t>(p.size, 256), of[i]));
        ASSERT_EQ(p.data.get()[p.size - 1], pattern(of[i], p.size - 1));
        ++checked;
        if (random() % 2) keeps[who].push_back({std::move(p.data), p.size, of[i]});
      }
    }
    nodes[who]->received.messages.clear();
  };
  for (int step = 0; step < 20'000; ++step) {
    const auto who = random() % 2;
    auto& mine = keeps[who];
    std::vector<outgoing_payload> payloads;
    frame envelope(8 * 8);
    envelope.resize(8 * 8);
    auto* const seeds = reinterpret_cast<std::uint64_t*>(envelope.data());
    const auto count = random() % 4;
    for (std::size_t i = 0; i < count; ++i) {
      if (!mine.empty() && random() % 2) {
        const auto& one = mine[random() % mine.size()];
        outgoing_payload back;
        back.data = one.data.get();
        back.size = random() % 4 ? one.size : std::max<std::size_t>(one.size / 2, 1);
        back.keep = one.data;
        seeds[i] = one.seed;
        payloads.push_back(std::move(back));
      } else {
        const std::size_t size =
            random() % 3 == 0 ? 1 + random() % 1000 : 16'384 + random() % 30'000;
        seeds[i] = ++seed;
        payloads.push_back(nodes[who]->payload(size, seed));
      }
    }
    (*nodes[who])
        ->send(static_cast<rank_t>(1 - who), random() % 3, std::move(envelope),
               std::move(payloads));
    while (!mine.empty() && random() % 2) {
      std::swap(mine[random() % mine.size()], mine.back());
      mine.pop_back();
    }
    if (random() % 2) {
      (*nodes[1 - who])->progress();
      take(1 - who);
    }
    if (HasFatalFailure()) return;
  }
  ASSERT_TRUE(run([&] {
    for (std::size_t who = 0; who < 2; ++who) take(who), keeps[who].clear();
    return a.in_use() == 0 && b.in_use() == 0;
  }));
  EXPECT_GT(checked, 10'000u);
}

}  // namespace
}  // namespace troupe::transport::lending::test
