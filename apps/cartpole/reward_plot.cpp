#include "apps/cartpole/reward_plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "apps/cartpole/environment.hpp"
#include "apps/common/status_line.hpp"

namespace cartpole {

namespace {

constexpr double width = 800, height = 450;
constexpr double left = 70, right = 776, top = 64, bottom = 388;

constexpr const char* ink = "#24292f";
constexpr const char* faint = "#57606a";
constexpr const char* grid = "#e6e8eb";
constexpr const char* episode_color = "#4c8dd6";
constexpr const char* running_color = "#d1495b";
constexpr const char* threshold_color = "#2a7f4f";

// A step of 1, 2 or 5 times a power of ten that divides `range` into at most `most` parts.
double nice_step(double range, int most) {
  const double power = std::pow(10, std::floor(std::log10(range / most)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (range <= most * factor * power * (1 + 1e-9)) return factor * power;
  return 10 * power;
}

// Maps episodes and rewards to the picture, and collects its elements.
class canvas {
public:
  canvas(double episodes, double highest) : last_(std::max(episodes, 2.0)), highest_(highest) {}

  double x(double episode) const { return left + (episode - 1) / (last_ - 1) * (right - left); }
  double y(double reward) const { return bottom - reward / highest_ * (bottom - top); }

  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(body_), format, std::forward<Args>(args)...);
    body_ += '\n';
  }

  void text(double at_x, double at_y, const char* anchor, const char* color, int size,
            const std::string& content) {
    add(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="{}" fill="{}" font-size="{}">{}</text>)", at_x,
        at_y, anchor, color, size, content);
  }

  std::string finish() const {
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
        "height=\"{1}\" font-family=\"'DejaVu Sans', Verdana, Helvetica, Arial, sans-serif\">\n"
        "<rect width=\"{0}\" height=\"{1}\" fill=\"#ffffff\"/>\n{2}</svg>\n",
        width, height, body_);
  }

private:
  double last_;
  double highest_;
  std::string body_;
};

void draw_axes(canvas& picture, double episodes, double highest) {
  const double reward_step = nice_step(highest, 6);
  for (double reward = 0; reward <= highest + 1e-9; reward += reward_step) {
    const double y = picture.y(reward);
    picture.add(R"(<line x1="{}" y1="{:.1f}" x2="{}" y2="{:.1f}" stroke="{}"/>)", left, y, right, y,
                reward == 0 ? ink : grid);
    picture.text(left - 10, y + 4, "end", faint, 12, common::with_commas(reward));
  }
  const double episode_step = std::max(1.0, nice_step(std::max(episodes, 2.0), 8));
  picture.text(left, bottom + 20, "middle", faint, 12, "1");
  for (double episode = episode_step; episode <= episodes; episode += episode_step) {
    const double x = picture.x(episode);
    if (x < left + 24) continue;  // too close to the first label
    picture.add(R"(<line x1="{0:.1f}" y1="{1}" x2="{0:.1f}" y2="{2}" stroke="{3}"/>)", x, bottom,
                bottom + 5, ink);
    picture.text(x, bottom + 20, "middle", faint, 12, common::with_commas(episode));
  }
  picture.add(R"(<line x1="{0}" y1="{1}" x2="{0}" y2="{2}" stroke="{3}"/>)", left, top, bottom,
              ink);
  picture.text((left + right) / 2, bottom + 44, "middle", ink, 13, "Episode");
  picture.add(
      R"svg(<text transform="translate(20 {:.1f}) rotate(-90)" text-anchor="middle" fill="{}" font-size="13">Reward</text>)svg",
      (top + bottom) / 2, ink);
}

void draw_threshold(canvas& picture) {
  const double y = picture.y(reward_threshold);
  picture.add(
      R"(<line x1="{}" y1="{:.1f}" x2="{}" y2="{:.1f}" stroke="{}" stroke-width="1.5" stroke-dasharray="6 4"/>)",
      left, y, right, y, threshold_color);
}

// All points are one path of dots, which keeps a long run's file small.
void draw_episodes(canvas& picture, const std::vector<double>& rewards) {
  std::string path;
  for (std::size_t i = 0; i < rewards.size(); ++i)
    fmt::format_to(std::back_inserter(path), "M{:.1f} {:.1f}h0", picture.x(double(i + 1)),
                   picture.y(rewards[i]));
  const double size = std::clamp(900.0 / double(rewards.size() + 1), 3.0, 5.0);
  picture.add(
      R"(<path d="{}" fill="none" stroke="{}" stroke-opacity="0.55" stroke-width="{:.1f}" stroke-linecap="round"/>)",
      path, episode_color, size);
}

void draw_running(canvas& picture, const std::vector<double>& rewards) {
  std::string points;
  for (std::size_t i = 0; i < rewards.size(); ++i)
    fmt::format_to(std::back_inserter(points), "{:.1f},{:.1f} ", picture.x(double(i + 1)),
                   picture.y(rewards[i]));
  picture.add(
      R"(<polyline points="{}" fill="none" stroke="{}" stroke-width="2.2" stroke-linejoin="round"/>)",
      points, running_color);
}

void draw_title(canvas& picture, const training_record& record) {
  picture.add(
      R"(<text x="{}" y="26" fill="{}" font-size="17" font-weight="bold">CartPole-v1: reward per episode</text>)",
      left, ink);
  picture.text(
      left, 46, "start", faint, 12,
      fmt::format("{} after {} episodes, {} steps, {:.1f} s; {} {}, seed {}",
                  record.solved ? "solved" : "not solved",
                  common::with_commas(double(record.episodes())),
                  common::with_commas(double(record.steps)), record.seconds, record.observers,
                  record.observers == 1 ? "observer" : "observers", record.seed));
}

// Stands above the plot, so that it can never cover a point.
void draw_legend(canvas& picture, bool several) {
  const double y = 26;
  picture.add(R"(<circle cx="412" cy="{}" r="3.5" fill="{}" fill-opacity="0.7"/>)", y - 4,
              episode_color);
  picture.text(420, y, "start", ink, 12, several ? "worst observer" : "episode");
  picture.add(R"(<line x1="522" y1="{0}" x2="542" y2="{0}" stroke="{1}" stroke-width="2.2"/>)",
              y - 4, running_color);
  picture.text(547, y, "start", ink, 12, "running reward");
  picture.add(
      R"(<line x1="656" y1="{0}" x2="676" y2="{0}" stroke="{1}" stroke-width="1.5" stroke-dasharray="6 4"/>)",
      y - 4, threshold_color);
  picture.text(681, y, "start", ink, 12, fmt::format("solved at {}", reward_threshold));
}

}  // namespace

std::string reward_plot(const training_record& record) {
  const double episodes = double(record.episodes());
  double highest = max_episode_steps;
  for (const double reward : record.last_rewards) highest = std::max(highest, reward);

  canvas picture(episodes, highest * 1.02);
  draw_title(picture, record);
  draw_legend(picture, record.observers > 1);
  draw_axes(picture, episodes, highest);
  draw_threshold(picture);
  draw_episodes(picture, record.last_rewards);
  draw_running(picture, record.running_rewards);
  return picture.finish();
}

}  // namespace cartpole
