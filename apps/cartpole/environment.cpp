#include "troupe/apps/cartpole/environment.hpp"

#include <cmath>
#include <numbers>
#include <string>

#include "troupe/messages/base/error.hpp"

// Gymnasium rounds after every operation. A compiler that may use fused multiply-add (say with
// -march=native) would round less often and differ in the last bit.
#if defined(__clang__)
#pragma clang fp contract(off)
#else
#pragma GCC optimize("fp-contract=off")
#endif

namespace cartpole {

namespace {

constexpr double gravity = 9.8;
constexpr double mass_cart = 1.0;
constexpr double mass_pole = 0.1;
constexpr double total_mass = mass_pole + mass_cart;
constexpr double length = 0.5;  // half of the pole's length
constexpr double polemass_length = mass_pole * length;
constexpr double force_mag = 10.0;
constexpr double tau = 0.02;  // seconds between states
constexpr double theta_threshold = 12.0 * 2.0 * std::numbers::pi / 360.0;
constexpr double x_threshold = 2.4;

// One step of the equations of Florian, "Correct equations for the dynamics of the cart-pole
// system" (2007), with Euler's method. The order of the operations is Gymnasium's; keep it.
state integrate(const state& from, double force) {
  const auto [x, x_dot, theta, theta_dot] = from;
  const double costheta = std::cos(theta);
  const double sintheta = std::sin(theta);
  const double temp = (force + polemass_length * (theta_dot * theta_dot) * sintheta) / total_mass;
  const double thetaacc = (gravity * sintheta - costheta * temp) /
                          (length * (4.0 / 3.0 - mass_pole * (costheta * costheta) / total_mass));
  const double xacc = temp - polemass_length * thetaacc * costheta / total_mass;
  return {x + tau * x_dot, x_dot + tau * xacc, theta + tau * theta_dot, theta_dot + tau * thetaacc};
}

bool failed(const state& now) {
  const double x = now[0];
  const double theta = now[2];
  return x < -x_threshold || x > x_threshold || theta < -theta_threshold || theta > theta_threshold;
}

}  // namespace

observation environment::reset() {
  state initial;
  for (double& value : initial) value = random_.uniform(-0.05, 0.05);
  return reset(initial);
}

observation environment::reset(const state& initial) {
  state_ = initial;
  steps_ = 0;
  running_ = true;
  return observe();
}

transition environment::step(std::int64_t action) {
  if (action != 0 && action != 1)
    throw troupe::invalid_argument("CartPole knows the actions 0 and 1, not " +
                                   std::to_string(action));
  if (!running_)
    throw troupe::invalid_argument("this CartPole episode is over: call reset() before step()");
  state_ = integrate(state_, action == 1 ? force_mag : -force_mag);
  ++steps_;
  const transition result{1.0, failed(state_), steps_ >= max_episode_steps};
  running_ = !result.done();
  return result;
}

observation environment::observe() const noexcept {
  observation seen;
  for (std::size_t i = 0; i < seen.size(); ++i) seen[i] = static_cast<float>(state_[i]);
  return seen;
}

}  // namespace cartpole
