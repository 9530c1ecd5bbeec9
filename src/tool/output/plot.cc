#include "tool/output/plot.h"

#include "convert/common/error.h"

#ifndef QUERN_CAIRO

namespace quern {

void expect_charts() { throw Error("this build cannot draw charts: cairo was missing when it was configured"); }

std::string draw_charts(const std::vector<Chart>&) {
  expect_charts();
  return {};
}

}  // namespace quern

#else

#include <cairo.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>

namespace quern {
namespace {

struct Ink {
  double red, green, blue;
};
constexpr Ink paper = {1, 1, 1}, ink = {0.1, 0.1, 0.1}, grid = {0.87, 0.87, 0.87};
// Colors that color-blind readers can tell apart (Okabe and Ito 2008).
constexpr Ink inks[] = {{0, 0.45, 0.70},    {0.90, 0.62, 0}, {0, 0.62, 0.45},    {0.80, 0.47, 0.65},
                        {0.34, 0.71, 0.91}, {0.84, 0.37, 0}, {0.94, 0.89, 0.26}, {0.45, 0.45, 0.45}};
// A pale bar lies behind one of the first color.
constexpr Ink behind = {0.76, 0.85, 0.93};

Ink ink_of(size_t series) { return inks[series % std::size(inks)]; }

// ---- cairo ------------------------------------------------------------------------------------

// The functions of cairo that Canvas calls. The constructor loads cairo. Linked, it would make the start-up of every
// command half as long again, because it depends on the libraries of X11 and on those that find fonts.
class Cairo {
 public:
#define QN_FUNCTION(name) \
  decltype(&cairo_##name) const name = reinterpret_cast<decltype(&cairo_##name)>(find("cairo_" #name))
  QN_FUNCTION(arc);
  QN_FUNCTION(create);
  QN_FUNCTION(destroy);
  QN_FUNCTION(fill);
  QN_FUNCTION(image_surface_create);
  QN_FUNCTION(line_to);
  QN_FUNCTION(move_to);
  QN_FUNCTION(rectangle);
  QN_FUNCTION(restore);
  QN_FUNCTION(rotate);
  QN_FUNCTION(save);
  QN_FUNCTION(select_font_face);
  QN_FUNCTION(set_font_size);
  QN_FUNCTION(set_line_width);
  QN_FUNCTION(set_source_rgb);
  QN_FUNCTION(show_text);
  QN_FUNCTION(status);
  QN_FUNCTION(status_to_string);
  QN_FUNCTION(stroke);
  QN_FUNCTION(surface_destroy);
  QN_FUNCTION(surface_write_to_png_stream);
  QN_FUNCTION(text_extents);
  QN_FUNCTION(translate);
#undef QN_FUNCTION

 private:
  static void* find(const char* name) {
    static void* const library = dlopen(QUERN_CAIRO, RTLD_LAZY | RTLD_LOCAL);
    void* const found = library == nullptr ? nullptr : dlsym(library, name);
    if (found == nullptr) throw Error(fmt::format("cannot draw charts without cairo: {}", dlerror()));
    return found;
  }
};

const Cairo& cairo() {
  static const Cairo functions;
  return functions;
}

// ---- the canvas -------------------------------------------------------------------------------

constexpr double width = 1000, margin = 16, letter = 12, line_height = 18;

// ASCII of at most `most` characters.
std::string legible(const std::string& text, size_t most) {
  std::string ascii;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte & 0xc0) == 0x80 && !ascii.empty() && ascii.back() == '?') continue;  // within a character of UTF-8
    ascii += byte >= ' ' && byte < 0x7f ? c : '?';
  }
  if (ascii.size() <= most) return ascii;
  const size_t end = (most - 3) / 2, begin = most - 3 - end;
  return ascii.substr(0, begin) + "..." + ascii.substr(ascii.size() - end);
}

enum class Align { left, middle, right };

class Canvas {
 public:
  explicit Canvas(double height)
      : surface_(cairo().image_surface_create(CAIRO_FORMAT_RGB24, static_cast<int>(width), static_cast<int>(height))),
        canvas_(cairo().create(surface_.get())) {
    rectangle(0, 0, width, height, paper);
  }

  void rectangle(double left, double top, double wide, double high, const Ink& color) {
    use(color);
    cairo().rectangle(canvas_.get(), left, top, wide, high);
    cairo().fill(canvas_.get());
  }
  void line(double x1, double y1, double x2, double y2, const Ink& color, double thickness = 1) {
    use(color);
    cairo().set_line_width(canvas_.get(), thickness);
    cairo().move_to(canvas_.get(), x1, y1);
    cairo().line_to(canvas_.get(), x2, y2);
    cairo().stroke(canvas_.get());
  }
  void dot(double x, double y, const Ink& color) {
    constexpr double radius = 4, turn = 6.283185307179586;
    use(color);
    cairo().arc(canvas_.get(), x, y, radius, 0, turn);
    cairo().fill(canvas_.get());
  }
  // Writes ASCII. `y` is the base line. Cairo's built-in font needs no files.
  void text(double x, double y, const std::string& ascii, Align align = Align::left, bool bold = false) {
    use(ink);
    set_font(bold);
    const double whole = extent(ascii);
    cairo().move_to(canvas_.get(), align == Align::left ? x : align == Align::right ? x - whole : x - whole / 2, y);
    cairo().show_text(canvas_.get(), ascii.c_str());
  }
  // Writes from bottom to top, with the middle at `y`.
  void text_upward(double x, double y, const std::string& ascii) {
    cairo().save(canvas_.get());
    cairo().translate(canvas_.get(), x, y);
    cairo().rotate(canvas_.get(), -1.5707963267948966);
    text(0, 0, ascii, Align::middle);
    cairo().restore(canvas_.get());
  }
  double text_width(const std::string& ascii) {
    set_font(false);
    return extent(ascii);
  }

  std::string png() const {
    std::string file;
    const auto append = [](void* to, const unsigned char* data, unsigned size) {
      static_cast<std::string*>(to)->append(reinterpret_cast<const char*>(data), size);
      return CAIRO_STATUS_SUCCESS;
    };
    cairo_status_t status = cairo().status(canvas_.get());
    if (status == CAIRO_STATUS_SUCCESS) status = cairo().surface_write_to_png_stream(surface_.get(), append, &file);
    if (status != CAIRO_STATUS_SUCCESS) throw Error(fmt::format("cannot draw: {}", cairo().status_to_string(status)));
    return file;
  }

 private:
  struct Destroy {
    void operator()(cairo_surface_t* surface) const { cairo().surface_destroy(surface); }
    void operator()(cairo_t* canvas) const { cairo().destroy(canvas); }
  };

  void use(const Ink& color) { cairo().set_source_rgb(canvas_.get(), color.red, color.green, color.blue); }
  void set_font(bool bold) {
    cairo().select_font_face(canvas_.get(), "@cairo:", CAIRO_FONT_SLANT_NORMAL,
                             bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
    cairo().set_font_size(canvas_.get(), bold ? letter + 2 : letter);
  }
  double extent(const std::string& ascii) {
    cairo_text_extents_t extents;
    cairo().text_extents(canvas_.get(), ascii.c_str(), &extents);
    return extents.x_advance;
  }

  std::unique_ptr<cairo_surface_t, Destroy> surface_;
  std::unique_ptr<cairo_t, Destroy> canvas_;
};

constexpr double title_height = 2 * line_height;
constexpr size_t longest_title = 110, longest_name = 40, longest_note = 40;

void draw_title(Canvas* canvas, double top, const std::string& title) {
  canvas->text(width / 2, top + line_height, legible(title, longest_title), Align::middle, true);
}

// A row of names with their colors, from `left` on.
void draw_legend(Canvas* canvas, double left, double top, const std::vector<std::string>& names,
                 const std::vector<Ink>& colors) {
  constexpr double box = 10;
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string name = legible(names[i], longest_name);
    canvas->rectangle(left, top, box, box, colors[i]);
    canvas->text(left + box + 5, top + box, name);
    left += box + 5 + canvas->text_width(name) + 20;
  }
}

// ---- axes -------------------------------------------------------------------------------------

// The values of an axis, from one tick to another.
struct Axis {
  double step;         // between ticks: 1, 2 or 5 times a power of 10
  double first, last;  // ticks, in steps from 0

  static Axis over(double low, double high) {
    // Too narrow an interval has no ticks that differ.
    const double least = std::max({std::abs(low), std::abs(high), 1e-6}) * 1e-6;
    if (high - low < least) low -= least / 2, high += least / 2;
    constexpr double ticks = 8;
    const double rough = (high - low) / ticks, power = std::pow(10, std::floor(std::log10(rough)));
    const double part = rough / power, step = power * (part > 5 ? 10 : part > 2 ? 5 : part > 1 ? 2 : 1);
    return {step, std::floor(low / step), std::ceil(high / step)};
  }
  // Where a value lies, from 0 to 1.
  double place(double value) const { return (value / step - first) / (last - first); }
  size_t ticks() const { return static_cast<size_t>(last - first) + 1; }
  double tick(size_t i) const { return (first + static_cast<double>(i)) * step; }
};

// Larger numbers have no place on an axis.
bool is_drawable(double value) { return std::abs(value) < 1e100; }

// Ticks from left to right, their lines and numbers, and the axis' name below.
void draw_x_axis(Canvas* canvas, const Axis& axis, double left, double top, double right, double bottom,
                 const std::string& name) {
  for (size_t i = 0; i < axis.ticks(); ++i) {
    const double x = std::round(left + (right - left) * axis.place(axis.tick(i))) + 0.5;
    canvas->line(x, top, x, bottom + 4, grid);
    canvas->text(x, bottom + 4 + letter, fmt::format("{:.8g}", axis.tick(i)), Align::middle);
  }
  canvas->text((left + right) / 2, bottom + 2 * line_height, legible(name, longest_title), Align::middle);
}

constexpr double x_axis_height = 2 * line_height + margin;

// ---- bars -------------------------------------------------------------------------------------

double bar_length(double value) { return is_drawable(value) && value > 0 ? value : 0; }

// The chart with values that can be drawn, and with few enough bars.
BarChart bounded(BarChart chart) {
  for (BarChart::Bar& bar : chart.bars) {
    bar.values.resize(chart.series.size(), 0);
    std::transform(bar.values.begin(), bar.values.end(), bar.values.begin(), bar_length);
  }
  if (chart.bars.size() <= BarChart::most_bars) return chart;
  BarChart::Bar rest = {fmt::format("{} more", chart.bars.size() - BarChart::most_bars),
                        std::vector<double>(chart.series.size(), 0)};
  for (size_t i = BarChart::most_bars; i < chart.bars.size(); ++i) {
    for (size_t s = 0; s < rest.values.size(); ++s) rest.values[s] += chart.bars[i].values[s];
  }
  chart.bars.resize(BarChart::most_bars);
  chart.bars.push_back(std::move(rest));
  return chart;
}

double length_of(const BarChart& chart, const BarChart::Bar& bar) {
  if (chart.stacked) return std::accumulate(bar.values.begin(), bar.values.end(), 0.0);
  return bar.values.empty() ? 0 : *std::max_element(bar.values.begin(), bar.values.end());
}

std::vector<Ink> bar_inks(const BarChart& chart) {
  std::vector<Ink> colors;
  for (size_t s = 0; s < chart.series.size(); ++s)
    colors.push_back(!chart.stacked && s > 0 ? (s == 1 ? behind : grid) : ink_of(s));
  return colors;
}

void draw_bar(Canvas* canvas, const BarChart& chart, const BarChart::Bar& bar, double left, double top,
              double pixels_of_one) {
  constexpr double thick = line_height - 5;
  const std::vector<Ink> colors = bar_inks(chart);
  double x = left;
  for (size_t i = 0; i < bar.values.size(); ++i) {
    const size_t s = chart.stacked ? i : bar.values.size() - 1 - i;  // the first series is drawn over the others
    const double pixels = bar.values[s] * pixels_of_one;
    canvas->rectangle(x, top, pixels, thick, colors[s]);
    if (chart.stacked) x += pixels;
  }
}

double height_of(const BarChart& chart) {
  const size_t rows = std::min(chart.bars.size(), BarChart::most_bars + 1);
  return title_height + line_height + static_cast<double>(std::max<size_t>(rows, 1)) * line_height + x_axis_height;
}

void draw(Canvas* canvas, double top, const BarChart& whole) {
  const BarChart chart = bounded(whole);
  draw_title(canvas, top, chart.title);
  double label_width = 0, note_width = 0, longest = 0;
  std::vector<std::string> labels, notes;
  for (const BarChart::Bar& bar : chart.bars) {
    labels.push_back(legible(bar.label, longest_name));
    notes.push_back(chart.note ? legible(chart.note(bar.values), longest_note) : "");
    label_width = std::max(label_width, canvas->text_width(labels.back()));
    note_width = std::max(note_width, canvas->text_width(notes.back()));
    if (labels.size() <= BarChart::most_bars) longest = std::max(longest, length_of(chart, bar));
  }
  const double left = std::round(margin + label_width + 8), right = width - margin - note_width - 8;
  top += title_height;
  if (chart.series.size() > 1) draw_legend(canvas, left, top, chart.series, bar_inks(chart));
  top += line_height;
  if (chart.bars.empty()) return canvas->text(width / 2, top + letter, "nothing to show", Align::middle);
  const Axis axis = Axis::over(0, longest > 1e-9 ? longest : 1);
  const double bottom = top + static_cast<double>(chart.bars.size()) * line_height;
  draw_x_axis(canvas, axis, left, top, right, bottom, chart.axis);
  const double pixels_of_one = (right - left) / (axis.last * axis.step);
  for (size_t i = 0; i < chart.bars.size(); ++i, top += line_height) {
    const double base_line = top + letter;
    canvas->text(left - 8, base_line, labels[i], Align::right);
    const double pixels = i < BarChart::most_bars ? length_of(chart, chart.bars[i]) * pixels_of_one : 0;
    if (pixels > 0) draw_bar(canvas, chart, chart.bars[i], left, top + 2, pixels_of_one);
    canvas->text(left + pixels + 8, base_line, notes[i]);
  }
  canvas->line(left + 0.5, bottom - static_cast<double>(chart.bars.size()) * line_height, left + 0.5, bottom, ink);
}

// ---- lines ------------------------------------------------------------------------------------

constexpr double plot_height = 360;

// The points that can be drawn.
std::vector<LineChart::Point> drawable(const LineChart::Series& series) {
  std::vector<LineChart::Point> points;
  std::copy_if(series.points.begin(), series.points.end(), std::back_inserter(points),
               [](const LineChart::Point& p) { return is_drawable(p.x) && is_drawable(p.y); });
  return points;
}

// The axis of all points' coordinate; from 0 to 1 if there are none.
Axis axis_of(const LineChart& chart, double LineChart::Point::*coordinate) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const LineChart::Series& series : chart.series) {
    for (const LineChart::Point& point : drawable(series)) {
      low = std::min(low, point.*coordinate);
      high = std::max(high, point.*coordinate);
    }
  }
  return low <= high ? Axis::over(low, high) : Axis::over(0, 1);
}

double height_of(const LineChart&) { return title_height + line_height + plot_height + x_axis_height; }

// The area between the axes, in pixels.
struct Frame {
  Axis x, y;
  double left, top, right, bottom;

  double x_of(const LineChart::Point& point) const { return left + (right - left) * x.place(point.x); }
  double y_of(const LineChart::Point& point) const { return bottom - (bottom - top) * y.place(point.y); }
};

void draw_y_axis(Canvas* canvas, const Frame& frame, const std::string& name) {
  for (size_t i = 0; i < frame.y.ticks(); ++i) {
    const double y = std::round(frame.y_of({0, frame.y.tick(i), ""})) + 0.5;
    canvas->line(frame.left - 4, y, frame.right, y, grid);
    canvas->text(frame.left - 8, y + letter / 3, fmt::format("{:.8g}", frame.y.tick(i)), Align::right);
  }
  canvas->text_upward(margin + letter, (frame.top + frame.bottom) / 2, legible(name, longest_name));
}

void draw_series(Canvas* canvas, const Frame& frame, const LineChart::Series& series, const Ink& color) {
  const std::vector<LineChart::Point> points = drawable(series);
  for (size_t i = 1; i < points.size() && series.connected; ++i) {
    canvas->line(frame.x_of(points[i - 1]), frame.y_of(points[i - 1]), frame.x_of(points[i]), frame.y_of(points[i]),
                 color, 2);
  }
  for (const LineChart::Point& point : points) canvas->dot(frame.x_of(point), frame.y_of(point), color);
}

// Writes labels on paper, over lines, on that side of their points where there is more room.
void draw_labels(Canvas* canvas, const Frame& frame, const LineChart::Series& series) {
  constexpr double distance = 8;
  for (const LineChart::Point& point : drawable(series)) {
    if (point.label.empty()) continue;
    const std::string label = legible(point.label, longest_name);
    const double x = frame.x_of(point), base_line = frame.y_of(point) - distance, wide = canvas->text_width(label);
    const double left = x > (frame.left + frame.right) / 2 ? x - distance - wide : x + distance;
    canvas->rectangle(left - 1, base_line - letter + 1, wide + 2, letter + 2, paper);
    canvas->text(left, base_line, label);
  }
}

void draw(Canvas* canvas, double top, const LineChart& chart) {
  const double first = top + title_height + line_height;
  const Frame frame = {axis_of(chart, &LineChart::Point::x),
                       axis_of(chart, &LineChart::Point::y),
                       margin + 90,
                       first,
                       width - 2 * margin,
                       first + plot_height};
  draw_title(canvas, top, chart.title);
  draw_x_axis(canvas, frame.x, frame.left, frame.top, frame.right, frame.bottom, chart.x_axis);
  draw_y_axis(canvas, frame, chart.y_axis);
  std::vector<std::string> names;
  std::vector<Ink> colors;
  for (const LineChart::Series& series : chart.series) {
    colors.push_back(ink_of(names.size()));
    names.push_back(series.name);
    draw_series(canvas, frame, series, colors.back());
  }
  for (const LineChart::Series& series : chart.series) draw_labels(canvas, frame, series);
  if (names.size() > 1) draw_legend(canvas, frame.left, top + title_height, names, colors);
}

}  // namespace

void expect_charts() { cairo(); }

std::string draw_charts(const std::vector<Chart>& charts) {
  double height = margin;
  for (const Chart& chart : charts) height += std::visit([](const auto& c) { return height_of(c); }, chart);
  Canvas canvas(height);
  double top = 0;
  for (const Chart& chart : charts) {
    std::visit([&](const auto& c) { draw(&canvas, top, c); }, chart);
    top += std::visit([](const auto& c) { return height_of(c); }, chart);
  }
  return canvas.png();
}

}  // namespace quern

#endif
