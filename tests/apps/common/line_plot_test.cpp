#include "troupe/apps/common/line_plot.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace {

using common::line_plot;
using testing::HasSubstr;
using testing::Not;

// From 70 to 776 is its width, from 408 up to 84 its height, with one row of a legend.
line_plot picture_of(line_plot::axis x, line_plot::axis y) { return {"title", "about", x, y}; }

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(line_plot, puts_points_where_they_belong) {
  auto picture = picture_of({.name = "x", .first = 10, .last = 20}, {.name = "y", .last = 4});
  picture.add_line("a", "red", {{10, 0}, {15, 1}, {20, 4}});
  picture.add_dots("b", "blue", {{20, 2}});
  picture.add_level("c", "green", 3);
  const auto svg = picture.svg();
  EXPECT_THAT(svg, HasSubstr("points=\"70.0,408.0 423.0,327.0 776.0,84.0 \""));
  EXPECT_THAT(svg, HasSubstr("d=\"M776.0 246.0h0\""));
  EXPECT_THAT(svg, HasSubstr("x1=\"70\" y1=\"165.0\" x2=\"776\" y2=\"165.0\" stroke=\"green\""));
}

TEST(line_plot, puts_equal_factors_at_equal_distances_on_a_logarithmic_axis) {
  auto picture =
      picture_of({.name = "x"}, {.name = "y", .first = 1, .last = 100, .logarithmic = true});
  picture.add_line("a", "red", {{0, 1}, {0.5, 10}, {1, 100}});
  const auto svg = picture.svg();
  EXPECT_THAT(svg, HasSubstr("points=\"70.0,408.0 423.0,246.0 776.0,84.0 \""));
  for (const char* label : {">1<", ">2<", ">5<", ">10<", ">20<", ">50<", ">100<"})
    EXPECT_THAT(svg, HasSubstr(label));
}

TEST(line_plot, labels_its_axes) {
  auto picture = picture_of({.name = "Step", .first = 1, .last = 12'000},
                            {.name = "Loss", .first = 0, .last = 0.7});
  const auto svg = picture.svg();
  for (const char* label : {">Step<", ">Loss<", ">1<", ">2,000<", ">12,000<", ">0<", ">0.2<",
                            ">0.6<", ">title<", ">about<"})
    EXPECT_THAT(svg, HasSubstr(label));
  EXPECT_THAT(svg, Not(HasSubstr(">0.8<")));
}

TEST(line_plot, leaves_out_what_is_not_finite_and_keeps_the_rest_inside) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const bool logarithmic : {false, true}) {
    auto picture =
        picture_of({.name = "x"}, {.name = "y", .first = 1, .last = 2, .logarithmic = logarithmic});
    const line_plot::points odd = {
        {0, std::nan("")}, {0.5, infinity}, {infinity, 1}, {1, 9}, {1, -9}};
    picture.add_line("a", "red", odd);
    picture.add_dots("b", "blue", odd);
    picture.add_level("c", "green", std::nan(""));
    const auto svg = picture.svg();
    EXPECT_THAT(svg, HasSubstr("points=\"776.0,84.0 776.0,408.0 \""));
    EXPECT_EQ(count(svg, "h0"), 2u);
    EXPECT_THAT(svg, Not(HasSubstr("nan")));
    EXPECT_THAT(svg, Not(HasSubstr("inf")));
  }
}

TEST(line_plot, draws_axes_that_have_no_length) {
  for (const bool logarithmic : {false, true}) {
    auto picture = picture_of({.name = "x", .first = 3, .last = 3},
                              {.name = "y", .first = 2, .last = 2, .logarithmic = logarithmic});
    picture.add_line("a", "red", {{3, 2}});
    const auto svg = picture.svg();
    EXPECT_THAT(svg, HasSubstr("points=\"70.0,408.0 \""));
    EXPECT_THAT(svg, Not(HasSubstr("nan")));
  }
}

std::size_t labels_in(double first, double last, bool logarithmic) {
  auto picture = picture_of(
      {.name = "x"}, {.name = "y", .first = first, .last = last, .logarithmic = logarithmic});
  const auto svg = picture.svg();
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("9,223,372")));
  return count(svg, "text-anchor=\"end\"");
}

TEST(line_plot, has_some_labels_whatever_its_axis_is) {
  const double most = std::numeric_limits<double>::max(), none = std::nan("");
  for (const auto& [first, last] : std::vector<std::pair<double, double>>{{225, 473},
                                                                          {1, 1e4},
                                                                          {0.5, 2e9},
                                                                          {1e-300, 1e300},
                                                                          {40, most},
                                                                          {1e15, 1e15 + 2},
                                                                          {-most, most},
                                                                          {most, 0},
                                                                          {1.8e307, none},
                                                                          {0, 5e-324},
                                                                          {5e-324, 1e-323},
                                                                          {0, 1e26},
                                                                          {0, 0},
                                                                          {-3, 5},
                                                                          {5, -3},
                                                                          {none, none},
                                                                          {0, none},
                                                                          {1, HUGE_VAL},
                                                                          {-HUGE_VAL, HUGE_VAL}})
    for (const bool logarithmic : {false, true}) {
      SCOPED_TRACE(fmt::format("{} to {}{}", first, last, logarithmic ? ", logarithmic" : ""));
      const auto labels = labels_in(first, last, logarithmic);
      EXPECT_GE(labels, 2u);
      EXPECT_LE(labels, 15u);
    }
}

TEST(line_plot, has_a_legend_of_as_many_rows_as_it_needs) {
  auto picture = picture_of({.name = "x"}, {.name = "y"});
  picture.add_line("one that is named", "red", {{0, 0}});
  picture.add_line("", "red", {{0, 0}});
  EXPECT_EQ(count(picture.svg(), "text-anchor=\"start\""), 2u);  // the subtitle's too
  for (int i = 0; i < 9; ++i) picture.add_line("something with a long name", "red", {{0, 0}});
  const auto svg = picture.svg();
  EXPECT_THAT(svg, HasSubstr("y=\"108.0\" text-anchor=\"start\""));
  EXPECT_THAT(svg, HasSubstr("points=\"70.0,468.0 \""));  // the plot makes room
  EXPECT_THAT(svg, HasSubstr("height=\"530\""));
}

TEST(line_plot, escapes_what_would_be_markup) {
  auto picture = picture_of({.name = "a < b & c"}, {.name = "y"});
  picture.add_line("<name>", "red", {});
  const auto svg = picture.svg();
  EXPECT_THAT(svg, HasSubstr(">a &lt; b &amp; c<"));
  EXPECT_THAT(svg, HasSubstr(">&lt;name><"));
}

}  // namespace
