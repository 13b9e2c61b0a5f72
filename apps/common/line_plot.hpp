#pragma once

#include <string>
#include <vector>

namespace common {

/// What a run looked like: lines, points and levels over two axes, as a self-contained SVG picture
/// 800 units wide. Points that are not finite are left out, those beyond an axis lie at its end. An
/// axis whose ends make none (not finite, in the wrong order, or below 0 on a logarithmic one) is
/// given others.
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

  /// What comes later lies above, and stands further right in the legend, unless its name is empty.
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

/// Colours that can be told apart, also by those who see fewer of them; begins anew after the last.
const char* plot_color(std::size_t number);

}  // namespace common
