#pragma once

#include <chrono>
#include <cstdint>

#include "troupe/actors/simulation/simulation.hpp"
#include "troupe/messages/base/random.hpp"

namespace troupe::test {

/// A network's faults under a seed: `often` is the chance that messages are lost at all, and that
/// they are reordered. What is drawn, and in which order, is a part of what a seed means.
inline void draw_bad_links(simulation_options& how, random_source& choose, double often) {
  const auto up_to = [&](double most) {
    return most * static_cast<double>(choose.next() % 1000) / 1000;
  };
  auto& links = how.network.links;
  links.latency = std::chrono::microseconds(5 + choose.next() % 300);
  links.jitter = std::chrono::microseconds(choose.next() % 300);
  if (choose.chance(often)) links.loss = up_to(0.2);
  if (choose.chance(0.7)) links.duplication = up_to(0.2);
  if (choose.chance(often)) links.reordering = up_to(0.3);
  if (choose.chance(0.2)) links.bandwidth = 1e6 + up_to(1e8);
}

/// Half of the time a window of few messages.
inline void draw_window(simulation_options& how, random_source& choose) {
  if (choose.chance(0.5))
    how.node.window = {.messages = 2 + static_cast<std::uint32_t>(choose.next() % 30),
                       .bytes = 1 << 14};
}

}  // namespace troupe::test
