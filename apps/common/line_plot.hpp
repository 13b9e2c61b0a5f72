#pragma once

#include <string>
#include <vector>

namespace common {

/// A plot of lines, points and levels over two axes, as a self-contained SVG picture 800 units
/// wide. Points that are not finite are omitted; points beyond an axis are drawn at its end. An
/// axis with invalid ends (not finite, in the wrong order, or below 0 on a logarithmic axis) gets
/// others.
class line_plot {
public:
  struct axis {
    std::string name;
    double first = 0;
    double last = 1;
    bool logarithmic = false;
  };
  struct point {
    double x, y;
  };
  using points = std::vector<point>;

  line_plot(std::string title, std::string subtitle, axis x, axis y);

  /// Later series lie above earlier ones, and follow them in the legend unless their name is empty.
  /// `color` is SVG's.
  void add_line(std::string name, std::string color, points all, double width = 2.2);
  void add_dots(std::string name, std::string color, points all);
  void add_level(std::string name, std::string color, double y);

  std::string svg() const;

private:
  enum class kind { line, dots, level };
  struct series {
    kind what;
    std::string name, color;
    points all;
    double width;
  };
  class canvas;

  const std::string title_, subtitle_;
  const axis x_, y_;
  std::vector<series> series_;
};

/// Colours that people with colour blindness can tell apart too; they repeat after the last.
const char* plot_color(std::size_t number);

}  // namespace common
