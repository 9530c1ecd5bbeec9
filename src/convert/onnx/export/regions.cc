// Regions of images, pooled or sampled to one size: kinds of libquern-extra.
#include "convert/onnx/export/parts.h"
#include "convert/onnx/export/rows.h"

namespace quern::onnx {
namespace {

using Rule = AttributeRule;

// Height and width of the output.
struct RegionSize {
  int64_t rows, columns;
};
RegionSize region_size(const Node& node) {
  const Parameter* const size = find_parameter(node, "size");
  if (size == nullptr || size->integers.size() != 2) throw Unsupported{"without a size"};
  return {size->integers[0], size->integers[1]};
}

void write_roi_align(GraphWriter& to, const Node& node, const ExportRow& row) {
  const RegionSize size = region_size(node);
  schema::NodeProto* align = write_with(to, node, row, stored_inputs(to, node));
  set_integer(align, "output_height", size.rows);
  set_integer(align, "output_width", size.columns);
}

// ---- averages, each in a channel of its place: a Scan over the regions -------------------------------

// Halves become the number farther from 0. ONNX's Round makes them even.
std::string rounded(const Parts& p, const std::string& x) {
  const std::string even = p.op("Round", {x});
  const std::string is_half = p.op("Equal", {p.op("Abs", {p.op("Sub", {x, even})}), p.to.number(0.5f)});
  return p.op("Where", {is_half, p.op("Add", {x, p.op("Mul", {p.op("Sign", {x}), p.to.number(0.5f)})}), even});
}

std::string with_dimensions(const Parts& p, const std::string& x, const Vector<int64_t>& axes) {
  return p.op("Unsqueeze", {x, p.to.integers(axes)});
}

// Which pixels of a line of the image belong to which bin of a region: booleans [regions, bins, pixels]. The regions'
// first and last pixels are two numbers of five of each; `dimension` of the images has the line.
std::string pixels_of_bins(const Parts& p, int64_t first_number, int64_t dimension, int64_t bins) {
  const std::string images = p.to.stored_plain(p.node.inputs[0]), regions = p.to.stored_plain(p.node.inputs[1]);
  const std::string scale = p.to.number(number_of(p.node, "scale", 1)), one = p.to.number(1);
  const auto place = [&](int64_t number) { return rounded(p, p.last(regions, number, number + 1)); };
  const std::string first = p.op("Mul", {place(first_number), scale});
  const std::string end = p.op("Mul", {p.op("Add", {place(first_number + 2), one}), scale});
  const std::string length = p.op("Max", {p.op("Sub", {end, first}), p.to.number(0.1f)});
  const std::string bin = p.op("Div", {length, p.to.number(static_cast<float>(bins))});
  const std::string whole = p.op("Floor", {first}), part = p.op("Sub", {first, whole});
  const auto edges = [&](int64_t from, const char* rounding) {
    std::vector<float> numbers;
    for (int64_t i = from; i < from + bins; ++i) numbers.push_back(static_cast<float>(i));
    const std::string offsets = p.op("Mul", {p.to.floats({numbers.size()}, numbers.data()), bin});
    const std::string edge = p.op("Add", {p.op(rounding, {p.op("Add", {offsets, part})}), whole});
    return with_dimensions(p, edge, {2});
  };
  const std::string size = p.op("Gather", {p.op("Shape", {images}), p.to.integer(dimension)});
  const std::string line = p.op("Range", {p.to.integer(0), size, p.to.integer(1)});
  const std::string pixels = p.op("Cast", {line}, "to", schema::TensorProto::FLOAT);
  return p.op("And", {p.op("LessOrEqual", {edges(0, "Floor"), pixels}), p.op("Less", {pixels, edges(1, "Ceil")})});
}

// The channels of all images as [images, channels of the output, rows, columns, height, width].
std::string channels_by_place(const Parts& p, const RegionSize& size) {
  const std::string images = p.to.stored_plain(p.node.inputs[0]), shape = p.op("Shape", {images});
  const std::string parts = p.op(
      "Concat", {p.last(shape, 0, 1), p.to.integers({-1, size.rows, size.columns}), p.last(shape, 2, 4)}, "axis", 0);
  return p.op("Reshape", {images, parts});
}

void write_roi_average_by_place(GraphWriter& to, const Node& node, const ExportRow& /*row*/) {
  const Parts around = {to, node};
  const RegionSize size = region_size(node);
  if (size.rows < 1 || size.columns < 1 || size.rows > 4096 || size.columns > 4096) throw Unsupported{"of such a size"};
  to.need_opset(18);
  const std::string images = channels_by_place(around, size);
  const std::string numbers = around.reshape(around.last(to.stored_plain(node.inputs[1]), 0, 1), {-1});
  ScanWriter scan(to, node, {},
                  {{around.op("Cast", {numbers}, "to", schema::TensorProto::INT64), QN_S64},
                   {pixels_of_bins(around, 2, 2, size.rows), QN_BOOL},
                   {pixels_of_bins(around, 1, 3, size.columns), QN_BOOL}});
  const Parts p = scan.body();
  const std::string image = p.op("Gather", {images, scan.input(0)});
  const std::string inside =
      p.op("And", {with_dimensions(p, scan.input(1), {1, 3}), with_dimensions(p, scan.input(2), {0, 2})});
  const std::string pixels = p.op("Where", {inside, image, p.to.number(0)});
  const std::string sums = p.op("ReduceSum", {pixels, p.to.integers({3, 4})}, "keepdims", 0);
  const std::string ones = p.op("Cast", {inside}, "to", schema::TensorProto::FLOAT);
  const std::string counts = p.op("ReduceSum", {ones, p.to.integers({2, 3})}, "keepdims", 0);
  around.define(scan.give(p.op("Div", {sums, p.op("Max", {counts, p.to.number(1)})}), QN_F32));
}

// ---- regions resized -----------------------------------------------------------------------------

// Where the pixels of a line of the output lie between pixels of the images, [regions, pixels] each.
struct Places {
  std::string inside;     // whether they lie on the image
  std::string low, high;  // pixels of the images, as whole numbers; `high` only of places between pixels
  std::string part;       // how much of a pixel they lie towards `high`
  std::string size;       // of the images' line
};

std::string place_of_pixels(const Parts& p, const std::string& begin, const std::string& end, const std::string& last,
                            int64_t pixels) {
  if (pixels == 1) return p.op("Mul", {p.op("Mul", {p.op("Add", {begin, end}), p.to.number(0.5f)}), last});
  std::vector<float> numbers;
  for (int64_t i = 0; i < pixels; ++i) numbers.push_back(static_cast<float>(i));
  const std::string length = p.op("Mul", {p.op("Sub", {end, begin}), last});
  const std::string step = p.op("Div", {length, p.to.number(static_cast<float>(pixels - 1))});
  const std::string ways = p.op("Mul", {p.to.floats({numbers.size()}, numbers.data()), step});
  return p.op("Add", {p.op("Mul", {begin, last}), ways});
}

// Regions begin at the first of their four numbers, or at the second; `dimension` of the images has the line.
Places places_of_pixels(const Parts& p, int64_t first_number, int64_t dimension, int64_t pixels, bool nearest) {
  const std::string images = p.to.stored_plain(p.node.inputs[0]), regions = p.to.stored_plain(p.node.inputs[1]);
  const std::string one = p.to.integer(1), zero = p.to.number(0);
  const auto real = [&](const std::string& x) { return p.op("Cast", {x}, "to", schema::TensorProto::FLOAT); };
  const auto whole = [&](const std::string& x) { return p.op("Cast", {x}, "to", schema::TensorProto::INT64); };
  Places places;
  places.size = p.op("Gather", {p.op("Shape", {images}), p.to.integer(dimension)});
  const std::string last_pixel = p.op("Sub", {places.size, one}), last = real(last_pixel);
  const std::string at = place_of_pixels(p, p.last(regions, first_number, first_number + 1),
                                         p.last(regions, first_number + 2, first_number + 3), last, pixels);
  places.inside = p.op("And", {p.op("GreaterOrEqual", {at, zero}), p.op("LessOrEqual", {at, last})});
  const std::string low = p.op("Where", {places.inside, nearest ? rounded(p, at) : p.op("Floor", {at}), zero});
  places.low = whole(low);
  if (nearest) return places;
  places.high = p.op("Min", {p.op("Add", {places.low, one}), last_pixel});
  places.part = p.op("Sub", {at, low});
  return places;
}

// The four pixels around each place are rows of a matrix with a row for each pixel of all images. A part of the way is
// taken as our kind does it, for the same bits: first along lines, then between them.
void write_crop_and_resize(GraphWriter& to, const Node& node, const ExportRow& /*row*/) {
  const Parts p = {to, node};
  const RegionSize size = region_size(node);
  const bool nearest = integer_of(node, "nearest", 0) != 0;
  to.need_opset(18);
  const Places rows = places_of_pixels(p, 0, 2, size.rows, nearest);
  const Places columns = places_of_pixels(p, 1, 3, size.columns, nearest);
  const std::string channels_last = p.transpose(to.stored_plain(node.inputs[0]), {0, 2, 3, 1});
  const std::string pixels = p.op("Flatten", {channels_last}, "axis", 3);
  const std::string numbers = p.op("Cast", {to.stored_plain(node.inputs[2])}, "to", schema::TensorProto::INT64);
  const std::string first_rows = p.op("Mul", {with_dimensions(p, numbers, {1}), rows.size});
  const auto pixels_at = [&](const std::string& row, const std::string& column) {
    const std::string lines = p.op("Mul", {p.op("Add", {first_rows, row}), columns.size});
    return p.op("Gather", {pixels, p.op("Add", {with_dimensions(p, lines, {2}), with_dimensions(p, column, {1})})});
  };
  const auto between = [&](const std::string& low, const std::string& high, const std::string& part) {
    return p.op("Add", {low, p.op("Mul", {p.op("Sub", {high, low}), part})});
  };
  const auto line = [&](const std::string& row) {
    if (nearest) return pixels_at(row, columns.low);
    return between(pixels_at(row, columns.low), pixels_at(row, columns.high), with_dimensions(p, columns.part, {1, 3}));
  };
  std::string value = line(rows.low);
  if (!nearest) value = between(value, line(rows.high), with_dimensions(p, rows.part, {2, 3}));
  const std::string inside =
      p.op("And", {with_dimensions(p, rows.inside, {2, 3}), with_dimensions(p, columns.inside, {1, 3})});
  value = p.op("Where", {inside, value, to.number(number_of(node, "extrapolation", 0))});
  p.define(p.transpose(value, {0, 3, 1, 2}));
}

const std::vector<Rule> roi_align_rules = {
    {Rule::word, "coordinate_transformation_mode", "half_pixel", {"output_half_pixel", "half_pixel"}},
    {Rule::word, "mode", "maximum", {"avg", "max"}},
    {Rule::integer, "sampling_ratio", "samples"},
    {Rule::number, "spatial_scale", "scale"}};

}  // namespace

const ExportTable& exported_regions() {
  static const ExportTable table = {
      {"crop_and_resize", reads({"size", "nearest", "extrapolation"}, {write_crop_and_resize})},
      {"roi_align", reads({"size"}, {write_roi_align, "RoiAlign", 16, roi_align_rules})},
      {"roi_max",
       {write_operator,
        "MaxRoiPool",
        13,
        {{Rule::integers, "pooled_shape", "size"}, {Rule::number, "spatial_scale", "scale"}}}},
      {"roi_average_by_place", reads({"size", "scale"}, {write_roi_average_by_place})},
  };
  return table;
}

}  // namespace quern::onnx
