// Kinds that move, choose and make elements.
#include <cmath>
#include <limits>

#include "run_node.h"

namespace quern::test {
namespace moving_test {

Elements f32(std::vector<size_t> shape, std::vector<double> values) {
  return {QN_F32, std::move(shape), std::move(values)};
}
Elements s64(std::vector<size_t> shape, std::vector<double> values) {
  return {QN_S64, std::move(shape), std::move(values)};
}
// 0, 1, 2, ...
Elements counted(std::vector<size_t> shape, qn_type type = QN_F32) {
  Elements elements = {type, std::move(shape), {}};
  size_t n = 1;
  for (const size_t d : elements.shape) n *= d;
  for (size_t i = 0; i < n; ++i) elements.values.push_back(static_cast<double>(i));
  return elements;
}
const Elements none = list({});  // an empty list

void expect_all(const std::vector<NodeCase>& cases) {
  for (const NodeCase& node : cases) expect_node(node);
}

// ---- shapes

TEST(ExtraShapes, SameElementsInOtherShapes) {
  const Elements x = counted({2, 3}), empty = counted({0, 3}), one = f32({1, 2, 1}, {0, 1});
  expect_all({
      {"reshape_to", {x, list({3, -1})}, {counted({3, 2})}},
      {"reshape_to", {x, list({0, 1, -1}, QN_S32)}, {counted({2, 1, 3})}},
      {"reshape_to", {counted({1}), none}, {counted({})}},
      {"reshape_to",
       {
           empty,
           list({5, 0}),
       },
       {counted({5, 0})},
       {integers("allow_zero", {1})}},
      {"reshape_to", {empty, list({0, 3, 4})}, {counted({0, 3, 4})}},
      {"flatten", {counted({2, 3, 4})}, {counted({2, 12})}},
      {"flatten", {counted({2, 3, 4})}, {counted({24, 1})}, {integers("axis", {3})}},
      {"flatten", {counted({})}, {counted({1, 1})}, {integers("axis", {0})}},
      {"squeeze", {one}, {f32({2}, {0, 1})}},
      {"squeeze", {one, list({-1})}, {f32({1, 2}, {0, 1})}},
      {"unsqueeze", {counted({2}), list({-1, 0})}, {f32({1, 2, 1}, {0, 1})}},
      {"unsqueeze", {empty, list({1})}, {counted({0, 1, 3})}},
      {"identity", {x}, {x}},
      {"bit_cast", {f32({2}, {1, -0.0})}, {{QN_S32, {2}, {0x3f800000, -0x1p31}}}},
  });
}

TEST(ExtraShapes, Orders) {
  expect_all({
      {"permute", {counted({2, 3})}, {f32({3, 2}, {0, 3, 1, 4, 2, 5})}},
      {"permute", {counted({1, 2, 3}, QN_S8)}, {{QN_S8, {3, 1, 2}, {0, 3, 1, 4, 2, 5}}}, {integers("perm", {2, 0, 1})}},
      {"permute", {counted({}, QN_S64)}, {counted({}, QN_S64)}},
      {"permute", {counted({0, 3})}, {counted({3, 0})}},
      {"depth_to_space",
       {counted({1, 4, 1, 2})},
       {f32({1, 1, 2, 4}, {0, 2, 1, 3, 4, 6, 5, 7})},
       {integers("block", {2})}},
      {"depth_to_space",
       {counted({1, 8, 1, 1})},
       {f32({1, 2, 2, 2}, {0, 2, 4, 6, 1, 3, 5, 7})},
       {integers("block", {2})}},
      {"depth_to_space",
       {counted({1, 8, 1, 1})},
       {counted({1, 2, 2, 2})},
       {integers("block", {2}), integers("crd", {1})}},
      {"space_to_depth",
       {counted({1, 1, 2, 4})},
       {f32({1, 4, 1, 2}, {0, 2, 1, 3, 4, 6, 5, 7})},
       {integers("block", {2})}},
  });
}

TEST(ExtraShapes, AsNumbers) {
  const Elements x = counted({2, 3, 4});
  expect_all({
      {"shape_of", {x}, {list({2, 3, 4})}},
      {"shape_of", {x}, {list({3})}, {integers("start", {-2}), integers("end", {-1})}},
      {"shape_of", {x}, {none}, {integers("start", {2}), integers("end", {1})}},
      {"shape_of", {counted({})}, {none}},
      {"size_of", {x}, {scalar(24)}},
      {"size_of", {counted({0, 3})}, {scalar(0)}},
      {"sizes",
       {x, counted({5})},
       {{QN_S32, {2, 1}, {18, 7}}},
       {integers("factors", {3, 2, 2, 0, 1, 0, 2, 7, 1, 0}), integers("shape", {2, 1})}},
  });
}

// The second forms of kinds read dimensions of further inputs.
TEST(ExtraShapes, FollowDimensions) {
  const Elements x = counted({2, 3}), other = counted({5, 4});
  expect_all({
      {"reshape_sizes", {x, absent, other}, {counted({3, 2})}, {integers("sizes1", {3, 5, 1, 2, 0, 1, 2, 1, 2, 1})}},
      {"expand_sizes", {list({7}), absent, other}, {list({7, 7, 7, 7})}, {integers("sizes1", {1, 1, 1, 2, 1})}},
      {"range_sizes", {list({4}), absent, list({-2}), other}, {list({4, 2})}, {integers("sizes1", {1, 5, 1, 3, 0})}},
  });
  expect_all({{"sizes",
               {other},
               {{QN_S64, {1}, {5 - 5 / 2 * 2}}},  // -2 * (5 / 2) + 5
               {integers("factors", {1, -2, ~1, 0, 0, -2, 0, ~0, 1, 1, 1, 0, 0}), integers("shape", {1})}}});
  expect_all({{"resample_sizes",
               {x, absent, absent, absent, other},
               {{x.type, {5, 3}, {0, 1, 2, 0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5}}},
               {integers("sizes3", {1, 1, 1, 4, 0}), integers("axes", {0})}}});
  expect_refused({"expand_sizes", {x}, {x}, {integers("sizes1", {1, 1, 1, 3, 0})}},
                 "a factor must be a dimension of an input");
  expect_refused({"expand_sizes", {x}, {x}}, "input 1 is missing");
  expect_refused({"reshape_sizes", {x, absent, other}, {x}, {integers("sizes1", {1, 1, 1, 2, 0})}}, "do not fit");
}

TEST(ExtraShapes, AreChecked) {
  const Elements x = counted({2, 3});
  const double most = 0x1p62;
  expect_refused({"reshape_to", {x, list({4, -1})}, {x}}, "6 elements do not fit");
  expect_refused({"reshape_to", {x, list({-1, -1})}, {x}}, "a dimension is -1");
  expect_refused({"reshape_to", {x, list({2, 3, 0})}, {x}}, "dimension 2 to copy is missing");
  expect_refused({"reshape_to", {x, list({most, most, most})}, {x}}, "too large");
  expect_refused({"reshape_to", {counted({0}), list({0, -1})}, {x}}, "0 elements do not fit");
  expect_refused({"reshape_to", {x, x}, {x}}, "not a list");
  expect_refused({"reshape_to", {x, list({2, 3}, QN_F32)}, {x}}, "input 1 is f32, not s64");
  expect_refused({"flatten", {x}, {x}, {integers("axis", {3})}}, "axis 3");
  expect_refused({"squeeze", {x, list({0})}, {x}}, "dimension 0 is 2, not 1");
  expect_refused({"squeeze", {counted({1}), list({0, -1})}, {x}}, "axis 0 is given twice");
  expect_refused({"unsqueeze", {x, list({0, 0})}, {x}}, "axis 0 is given twice");
  expect_refused({"unsqueeze", {x, list({0, 1, 2, 3, 4, 5, 6})}, {x}}, "rank 9");
  expect_refused({"permute", {x}, {x}, {integers("perm", {0, 0})}}, "perm must name each dimension once");
  expect_refused({"permute", {x}, {x}, {integers("perm", {0})}}, "perm has 1");
  expect_refused({"depth_to_space", {counted({1, 3, 1, 1})}, {x}, {integers("block", {2})}}, "3 channels");
  expect_refused({"space_to_depth", {counted({1, 3, 1, 1})}, {x}, {integers("block", {2})}}, "not made of blocks");
  expect_refused({"space_to_depth", {counted({1, 3, 1, 1})}, {x}}, "blocks of 0");
  expect_refused({"bit_cast", {x}, {{QN_S8, {}, {}}}}, "another size");
  expect_refused({"bit_cast", {counted({2}, QN_U8)}, {{QN_BOOL, {}, {}}}}, "truth values");
  expect_refused({"sizes", {x}, {s64({}, {})}, {integers("factors", {1, 1, 1, 1, 0})}},
                 "a factor must be a dimension of an input");
  expect_refused({"sizes", {x}, {s64({}, {})}, {integers("factors", {1, 0, 0})}}, "denominator");
  expect_refused({"sizes", {x}, {s64({}, {})}, {integers("factors", {1, 1})}}, "factors are missing");
  expect_refused({"sizes", {x}, {s64({}, {})}, {integers("factors", {INT64_MAX, 1, 1, 0, 0})}}, "too large");
}

// ---- parts

TEST(ExtraMoving, Parts) {
  const Elements x = counted({2, 5}), y = counted({5});
  expect_all({
      {"join",
       {x, f32({2, 0}, {}), f32({2, 1}, {8, 9})},
       {f32({2, 6}, {0, 1, 2, 3, 4, 8, 5, 6, 7, 8, 9, 9})},
       {integers("axis", {-1})}},
      {"join", {list({1}), list({2, 3})}, {list({1, 2, 3})}},
      {"split_to",
       {x, list({2, 0, 3})},
       {f32({2, 2}, {0, 1, 5, 6}), f32({2, 0}, {}), f32({2, 3}, {2, 3, 4, 7, 8, 9})},
       {integers("axis", {1})}},
      {"split_to", {y}, {f32({2}, {0, 1}), f32({2}, {2, 3}), f32({1}, {4})}, {integers("parts", {3})}},
      {"split_to", {y}, {f32({2}, {0, 1}), f32({2}, {2, 3}), f32({1}, {4}), f32({0}, {})}, {integers("parts", {4})}},
      {"slice_by", {y, list({1}), list({-1})}, {f32({3}, {1, 2, 3})}},
      {"slice_by", {y, list({-1}), list({-99}), list({0}), list({-2})}, {f32({3}, {4, 2, 0})}},
      {"slice_by", {y, list({3}), list({1})}, {f32({0}, {})}},
      {"slice_by",
       {y, list({0}, QN_S32), list({9}, QN_S32), list({-1}, QN_S32), list({4}, QN_S32)},
       {f32({2}, {0, 4})}},
      {"slice_by", {y, list({0}), list({99}), list({0}), list({-0x1p63})}, {f32({0}, {})}},
      {"slice_by", {y, list({2}), list({-0x1p63}), list({0}), list({-0x1p63})}, {f32({1}, {2})}},
      {"slice_by", {x, list({1, 3}), list({2, 1}), list({0, 1}), list({1, -1})}, {f32({1, 2}, {8, 7})}},
      {"slice_by", {x, none, none}, {x}},
      {"slice_by", {f32({0}, {}), list({0}), list({9}), list({0}), list({-1})}, {f32({0}, {})}},
      {"center_crop_pad", {y, list({2})}, {f32({2}, {1, 2})}},
      {"center_crop_pad", {y, list({8})}, {f32({8}, {0, 0, 1, 2, 3, 4, 0, 0})}},
      {"center_crop_pad", {x, list({3})}, {f32({2, 3}, {1, 2, 3, 6, 7, 8})}, {integers("axes", {-1})}},
  });
}

TEST(ExtraMoving, Padding) {
  const Elements x = counted({3}), s = f32({}, {7});
  const auto mode = [](int64_t number) { return std::vector<Parameter>{integers("mode", {number})}; };
  expect_all({
      {"pad_by", {x, list({1, 2})}, {f32({6}, {0, 0, 1, 2, 0, 0})}},
      {"pad_by", {x, list({2, -2}), s}, {f32({3}, {7, 7, 0})}},
      {"pad_by", {x, list({-3, 1}), s}, {f32({1}, {7})}},
      {"pad_by", {s, none}, {s}},
      {"pad_by", {list({4, 5}), list({1, 0}), scalar(-6)}, {list({-6, 4, 5})}},
      {"pad_by", {counted({2, 2}), list({1, 0}), s, list({-1})}, {f32({2, 3}, {7, 0, 1, 7, 2, 3})}},
      {"pad_by", {counted({0, 2}), list({1, 0, 0, 0}), s}, {f32({1, 2}, {7, 7})}},
      {"pad_by", {x, list({2, 3})}, {f32({8}, {2, 1, 0, 1, 2, 1, 0, 1})}, mode(1)},
      {"pad_by", {counted({1}), list({1, 1})}, {f32({3}, {0, 0, 0})}, mode(1)},
      {"pad_by", {x, list({-1, 2})}, {f32({4}, {1, 2, 1, 2})}, mode(1)},
      {"pad_by", {x, list({2, 1})}, {f32({6}, {0, 0, 0, 1, 2, 2})}, mode(2)},
      {"pad_by", {x, list({4, 1})}, {f32({8}, {2, 0, 1, 2, 0, 1, 2, 0})}, mode(3)},
      {"pad_by", {counted({2, 2}), list({0, 1, 1, 0})}, {f32({3, 3}, {0, 0, 1, 2, 2, 3, 2, 2, 3})}, mode(2)},
      {"pad_by", {counted({0, 2}), list({0, 1, 0, 0})}, {f32({0, 3}, {})}, mode(2)},
      {"pad_by", {x, list({2, 4})}, {f32({9}, {1, 0, 0, 1, 2, 2, 1, 0, 0})}, mode(4)},
  });
}

TEST(ExtraMoving, RepeatsAndChanges) {
  const Elements x = counted({2, 2});
  const auto lower = std::vector<Parameter>{integers("upper", {0})};
  expect_all({
      {"tile", {x, list({1, 2})}, {f32({2, 4}, {0, 1, 0, 1, 2, 3, 2, 3})}},
      {"tile", {x, list({2, 0})}, {f32({4, 0}, {})}},
      {"expand", {f32({2, 1}, {3, 4}), list({2, 1, 2})}, {f32({2, 2, 2}, {3, 3, 4, 4, 3, 3, 4, 4})}},
      {"expand", {scalar(1), none}, {scalar(1)}},
      {"expand", {scalar(1, QN_BOOL), list({0, 2})}, {{QN_BOOL, {0, 2}, {}}}},
      {"trilu", {counted({3, 3})}, {f32({3, 3}, {0, 1, 2, 0, 4, 5, 0, 0, 8})}},
      {"trilu", {counted({3, 3}), scalar(1)}, {f32({3, 3}, {0, 1, 2, 0, 0, 5, 0, 0, 0})}},
      {"trilu", {counted({3, 3}), scalar(-1)}, {f32({3, 3}, {0, 0, 0, 3, 0, 0, 6, 7, 0})}, lower},
      {"trilu", {counted({2, 2, 1}), scalar(-0x1p63)}, {counted({2, 2, 1})}},
      {"trilu", {counted({0, 2}), scalar(1)}, {counted({0, 2})}, lower},
      {"reverse_sequence", {counted({3, 2}), list({2, 3})}, {f32({3, 2}, {2, 5, 0, 3, 4, 1})}},
      {"reverse_sequence",
       {counted({2, 2, 2}), list({2, 1})},
       {f32({2, 2, 2}, {2, 3, 0, 1, 4, 5, 6, 7})},
       {integers("batch_axis", {0}), integers("time_axis", {1})}},
  });
}

TEST(ExtraMoving, AreChecked) {
  const Elements x = counted({2, 3}), y = counted({3});
  const double most = 0x1p62;
  expect_refused({"join", {x, y}, {x}}, "different ranks");
  expect_refused({"join", {x, counted({2, 4})}, {x}}, "does not fit the first");
  expect_refused({"join", {y, list({1})}, {y}}, "input 1 is s64, not f32");
  expect_refused({"split_to", {y, list({4, -1})}, {y, y}}, "larger than the dimension of 3");
  expect_refused({"split_to", {y, list({1, 1})}, {y, y}}, "do not cover");
  expect_refused({"split_to", {y, list({1, 2})}, {y, y, y}}, "there are 2 parts");
  expect_refused({"split_to", {y}, {y, y}, {integers("parts", {2}), integers("even", {1})}}, "no equal parts");
  expect_refused({"split_to", {y}, {y}, {integers("parts", {0})}}, "0 parts");
  expect_refused({"slice_by", {y, list({0}), list({1}), list({0}), list({0})}, {y}}, "a step is 0");
  expect_refused({"slice_by", {x, list({0, 0}), list({1, 1}), list({0, 0})}, {x}}, "axis 0 is given twice");
  expect_refused({"slice_by", {y, list({0}), list({1, 2})}, {y}}, "differ in length");
  expect_refused({"slice_by", {y, list({0, 0}), list({1, 2})}, {y}}, "axis 1");
  expect_refused({"pad_by", {y, list({1})}, {y}}, "pads do not fit");
  expect_refused({"pad_by", {y, list({-2, -2})}, {y}}, "take away more");
  expect_refused({"pad_by", {y, list({most, most})}, {y}}, "too large");
  expect_refused({"pad_by", {y, list({1, 1}), scalar(1)}, {y}}, "input 2 is s64, not f32");
  expect_refused({"pad_by", {counted({0}), list({1, 0})}, {y}, {integers("mode", {2})}}, "nothing to repeat");
  expect_refused({"pad_by", {y, list({1, 1})}, {y}, {integers("mode", {5})}}, "mode 5");
  expect_refused({"center_crop_pad", {y, list({-1})}, {y}}, "a size is -1");
  expect_refused({"center_crop_pad", {x, list({1})}, {y}}, "1 sizes for 2 axes");
  expect_refused({"tile", {x, list({2})}, {x}}, "1 repeats");
  expect_refused({"tile", {y, list({most})}, {y}}, "too large");
  expect_refused({"expand", {y, list({2})}, {y}}, "do not broadcast");
  expect_refused({"expand", {scalar(1), list({most, 0, most})}, {scalar(1)}}, "too large");
  expect_refused({"trilu", {y}, {y}}, "rank 1");
  expect_refused({"trilu", {x, list({1, 2})}, {x}}, "not one number");
  expect_refused({"reverse_sequence", {x, list({1, 1})}, {x}}, "another number of lengths");
  expect_refused({"reverse_sequence", {x, list({1, 3, 1})}, {x}}, "length 3 of a dimension of 2");
  expect_refused({"reverse_sequence", {x, list({1, 1, 1})}, {x}, {integers("batch_axis", {0})}}, "not 0 and 1");
}

// ---- places that tensors name

TEST(ExtraChoosing, Gathers) {
  const Elements x = counted({3, 2});
  expect_all({
      {"gather", {x, list({2, -3})}, {f32({2, 2}, {4, 5, 0, 1})}},
      {"gather", {x, scalar(-1, QN_S32)}, {f32({3}, {1, 3, 5})}, {integers("axis", {-1})}},
      {"gather", {x, none}, {f32({0, 2}, {})}},
      {"gather", {counted({3, 0}), s64({1, 2}, {0, 2})}, {counted({1, 2, 0})}},
      {"gather_elements", {x, s64({1, 2}, {2, -3})}, {f32({1, 2}, {4, 1})}},
      {"gather_elements",
       {x, s64({2, 3}, {0, 1, 1, 1, 0, 0})},
       {f32({2, 3}, {0, 1, 1, 3, 2, 2})},
       {integers("axis", {1})}},
      {"gather_nd", {x, s64({2, 2}, {0, 1, -1, 0})}, {list({1, 4}, QN_F32)}},
      {"gather_nd", {x, s64({2, 1}, {2, 0})}, {f32({2, 2}, {4, 5, 0, 1})}},
      {"gather_nd", {x, s64({3, 1}, {1, 0, -1})}, {list({1, 2, 5}, QN_F32)}, {integers("batch_dims", {1})}},
      {"gather_nd", {x, s64({2, 0}, {})}, {f32({2, 3, 2}, {0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5})}},
      {"gather_nd", {x, s64({0, 2}, {})}, {f32({0}, {})}},
  });
}

TEST(ExtraChoosing, Scatters) {
  const Elements x = counted({4}), at = list({1, -1, 1});
  const auto reduction = [](int64_t number) { return std::vector<Parameter>{integers("reduction", {number})}; };
  const Elements updates = list({9, -5, 2}, QN_F32);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const char* kind : {"scatter_elements", "scatter_nd"}) {
    const bool tuples = kind == std::string("scatter_nd");
    const auto places = [&](Elements list) {
      if (tuples) list.shape.push_back(1);
      return list;
    };
    expect_all({
        {kind, {x, places(at), updates}, {list({0, 2, 2, -5}, QN_F32)}},
        {kind, {x, places(at), updates}, {list({0, 12, 2, -2}, QN_F32)}, reduction(1)},
        {kind, {x, places(at), updates}, {list({0, 18, 2, -15}, QN_F32)}, reduction(2)},
        {kind, {x, places(at), updates}, {list({0, 9, 2, 3}, QN_F32)}, reduction(3)},
        {kind, {x, places(at), updates}, {list({0, 1, 2, -5}, QN_F32)}, reduction(4)},
        {kind, {x, places(none), list({}, QN_F32)}, {x}},
        {kind, {list({100}, QN_S8), places(list({0})), list({100}, QN_S8)}, {list({-56}, QN_S8)}, reduction(1)},
        {kind, {list({1}, QN_BOOL), places(list({0})), list({1}, QN_BOOL)}, {list({1}, QN_BOOL)}, reduction(1)},
    });
    std::vector<Elements> outputs;
    const NodeCase with_nan = {kind, {x, places(list({0, 1})), list({nan, nan}, QN_F32)}, {x}, reduction(3)};
    EXPECT_EQ(NodeModel(with_nan, 1).run(&outputs), "");
    EXPECT_TRUE(std::isnan(outputs.at(0).values[0]) && std::isnan(outputs[0].values[1]));
  }
  expect_all({
      {"scatter_elements", {counted({2, 2}), s64({1, 2}, {1, 0}), f32({1, 2}, {8, 9})}, {f32({2, 2}, {0, 9, 8, 3})}},
      {"scatter_elements",
       {counted({2, 2}), s64({1, 2}, {1, 0}), f32({1, 2}, {8, 9})},
       {f32({2, 2}, {9, 8, 2, 3})},
       {integers("axis", {1})}},
      {"scatter_nd", {counted({2, 2}), s64({1, 1}, {1}), f32({1, 2}, {8, 9})}, {f32({2, 2}, {0, 1, 8, 9})}},
  });
}

TEST(ExtraChoosing, CachesAreUpdated) {
  const Elements cache = f32({2, 3, 1}, {0, 0, 0, 0, 0, 0}), update = f32({2, 2, 1}, {1, 2, 3, 4});
  const std::vector<Parameter> circular = {integers("circular", {1})};
  expect_all({
      {"tensor_scatter", {cache, update}, {f32({2, 3, 1}, {1, 2, 0, 3, 4, 0})}},
      {"tensor_scatter", {cache, update, list({1, 0})}, {f32({2, 3, 1}, {0, 1, 2, 3, 4, 0})}},
      {"tensor_scatter", {cache, update, list({2, -1})}, {f32({2, 3, 1}, {2, 0, 1, 4, 0, 3})}, circular},
  });
  expect_refused({"tensor_scatter", {cache, update, list({2, 0})}, {cache}}, "place 2 in a dimension of 3");
  expect_refused({"tensor_scatter", {cache, update, list({-1, 0})}, {cache}}, "place -1");
  expect_refused({"tensor_scatter", {cache, update, list({0})}, {cache}}, "another number of places");
  expect_refused({"tensor_scatter", {update, cache}, {cache}}, "does not fit the cache");
  expect_refused({"tensor_scatter", {cache, update}, {cache}, {integers("axis", {0})}}, "the axis is the batch");
}

TEST(ExtraChoosing, PlacesAreChecked) {
  const Elements x = counted({2, 3}), y = counted({3});
  expect_refused({"gather", {y, list({3})}, {y}}, "index 3 of a dimension of 3");
  expect_refused({"gather", {y, list({-4})}, {y}}, "index -4 of a dimension of 3");
  expect_refused({"gather", {counted({0}), list({0})}, {y}}, "index 0 of a dimension of 0");
  expect_refused({"gather", {y, y}, {y}}, "input 1 is f32, not s64");
  expect_refused({"gather", {scalar(1), list({0})}, {scalar(1)}}, "axis 0 of a tensor of rank 0");
  expect_refused({"gather_elements", {x, list({0})}, {x}}, "the indices have rank 1");
  expect_refused({"gather_elements", {x, s64({1, 4}, {0, 0, 0, 0})}, {x}}, "beyond dimension 1");
  expect_refused({"gather_elements", {y, list({5})}, {y}}, "index 5");
  expect_refused({"gather_nd", {y, scalar(0)}, {y}}, "a scalar");
  expect_refused({"gather_nd", {y, list({0, 0})}, {y}}, "do not fit the tensor");
  expect_refused({"gather_nd", {x, s64({1, 1}, {2})}, {x}}, "index 2 of a dimension of 2");
  expect_refused({"gather_nd", {x, s64({3, 1}, {0, 0, 0})}, {x}, {integers("batch_dims", {1})}}, "another batch");
  expect_refused({"gather_nd", {x, s64({2, 1}, {0, 0})}, {x}, {integers("batch_dims", {2})}}, "do not fit the tensor");
  expect_refused({"scatter_elements", {y, list({3}), list({1}, QN_F32)}, {y}}, "index 3");
  expect_refused({"scatter_elements", {y, list({0}), list({1, 2}, QN_F32)}, {y}}, "as many updates");
  expect_refused({"scatter_elements", {y, list({0}), list({1})}, {y}}, "input 2 is s64, not f32");
  expect_refused({"scatter_elements", {y, list({0}), list({1}, QN_F32)}, {y}, {integers("reduction", {5})}},
                 "reduction 5");
  expect_refused({"scatter_nd", {y, s64({1, 1}, {-4}), list({1}, QN_F32)}, {y}}, "index -4");
  expect_refused({"scatter_nd", {y, s64({1, 1}, {0}), list({1, 2}, QN_F32)}, {y}}, "do not fit the indices");
}

// ---- by what elements are

TEST(ExtraSelecting, Largest) {
  const Elements x = f32({2, 3}, {1, 3, 1, 4, 4, 5});
  const auto smallest = std::vector<Parameter>{integers("largest", {0})};
  expect_all({
      {"top_k", {x, list({2})}, {f32({2, 2}, {3, 1, 5, 4}), s64({2, 2}, {1, 0, 2, 0})}},
      {"top_k", {x, list({2})}, {f32({2, 2}, {1, 1, 4, 4}), s64({2, 2}, {0, 2, 0, 1})}, smallest},
      {"top_k", {x, list({1})}, {f32({1, 3}, {4, 4, 5}), s64({1, 3}, {1, 1, 1})}, {integers("axis", {0})}},
      {"top_k", {x, list({0})}, {f32({2, 0}, {}), s64({2, 0}, {})}},
      {"top_k", {list({-7, 2}, QN_S8), list({2})}, {list({2, -7}, QN_S8)}},
  });
  const double nan = std::numeric_limits<double>::quiet_NaN();
  std::vector<Elements> outputs;
  const Elements values = list({1, nan, 2, nan}, QN_F32);
  EXPECT_EQ(NodeModel({"top_k", {values, list({4})}, {values, none}}, 1).run(&outputs), "");
  EXPECT_EQ(outputs.at(1), list({1, 3, 2, 0}));
  expect_refused({"top_k", {x, list({4})}, {x, x}}, "k is 4 on a dimension of 3");
  expect_refused({"top_k", {x, list({-1})}, {x, x}}, "k is -1");
  expect_refused({"top_k", {x, none}, {x, x}}, "not one number");
}

TEST(ExtraSelecting, Nonzeros) {
  expect_all({
      {"nonzero", {f32({2, 2}, {0, 1, -2, 0})}, {s64({2, 2}, {0, 1, 1, 0})}},
      {"nonzero", {f32({2}, {0, 0})}, {s64({1, 0}, {})}},
      {"nonzero", {counted({0, 2})}, {s64({2, 0}, {})}},
      {"nonzero", {scalar(5)}, {s64({0, 1}, {})}},
      {"compress", {counted({2, 3}), list({0, 1, 1, 0, 1}, QN_BOOL)}, {list({1, 2, 4}, QN_F32)}},
      {"compress", {counted({2, 3}), list({0, 1}, QN_BOOL)}, {f32({2, 1}, {1, 4})}, {integers("axis", {1})}},
      {"compress", {counted({2, 3}), list({}, QN_BOOL)}, {f32({0}, {})}},
  });
  expect_refused({"compress", {counted({2}), list({0, 0, 1}, QN_BOOL)}, {counted({2})}}, "chooses item 2 of 2");
  expect_refused({"compress", {counted({2}), list({0, 0, 1})}, {counted({2})}}, "input 1 is s64, not bool");
}

TEST(ExtraSelecting, Unique) {
  const Elements x = list({2, 1, 1, 3, 4, 3}, QN_F32), rows = s64({3, 2}, {3, 1, 0, 5, 3, 1});
  const double nan = std::numeric_limits<double>::quiet_NaN();
  expect_all({
      {"unique", {x}, {list({1, 2, 3, 4}, QN_F32), list({1, 0, 3, 4}), list({1, 0, 0, 2, 3, 2}), list({2, 1, 2, 1})}},
      {"unique",
       {x},
       {list({2, 1, 3, 4}, QN_F32), list({0, 1, 3, 4}), list({0, 1, 1, 2, 3, 2}), list({1, 2, 2, 1})},
       {integers("sorted", {0})}},
      {"unique",
       {rows},
       {s64({2, 2}, {0, 5, 3, 1}), list({1, 0}), list({1, 0, 1}), list({1, 2})},
       {integers("axis", {0})}},
      {"unique",
       {rows},
       {s64({3, 2}, {1, 3, 5, 0, 1, 3}), list({1, 0}), list({1, 0}), list({1, 1})},
       {integers("axis", {-1})}},
      {"unique", {counted({0, 2})}, {f32({0}, {}), none, none, none}},
      {"unique", {scalar(4)}, {list({4}), list({0})}},
  });
  std::vector<Elements> outputs;
  EXPECT_EQ(NodeModel({"unique", {list({nan, 1, nan}, QN_F32)}, {x, none}}, 1).run(&outputs), "");
  EXPECT_EQ(outputs.at(1), list({1, 0}));
  expect_refused({"unique", {x}, {x, x}}, "output 1 is f32, not s64");
  expect_refused({"nonzero", {x}, {list({}, QN_S8)}}, "output 0 is s8, not s64");
}

// ---- tensors made of numbers

TEST(ExtraMaking, Ranges) {
  const auto f = [](double value) { return scalar(value, QN_F32); };
  expect_all({
      {"range", {scalar(3), scalar(-4), scalar(-3)}, {list({3, 0, -3})}},
      {"range", {scalar(1), scalar(1), scalar(2)}, {none}},
      {"range", {scalar(0x1p62), scalar(-0x1p63), scalar(-0x1p63)}, {list({0x1p62, -0x1p62})}},
      {"range", {scalar(250, QN_U8), scalar(255, QN_U8), scalar(3, QN_U8)}, {list({250, 253}, QN_U8)}},
      {"range", {f(1), f(2), f(0.5)}, {list({1, 1.5}, QN_F32)}},
      {"range", {f(1), f(-1), f(1)}, {list({}, QN_F32)}},
  });
  expect_refused({"range", {scalar(0), scalar(1), scalar(0)}, {none}}, "the step is 0");
  expect_refused({"range", {scalar(0), scalar(1), f(1)}, {none}}, "input 2 is f32, not s64");
  expect_refused({"range", {scalar(0), list({1, 2}), scalar(1)}, {none}}, "not one number");
  expect_refused({"range", {f(0), f(HUGE_VAL), f(1)}, {list({}, QN_F32)}}, "infinitely many");
  expect_refused({"range", {f(0), f(std::nan("")), f(1)}, {list({}, QN_F32)}}, "infinitely many");
}

TEST(ExtraMaking, Constants) {
  expect_all({
      {"fill", {list({2, 1}), scalar(3, QN_S8)}, {{QN_S8, {2, 1}, {3, 3}}}},
      {"fill", {none, list({3})}, {scalar(3)}},
      {"fill", {list({0, 2}), scalar(3)}, {s64({0, 2}, {})}},
      {"eye_like", {counted({2, 3})}, {{QN_S32, {2, 3}, {1, 0, 0, 0, 1, 0}}}},
      {"eye_like", {counted({2, 3})}, {f32({2, 3}, {0, 0, 0, 1, 0, 0})}, {integers("k", {-1})}},
      {"eye_like", {counted({2, 2})}, {f32({2, 2}, {0, 0, 0, 0})}, {integers("k", {INT64_MIN})}},
  });
  expect_refused({"fill", {list({-1}), scalar(3)}, {none}}, "a dimension is -1");
  expect_refused({"fill", {list({0x1p62, 0x1p62}), scalar(3)}, {none}}, "too large");
  expect_refused({"eye_like", {counted({2})}, {counted({2})}}, "rank 1");
}

// The moments of 20000 numbers, within four deviations of these; the same for each run, others for another seed.
TEST(ExtraMaking, RandomNumbers) {
  const auto draw = [](int64_t normal, int64_t seed) {
    const Elements x = {QN_S8, {100, 200}, std::vector<double>(20000)};
    const NodeCase node = {
        "random_like", {x}, {{QN_F32, {}, {}}}, {integers("normal", {normal}), integers("seed", {seed})}};
    std::vector<Elements> outputs;
    EXPECT_EQ(NodeModel(node, 1).run(&outputs), "");
    EXPECT_EQ(outputs.at(0).shape, x.shape);
    return outputs.at(0).values;
  };
  for (const bool normal : {false, true}) {
    const std::vector<double> numbers = draw(normal, 7);
    EXPECT_EQ(numbers, draw(normal, 7));
    EXPECT_NE(numbers, draw(normal, 8));
    double sum = 0, squares = 0, neighbours = 0;
    for (size_t i = 0; i < numbers.size(); ++i) {
      sum += numbers[i];
      squares += numbers[i] * numbers[i];
      neighbours += numbers[i] * numbers[(i + 1) % numbers.size()];
    }
    const double n = 20000, mean = sum / n, variance = squares / n - mean * mean;
    const double wanted = normal ? 1 : 1 / 12.0, fourth = normal ? 3 : 1 / 80.0;
    EXPECT_NEAR(mean, normal ? 0 : 0.5, 4 * std::sqrt(wanted / n));
    EXPECT_NEAR(variance, wanted, 4 * std::sqrt((fourth - wanted * wanted) / n));
    EXPECT_NEAR(neighbours / n - mean * mean, 0, 4 * wanted / std::sqrt(n)) << "neighbours are independent";
    const auto [least, most] = std::minmax_element(numbers.begin(), numbers.end());
    if (!normal) {
      EXPECT_GE(*least, 0);
      EXPECT_LT(*most, 1);
    }
  }
}

TEST(ExtraMaking, OneHot) {
  const Elements values = list({0, 5}), at = list({1, -1, 3, -4});
  expect_all({
      {"one_hot", {at, scalar(3), values}, {s64({4, 3}, {0, 5, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0})}},
      {"one_hot", {at, list({2}), values}, {s64({2, 4}, {0, 0, 0, 0, 5, 5, 0, 0})}, {integers("axis", {0})}},
      {"one_hot",
       {list({1.5, std::nan(""), 1e30, -1}, QN_F32), scalar(2, QN_F32), values},
       {s64({4, 2}, {0, 5, 0, 0, 0, 0, 0, 5})}},
      {"one_hot", {none, scalar(2), list({0, 1}, QN_F32)}, {f32({0, 2}, {})}},
      {"one_hot", {scalar(0), scalar(0), values}, {none}},
  });
  expect_refused({"one_hot", {at, scalar(-1), values}, {none}}, "the depth is -1");
  expect_refused({"one_hot", {at, scalar(2), list({1})}, {none}}, "not two values");
  expect_refused({"one_hot", {at, scalar(2), values}, {none}, {integers("axis", {2})}}, "axis 2");
}

}  // namespace moving_test
}  // namespace quern::test
