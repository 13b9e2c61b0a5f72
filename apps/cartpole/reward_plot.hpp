#pragma once

#include <string>

#include "troupe/apps/cartpole/training.hpp"

namespace cartpole {

/// The reward curve of a run as a self-contained SVG picture: each episode's reward, the running
/// reward, and the threshold at which the task is solved.
std::string to_svg(const training_record& record);

}  // namespace cartpole
