// Charts as PNG files. The same input gives the same bytes, whatever fonts are installed.
#pragma once

#include <functional>
#include <string>
#include <variant>
#include <vector>

namespace quern {

// Horizontal bars, one row each. Values that are negative or not finite count as 0.
struct BarChart {
  struct Bar {
    std::string label;
    std::vector<double> values;  // one for each series; more are ignored
  };
  std::string title, axis;
  std::vector<std::string> series;  // their names, for the legend
  std::vector<Bar> bars;
  // Draws the values of a bar one after the other, as shares of a sum. Otherwise all begin at 0, and the first series
  // lies in front.
  bool stacked = false;
  // The text behind a bar, from its values. The sums of bars after the first `most_bars` have a text, but no bar, which
  // might dwarf the others.
  std::function<std::string(const std::vector<double>& values)> note;
  static constexpr size_t most_bars = 60;
};

// Lines and points over two axes. Points with a coordinate that is not finite are left out.
struct LineChart {
  struct Point {
    double x, y;
    std::string label;  // written beside the point
  };
  struct Series {
    std::string name;
    std::vector<Point> points;
    bool connected = true;  // by lines, in this order
  };
  std::string title, x_axis, y_axis;
  std::vector<Series> series;
};

using Chart = std::variant<BarChart, LineChart>;

// Throws Error if this build cannot draw charts. Commands call it before they begin long work.
void expect_charts();

// Draws charts, one below the other, and returns the PNG file. Text is ASCII: other characters become '?', and long
// labels lose their middle.
std::string draw_charts(const std::vector<Chart>& charts);

}  // namespace quern
