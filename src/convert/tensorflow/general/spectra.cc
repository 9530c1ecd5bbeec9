// Spectra, and the few operators on complex numbers that follow them.
#include "convert/common/spectra.h"

#include "convert/tensorflow/general/general.h"

namespace quern::tensorflow {
namespace {

template <size_t dimensions>
Values rfft(const TfNode& node) {
  for (const char* type : {"Treal", "Tcomplex"}) node.ignore(type);
  if (node.integers(1).values.size() != dimensions) node.fail("has another number of lengths");
  return {spectrum_of(node, node.value(0), node.integers(1).values)};
}

template <int64_t part>
Values complex_part(const TfNode& node) {
  node.ignore("Tout");
  return {part_of_complex(node, node.value(0), part)};
}
Values complex_abs(const TfNode& node) {
  node.ignore("Tout");
  return {absolute_of_complex(node, node.value(0))};
}

Values complex_identity(const TfNode& node) { return {node.value(0)}; }
Values complex_reshape(const TfNode& node) {
  node.ignore("Tshape");
  return {complex_reshaped(node, node.value(0), node.symbolic(1))};
}
Values complex_squeeze(const TfNode& node) {
  return {complex_squeezed(node, node.value(0), node.integer_list("squeeze_dims"))};
}
Values complex_expand_dims(const TfNode& node) {
  node.ignore("Tdim");
  return {complex_with_axis(node, node.value(0), node.only_integer(1))};
}

}  // namespace

const TfTable& general_spectra() {
  static const TfTable table = {
      {"RFFT", {rfft<1>, 2, 2}},
      {"RFFT2D", {rfft<2>, 2, 2}},
      {"RFFT3D", {rfft<3>, 2, 2}},
  };
  return table;
}

const TfRow* find_complex(const std::string& op) {
  static const TfTable table = {
      {"ComplexAbs", {complex_abs, 1, 1}},    {"ExpandDims", {complex_expand_dims, 2, 2}},
      {"Identity", {complex_identity, 1, 1}}, {"Imag", {complex_part<1>, 1, 1}},
      {"Real", {complex_part<0>, 1, 1}},      {"Reshape", {complex_reshape, 2, 2}},
      {"Squeeze", {complex_squeeze, 1, 1}},
  };
  return find_in(table, op);
}

}  // namespace quern::tensorflow
