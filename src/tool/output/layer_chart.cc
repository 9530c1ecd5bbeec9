#include "tool/output/layer_chart.h"

#include <fmt/format.h>

#include <algorithm>

#include "tool/output/size_text.h"

namespace quern {
namespace {

double f32_bytes(const LayerStats& layer) { return static_cast<double>(layer.elements * sizeof(float)); }

}  // namespace

BarChart layer_chart(const std::string& model, std::vector<LayerStats> layers) {
  std::stable_sort(layers.begin(), layers.end(),
                   [](const LayerStats& a, const LayerStats& b) { return a.stored > b.stored; });
  double stored = 0, f32 = 0, longest = 0;
  for (const LayerStats& layer : layers) {
    stored += static_cast<double>(layer.stored);
    f32 += f32_bytes(layer);
    longest = std::max({longest, static_cast<double>(layer.stored), f32_bytes(layer)});
  }
  const SizeUnit& unit = size_unit(longest);
  BarChart chart;
  chart.title = fmt::format("{}: {} of weights in {} layer{}", model, size_text(stored), layers.size(),
                            layers.size() == 1 ? "" : "s");
  if (f32 != stored) chart.title += fmt::format(", {} as f32", size_text(f32));
  chart.axis = unit.name;
  chart.series = {"in the file"};
  if (f32 != stored) chart.series.push_back("as f32");
  for (const LayerStats& layer : layers)
    chart.bars.push_back({layer.name, {static_cast<double>(layer.stored) / unit.bytes, f32_bytes(layer) / unit.bytes}});
  chart.note = [stored, &unit](const std::vector<double>& values) {
    const double bytes = values[0] * unit.bytes;
    return fmt::format("{}, {:.1f}%", size_text(bytes), stored == 0 ? 0 : 100 * bytes / stored);
  };
  return chart;
}

}  // namespace quern
