#include "tool/output/compression_chart.h"

#include <fmt/format.h>

#include "tool/output/size_text.h"

namespace quern {
namespace {

// Points of accuracy if they are known, else what outputs lose.
LineChart loss_chart(const std::string& model, double before, const Compression& compression) {
  LineChart chart;
  const bool points = compression.drop.has_value();
  chart.title = fmt::format("{}: what smaller files lose", model);
  chart.x_axis = "times smaller";
  chart.y_axis = points ? "points of accuracy lost" : "loss of outputs";
  chart.series = {{"estimated", {}}};
  if (points) chart.series.push_back({"interval of 95%", {}, false});
  for (const CurvePoint& point : compression.curve) {
    const double ratio = before / static_cast<double>(point.file_bytes);
    const double lost = points ? point.drop->points : point.loss;
    const bool made = point.file_bytes == compression.file_bytes;
    chart.series[0].points.push_back({ratio, lost, made ? fmt::format("made: {:.2f}x", ratio) : ""});
    if (!points) continue;
    for (const double end : {point.drop->low, point.drop->high}) chart.series[1].points.push_back({ratio, end, ""});
  }
  return chart;
}

// The bytes of the file before: those of the file made, and those that steps save.
BarChart step_chart(double before, const Compression& compression) {
  const SizeUnit& unit = size_unit(before);
  BarChart chart;
  chart.title = "What each step saves";
  chart.axis = unit.name;
  chart.series = {"file", "coding", "integers", "zeros"};
  chart.stacked = true;
  for (const CurvePoint& point : compression.curve) {
    const auto bytes = static_cast<double>(point.file_bytes);
    BarChart::Bar bar = {fmt::format("{:.2f}x", before / bytes), {}};
    for (const double part : {bytes, point.coding, point.integers, point.zeros})
      bar.values.push_back(part / unit.bytes);
    chart.bars.push_back(std::move(bar));
  }
  chart.note = [&unit](const std::vector<double>& values) { return size_text(values[0] * unit.bytes); };
  return chart;
}

}  // namespace

std::vector<Chart> compression_charts(const std::string& model, uint64_t before, const Compression& compression) {
  const auto bytes = static_cast<double>(before);
  return {loss_chart(model, bytes, compression), step_chart(bytes, compression)};
}

}  // namespace quern
