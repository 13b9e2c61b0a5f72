#include "troupe/apps/common/line_plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <optional>

#include "troupe/apps/common/status_line.hpp"

namespace common {

namespace {

constexpr double width = 800, left = 70, right = 776;
constexpr double legend_top = 68, legend_row = 20, plot_height = 324, below = 62;
constexpr double letter = 6.9;  // of the legend, with room to spare

constexpr const char* ink = "#24292f";
constexpr const char* faint = "#57606a";
constexpr const char* grid = "#e6e8eb";

// Paul Tol's "bright" palette.
constexpr std::array colors = {"#4477aa", "#ee6677", "#228833", "#ccbb44",
                               "#66ccee", "#aa3377", "#888888"};

// A step of 1, 2 or 5 times a power of ten that divides `range` into at most `most` parts.
double nice_step(double range, int most) {
  const double power = std::pow(10, std::floor(std::log10(range / most)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (range <= most * factor * power * (1 + 1e-9)) return factor * power;
  return 10 * power;
}

std::string label(double value) {
  const bool plain = std::abs(value) < 1e7 && value == std::round(value);
  return plain ? with_commas(value) : fmt::format("{:g}", value);
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '&')
      out += "&amp;";
    else
      out += c;
  }
  return out;
}

// An axis as it is drawn, which has a length whatever the run was.
class scale {
public:
  explicit scale(const line_plot::axis& what) : log_(what.logarithmic) {
    const bool usable = std::isfinite(what.first) && (!log_ || what.first > 0);
    first_ = usable ? within_reach(what.first) : log_ ? 1 : 0;
    const double shortest = std::max(log_ ? 1e-6 * first_ : 0, least_span);
    const double other = log_ ? first_ * 10 : first_ + std::max(1.0, std::abs(first_));
    const double last = std::isfinite(what.last) ? within_reach(what.last) : first_;
    last_ = last - first_ > shortest ? last : other;
  }

  double first() const { return first_; }

  // From 0 at the axis' first value to 1 at its last.
  std::optional<double> at(double value) const {
    if (!std::isfinite(value)) return std::nullopt;
    const double clamped = std::clamp(value, first_, last_);
    if (!log_) return (clamped - first_) / (last_ - first_);
    return (std::log(clamped) - std::log(first_)) / (std::log(last_) - std::log(first_));
  }

  // Labelled. Only powers of ten where there are many.
  std::vector<double> marks(int most) const {
    auto out = log_ ? powers(most) : std::vector<double>();
    std::erase_if(out, [this](double x) { return x < first_ || x > last_; });
    return out.size() < 2 ? multiples(most) : out;
  }

private:
  // Beyond these, differences of the ends or their logarithms are no numbers.
  static constexpr double farthest = 1e300, least_span = 1e-300;

  double within_reach(double end) const {
    return std::clamp(end, log_ ? least_span : -farthest, farthest);
  }

  // Of a nice step.
  std::vector<double> multiples(int most) const {
    std::vector<double> out;
    const double step = nice_step(last_ - first_, most);
    const double from = std::ceil(first_ / step - 1e-9);
    for (int i = 0; i <= most + 1 && (from + i) * step <= last_ + 1e-9 * step; ++i)
      out.push_back((from + i) * step);
    return out;
  }

  // Of ten; also 2 and 5 times them where there are few.
  std::vector<double> powers(int most) const {
    std::vector<double> out;
    const int lowest = int(std::floor(std::log10(first_))), highest = int(std::log10(last_));
    const int step = std::max(1, (highest - lowest + most) / most);
    for (int n = lowest; n <= highest; n += step)
      for (const double factor : {1.0, 2.0, 5.0})
        if (factor == 1 || highest - lowest <= 3) out.push_back(factor * std::pow(10, n));
    return out;
  }

  const bool log_;
  double first_;
  double last_;
};

}  // namespace

class line_plot::canvas {
public:
  explicit canvas(const line_plot& plot) : plot_(plot), x_(plot.x_), y_(plot.y_) {}

  std::string finish() {
    title();
    legend();
    axes();
    for (const auto& one : plot_.series_) draw(one);
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
        "height=\"{1}\" font-family=\"'DejaVu Sans', Verdana, Helvetica, Arial, sans-serif\">\n"
        "<rect width=\"{0}\" height=\"{1}\" fill=\"#ffffff\"/>\n{2}</svg>\n",
        width, bottom_ + below, body_);
  }

private:
  static double x_of(double share) { return left + share * (right - left); }
  double y_of(double share) const { return bottom_ - share * plot_height; }

  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(body_), format, std::forward<Args>(args)...);
    body_ += '\n';
  }

  void text(double x, double y, const char* anchor, const char* color, int size,
            const std::string& content) {
    add(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="{}" fill="{}" font-size="{}">{}</text>)", x, y,
        anchor, color, size, escaped(content));
  }

  void title() {
    add(R"(<text x="{}" y="26" fill="{}" font-size="17" font-weight="bold">{}</text>)", left, ink,
        escaped(plot_.title_));
    text(left, 46, "start", faint, 12, plot_.subtitle_);
  }

  // Above the plot, so that it can never cover a point.
  void legend() {
    double x = left, y = legend_top;
    for (const auto& one : plot_.series_) {
      if (one.name.empty()) continue;
      const double needs = 32 + letter * double(one.name.size());
      if (x > left && x + needs > right) {
        x = left;
        y += legend_row;
      }
      if (one.what == kind::dots)
        add(R"(<circle cx="{}" cy="{}" r="3.5" fill="{}" fill-opacity="0.7"/>)", x + 10, y - 4,
            one.color);
      else
        add(R"(<line x1="{}" y1="{}" x2="{}" y2="{}" stroke="{}" {}/>)", x, y - 4, x + 20, y - 4,
            one.color, stroke(one));
      text(x + 26, y, "start", ink, 12, one.name);
      x += needs + 16;
    }
    bottom_ = y + 16 + plot_height;
  }

  void axes() {
    const double top = bottom_ - plot_height;
    for (const double value : y_.marks(6)) {
      const double y = y_of(*y_.at(value));
      add(R"(<line x1="{}" y1="{:.1f}" x2="{}" y2="{:.1f}" stroke="{}"/>)", left, y, right, y,
          grid);
      text(left - 10, y + 4, "end", faint, 12, label(value));
    }
    auto marks = x_.marks(8);
    const double first = x_.first();
    if (marks.empty() || marks.front() != first) marks.insert(marks.begin(), first);
    double last_end = -1e9;
    for (const double value : marks) {
      const double x = x_of(*x_.at(value));
      if (x - last_end < 24) continue;  // too close to the label before
      last_end = x;
      add(R"(<line x1="{0:.1f}" y1="{1}" x2="{0:.1f}" y2="{2}" stroke="{3}"/>)", x, bottom_,
          bottom_ + 5, ink);
      text(x, bottom_ + 20, "middle", faint, 12, label(value));
    }
    add(R"(<path d="M{0} {1}V{2}H{3}" fill="none" stroke="{4}"/>)", left, top, bottom_, right, ink);
    text((left + right) / 2, bottom_ + 44, "middle", ink, 13, plot_.x_.name);
    add(R"svg(<text transform="translate(18 {:.1f}) rotate(-90)" text-anchor="middle" fill="{}" font-size="13">{}</text>)svg",
        (top + bottom_) / 2, ink, escaped(plot_.y_.name));
  }

  static std::string stroke(const series& one) {
    return one.what == kind::level ? R"(stroke-width="1.5" stroke-dasharray="6 4")"
                                   : fmt::format(R"(stroke-width="{:g}")", one.width);
  }

  void draw(const series& one) {
    switch (one.what) {
      case kind::line: return line(one);
      case kind::dots: return dots(one);
      case kind::level:
        const auto y = y_.at(one.all.front().y);
        if (y)
          add(R"(<line x1="{}" y1="{:.1f}" x2="{}" y2="{:.1f}" stroke="{}" {}/>)", left, y_of(*y),
              right, y_of(*y), one.color, stroke(one));
    }
  }

  template <class Format>
  std::string all_of(const series& one, Format&& format) const {
    std::string out;
    for (const auto& p : one.all)
      if (const auto x = x_.at(p.x), y = y_.at(p.y); x && y) out += format(x_of(*x), y_of(*y));
    return out;
  }

  void line(const series& one) {
    const auto points = all_of(one, [](double x, double y) {  //
      return fmt::format("{:.1f},{:.1f} ", x, y);
    });
    add(R"(<polyline points="{}" fill="none" stroke="{}" {} stroke-linejoin="round"/>)", points,
        one.color, stroke(one));
  }

  // All are one path, which keeps a long run's file small.
  void dots(const series& one) {
    const auto path = all_of(one, [](double x, double y) {  //
      return fmt::format("M{:.1f} {:.1f}h0", x, y);
    });
    const double size = std::clamp(900.0 / double(one.all.size() + 1), 3.0, one.width);
    add(R"(<path d="{}" fill="none" stroke="{}" stroke-opacity="0.55" stroke-width="{:.1f}" stroke-linecap="round"/>)",
        path, one.color, size);
  }

  const line_plot& plot_;
  const scale x_, y_;
  double bottom_ = 0;
  std::string body_;
};

line_plot::line_plot(std::string title, std::string subtitle, axis x, axis y)
    : title_(std::move(title)),
      subtitle_(std::move(subtitle)),
      x_(std::move(x)),
      y_(std::move(y)) {}

void line_plot::add_line(std::string name, std::string color, points all, double line_width) {
  series_.push_back({kind::line, std::move(name), std::move(color), std::move(all), line_width});
}

void line_plot::add_dots(std::string name, std::string color, points all) {
  series_.push_back({kind::dots, std::move(name), std::move(color), std::move(all), 5});
}

void line_plot::add_level(std::string name, std::string color, double y) {
  series_.push_back({kind::level, std::move(name), std::move(color), {{0, y}}, 1.5});
}

std::string line_plot::svg() const { return canvas(*this).finish(); }

const char* plot_color(std::size_t number) { return colors[number % colors.size()]; }

}  // namespace common
