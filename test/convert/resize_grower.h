// Random ONNX graphs whose inputs may change their size.
#pragma once

#include <gtest/gtest.h>

#include <iterator>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "convert/convert.h"
#include "onnx_model.h"

namespace quern::test {

inline std::string with(const char* text, int64_t number) { return std::string(text).append(std::to_string(number)); }

inline std::string list_of(const std::vector<int64_t>& values) {
  std::string text = "[";
  for (const int64_t value : values) text += std::string(text.size() > 1 ? "," : "").append(std::to_string(value));
  return text + "]";
}

inline Graph import_bytes(const OnnxModel& model) {
  static const test::Folder folder;
  return import_onnx(folder.write("net.onnx", model.bytes()), {});
}

// Grows a graph by one random operator after the other, each on the output of the last.
class Grower {
 public:
  explicit Grower(unsigned seed) : random_(seed), model_(opsets[seed % std::size(opsets)]) {
    opset_ = opsets[seed % std::size(opsets)];
    dims_ = {below(2) + 1, 2 * (below(2) + 1), below(6) + 4, below(6) + 4};
    model_.input("x", dims_);
    shape_ = dims_;
    const size_t nodes = 1 + below(5);
    for (size_t tries = 0; kinds_.size() < nodes && tries < 40; ++tries) grow();
    model_.output(last_);
  }

  const Dims& dims() const { return dims_; }
  const std::vector<std::string>& kinds() const { return kinds_; }

  // The model, its input of these dimensions; 0 leaves one open.
  OnnxModel model(const Dims& dims) const {
    OnnxModel model = model_;
    auto* shape = model.model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
    shape->clear_dim();
    for (const size_t d : dims) {
      auto* dim = shape->add_dim();
      d != 0 ? dim->set_dim_value(static_cast<int64_t>(d)) : dim->set_dim_param(with("d", shape->dim_size()));
    }
    return model;
  }

  Dims other_dims() {
    Dims dims = dims_;
    for (const size_t d : {size_t{0}, size_t{2}, size_t{3}}) {
      if (below(2) != 0) dims[d] = d == 0 ? below(3) + 1 : below(12) + 2;
    }
    if (dims == dims_) dims[2] += 1;
    return dims;
  }

 private:
  static constexpr int64_t opsets[] = {9, 10, 11, 12, 13, 18};

  size_t below(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random_); }
  bool coin() { return below(2) != 0; }
  int64_t between(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }
  size_t rank() const { return shape_.size(); }
  size_t axis() { return below(rank()); }
  int64_t signed_axis(size_t axis) {
    return coin() ? static_cast<int64_t>(axis) : static_cast<int64_t>(axis) - static_cast<int64_t>(rank());
  }

  std::string fresh() { return with("t", static_cast<int64_t>(names_++)); }
  std::string constant(const Dims& dims) {
    const std::string name = fresh();
    model_.floats(name, test::random(dims, static_cast<uint32_t>(names_)));
    return name;
  }
  std::string integers(const std::vector<int64_t>& values) {
    const std::string name = fresh();
    model_.integers(name, values);
    return name;
  }
  std::string number(int64_t value) {  // of rank 0
    const std::string name = integers({value});
    model_.model.mutable_graph()->mutable_initializer(model_.model.graph().initializer_size() - 1)->clear_dims();
    return name;
  }
  std::string node(const std::string& type, const std::vector<std::string>& inputs,
                   const std::string& attributes = "") {
    const std::string name = fresh();
    model_.node(type, inputs, {name}, attributes);
    return name;
  }

  // Adds one operator; all is as it was if the importer refuses the model then.
  void grow() {
    using Make = std::optional<std::string> (Grower::*)();
    static const std::pair<const char*, Make> makers[] = {
        {"unary", &Grower::unary},
        {"per channel", &Grower::per_channel},
        {"binary", &Grower::binary},
        {"with a constant", &Grower::with_constant},
        {"window", &Grower::window},
        {"reduction", &Grower::reduction},
        {"product", &Grower::product},
        {"resize", &Grower::resize},
        {"concat", &Grower::concat},
        {"flatten", &Grower::flatten},
        {"reshape", &Grower::reshape},
        {"computed reshape", &Grower::computed_reshape},
        {"transpose", &Grower::transpose},
        {"squeeze", &Grower::squeeze},
        {"unsqueeze", &Grower::unsqueeze},
        {"slice", &Grower::slice},
        {"computed slice", &Grower::computed_slice},
        {"split", &Grower::split},
        {"gather", &Grower::gather},
        {"pad", &Grower::pad},
        {"expand", &Grower::expand},
        {"softmax", &Grower::softmax},
        {"depth to space", &Grower::depth_to_space},
        {"computed constant", &Grower::computed_constant},
    };
    const auto& [kind, make] = makers[below(std::size(makers))];
    const OnnxModel before = model_;
    const std::string last = last_;
    const std::optional<std::string> made = (this->*make)();
    if (made) last_ = *made;
    if (made && infer()) {
      kinds_.push_back(kind);
    } else {
      model_ = before;
      last_ = last;
    }
  }

  bool infer() {
    OnnxModel model = model_;
    model.output(last_);
    try {
      const Graph graph = import_bytes(model);
      const auto& shape = graph.tensors[static_cast<size_t>(graph.outputs[0].tensor)].shape;
      if (shape.empty() || test::count(Dims(shape.begin(), shape.end())) > 20000) return false;
      shape_.assign(shape.begin(), shape.end());
      return true;
    } catch (const Error&) {
      return false;
    }
  }

  // ---- operators: the name of the result, or nothing where one does not fit

  using Result = std::optional<std::string>;

  std::string bounded() { return node("Tanh", {last_}); }  // in [-1, 1]

  Result unary() {
    switch (below(12)) {
      case 0: return node("Abs", {last_});
      case 1: return node("Exp", {bounded()});
      case 2: return node("HardSigmoid", {last_}, "alpha=0.3f");
      case 3: return node("LeakyRelu", {last_}, "alpha=0.1f");
      case 4: return node("Neg", {last_});
      case 5: return node("Relu", {last_});
      case 6: return node("Sqrt", {node("Sigmoid", {last_})});
      case 7: return node("Reciprocal", {node("Sigmoid", {bounded()})});
      case 8: return node("Identity", {last_});
      case 9: return node("Dropout", {last_});
      case 10:
        if (opset_ < 11) return node("Clip", {last_}, "min=-0.5f max=0.25f");
        model_.scalar(with("low", static_cast<int64_t>(names_)), -0.5f);
        return node("Clip", {last_, with("low", static_cast<int64_t>(names_))});
      default: return node("Cast", {last_}, "to=1");
    }
  }

  Result per_channel() {
    if (rank() < 2) return std::nullopt;
    Dims channels(rank() - 1, 1);
    channels[0] = shape_[1];
    switch (below(4)) {
      case 0: return node("PRelu", {last_, constant(coin() ? channels : Dims{1})});
      case 1: return rank() == 4 ? Result(node("LRN", {last_}, "size=3 alpha=0.1f")) : std::nullopt;
      case 2: {
        const std::string positive = fresh();
        Array variance = test::random({shape_[1]}, static_cast<uint32_t>(names_));
        for (float& v : variance.data) v = v * v + 0.1f;
        model_.floats(positive, variance);
        const Dims one = {shape_[1]};
        return node("BatchNormalization", {last_, constant(one), constant(one), constant(one), positive});
      }
      default: return node(coin() ? "Mul" : "Add", {last_, constant(channels)});
    }
  }

  Result binary() {
    const char* types[] = {"Add", "Sub", "Mul", "Sum"};
    const std::string other = rank() == 4 && coin() ? node("GlobalAveragePool", {last_}) : node("Sigmoid", {last_});
    if (below(5) == 0) return node("Div", {last_, node("Exp", {node("Tanh", {other})})});
    const bool first = coin();
    return node(types[below(4)], {first ? last_ : other, first ? other : last_});
  }

  Result with_constant() {
    const char* types[] = {"Add", "Sub", "Mul", "Max", "Min"};
    const size_t type = below(5);
    Dims dims(type > 2 ? 0 : below(rank() + 2));
    for (size_t i = 0; i < dims.size(); ++i) {
      const size_t from_end = dims.size() - i;
      dims[i] = from_end <= rank() && coin() ? shape_[rank() - from_end] : 1;
    }
    const std::string c = constant(dims);
    return coin() ? node(types[type], {c, last_}) : node(types[type], {last_, c});
  }

  Result window() {
    if (rank() != 4) return std::nullopt;
    const int64_t kh = between(1, 3), kw = between(1, 3), sh = between(1, 2), sw = between(1, 2);
    std::string attributes = "strides=" + list_of({sh, sw});
    switch (below(4)) {
      case 0: attributes += coin() ? " auto_pad='SAME_UPPER'" : " auto_pad='SAME_LOWER'"; break;
      case 1: attributes += " auto_pad='VALID'"; break;
      case 2:
        attributes +=
            " pads=" + list_of({between(0, kh - 1), between(0, kw - 1), between(0, kh - 1), between(0, kw - 1)});
    }
    const std::string kernel = " kernel_shape=" + list_of({kh, kw});
    const size_t kind = below(3);
    if (kind > 0 && coin() && opset_ >= 10 && attributes.find("auto_pad") == std::string::npos)
      attributes += " ceil_mode=1";
    if (kind == 1) return node("MaxPool", {last_}, attributes + kernel);
    if (kind == 2)
      return node("AveragePool", {last_}, attributes + kernel + " count_include_pad=" + (coin() ? "1" : "0"));
    const size_t groups = coin() ? shape_[1] : 1;
    const Dims weights = {groups * (1 + below(2)), shape_[1] / groups, static_cast<size_t>(kh),
                          static_cast<size_t>(kw)};
    return node("Conv", {last_, constant(weights)}, attributes + with(" group=", groups));
  }

  Result reduction() {
    if (rank() != 4) return std::nullopt;
    if (below(3) == 0) return node(coin() ? "GlobalAveragePool" : "GlobalMaxPool", {last_});
    const size_t first = below(4), second = (first + 1 + below(3)) % 4;
    const std::vector<int64_t> axes = {signed_axis(first), signed_axis(second)};
    const char* type = coin() ? "ReduceMean" : "ReduceMax";
    const std::string keep = coin() ? "keepdims=1" : "keepdims=0";
    if (opset_ >= 18) return node(type, {last_, integers(axes)}, keep);
    return node(type, {last_}, "axes=" + list_of(axes) + " " + keep);
  }

  Result product() {
    const size_t outputs = 1 + below(4);
    if (rank() == 2 && coin())
      return node("Gemm", {last_, constant({outputs, shape_[1]}), constant({outputs})}, "transB=1");
    if (rank() < 2) return std::nullopt;
    return node("MatMul", {last_, constant({shape_.back(), outputs})});
  }

  // One dimension of the result's shape as a tensor of one number, worked out from the shape when the model runs.
  std::string size_of(size_t d) {
    const std::string shape = node("Shape", {last_});
    if (coin()) return node("Gather", {shape, integers({coin() ? static_cast<int64_t>(d) : signed_axis(d)})});
    const auto begin = static_cast<int64_t>(d);
    if (opset_ < 10) return node("Slice", {shape}, "starts=" + list_of({begin}) + " ends=" + list_of({begin + 1}));
    return node("Slice", {shape, integers({begin}), integers({begin + 1})});
  }
  std::string joined(const std::vector<std::string>& numbers) { return node("Concat", numbers, "axis=0"); }

  Result resize() {
    if (rank() != 4) return std::nullopt;
    const char* coordinates[] = {"half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"};
    const bool linear = coin();
    std::string attributes = linear ? "mode='linear'" : "mode='nearest'";
    const std::string scales = fresh();
    const float factors[] = {1, 2, 0.5f, 1.5f, 0.25f};
    model_.floats(scales, {{4}, {1, 1, factors[below(5)], factors[below(5)]}});
    if (opset_ < 10) return node("Upsample", {last_, scales}, attributes);
    if (opset_ == 10) return node("Resize", {last_, scales}, attributes);
    attributes += std::string(" coordinate_transformation_mode='") + coordinates[below(4)] + "'";
    if (!linear) attributes += coin() ? " nearest_mode='floor'" : " nearest_mode='round_prefer_ceil'";
    const std::string roi = fresh(), none = fresh();
    model_.floats(roi, {{0}, {}});
    const size_t how = below(3);
    if (how == 0) return node("Resize", {last_, roi, scales}, attributes);
    model_.floats(none, {{0}, {}});
    std::vector<std::string> sizes;
    for (size_t d = 0; d < 4; ++d) {
      const auto now = static_cast<int64_t>(shape_[d]);
      const bool computed = how == 2 || (d < 2 && coin());
      sizes.push_back(computed ? size_of(d) : integers({d < 2 ? now : between(1, 2 * now)}));
      if (computed && d >= 2 && coin()) sizes.back() = node("Mul", {sizes.back(), integers({2})});
      if (computed && d >= 2 && below(4) == 0) sizes.back() = node("Add", {sizes.back(), integers({1})});
    }
    return node("Resize", {last_, roi, opset_ < 13 ? none : "", joined(sizes)}, attributes);
  }

  Result concat() {
    const size_t d = axis();
    std::vector<std::string> parts = {last_, node("Relu", {last_})};
    if (coin()) parts.push_back(constant(shape_));
    return node("Concat", parts, with("axis=", opset_ < 11 ? static_cast<int64_t>(d) : signed_axis(d)));
  }

  Result flatten() { return node("Flatten", {last_}, with("axis=", static_cast<int64_t>(below(rank() + 1)))); }

  // Literal sizes, zeros and one -1.
  std::vector<int64_t> literal_shape() {
    std::vector<int64_t> to;
    for (const size_t d : shape_) to.push_back(below(3) == 0 ? static_cast<int64_t>(d) : 0);
    if (to.size() > 1 && coin()) {  // two neighbours become one
      const size_t d = below(to.size() - 1);
      to.erase(to.begin() + static_cast<std::ptrdiff_t>(d));
      to[d] = -1;
      for (size_t i = d + 1; i < to.size(); ++i) to[i] = static_cast<int64_t>(shape_[i + 1]);
    } else if (coin()) {
      to[below(to.size())] = -1;
    }
    return to;
  }
  Result reshape() { return node("Reshape", {last_, integers(literal_shape())}); }

  Result computed_reshape() {
    std::vector<std::string> to;
    for (size_t d = 0; d < rank(); ++d) {
      if (d + 1 < rank() && below(3) == 0) {  // two neighbours become one
        to.push_back(coin() ? integers({-1}) : node("Mul", {size_of(d), size_of(d + 1)}));
        ++d;
      } else if (below(6) == 0) {
        to.push_back(integers({static_cast<int64_t>(shape_[d])}));
      } else {
        to.push_back(size_of(d));
      }
    }
    if (coin()) to.insert(to.begin() + static_cast<std::ptrdiff_t>(below(to.size() + 1)), integers({1}));
    return node("Reshape", {last_, joined(to)});
  }

  Result transpose() {
    std::vector<int64_t> order(rank());
    for (size_t d = 0; d < rank(); ++d) order[d] = static_cast<int64_t>(d);
    std::shuffle(order.begin(), order.end(), random_);
    return node("Transpose", {last_}, coin() ? "" : "perm=" + list_of(order));
  }

  Result by_axes(const char* type, const std::vector<int64_t>& axes) {
    if (opset_ >= 13) return node(type, {last_, integers(axes)});
    return node(type, {last_}, "axes=" + list_of(axes));
  }
  Result squeeze() {
    std::vector<int64_t> ones;
    for (size_t d = 0; d < rank(); ++d) {
      if (shape_[d] == 1 && coin()) ones.push_back(opset_ < 11 ? static_cast<int64_t>(d) : signed_axis(d));
    }
    return ones.empty() ? Result(node("Squeeze", {last_})) : by_axes("Squeeze", ones);
  }
  Result unsqueeze() {
    if (rank() > 4) return std::nullopt;
    const auto d = static_cast<int64_t>(below(rank() + 1));
    return by_axes("Unsqueeze", {opset_ < 11 || coin() ? d : d - static_cast<int64_t>(rank()) - 1});
  }

  Result sliced(const std::string& starts, const std::string& ends, int64_t d) {
    return node("Slice", {last_, starts, ends, integers({d})});
  }
  Result slice() {
    const size_t d = axis();
    const auto size = static_cast<int64_t>(shape_[d]);
    const int64_t starts[] = {0, between(0, size), -between(1, size), -size - 2,
                              std::numeric_limits<int64_t>::min() + 1};
    const int64_t ends[] = {size,
                            between(1, size),
                            -between(1, size),
                            size + 3,
                            std::numeric_limits<int32_t>::max(),
                            std::numeric_limits<int64_t>::max()};
    const int64_t start = starts[below(5)], end = ends[below(6)];
    if (opset_ >= 10) return sliced(integers({start}), integers({end}), signed_axis(d));
    return node(
        "Slice", {last_},
        "axes=" + list_of({static_cast<int64_t>(d)}) + " starts=" + list_of({start}) + " ends=" + list_of({end}));
  }
  Result computed_slice() {
    if (opset_ < 10) return std::nullopt;
    const size_t d = axis();
    const std::string end = coin() ? size_of(d) : node("Sub", {size_of(d), integers({1})});
    return sliced(integers({between(-1, 1)}), coin() ? end : node("Div", {size_of(d), integers({2})}),
                  static_cast<int64_t>(d));
  }

  Result split() {
    const size_t d = axis();
    if (shape_[d] < 2) return std::nullopt;
    const std::string first = fresh(), second = fresh(), at = with("axis=", static_cast<int64_t>(d));
    std::vector<std::string> inputs = {last_};
    std::string attributes = at;
    if (coin()) {
      const std::vector<int64_t> sizes = {1, static_cast<int64_t>(shape_[d]) - 1};
      opset_ >= 13 ? inputs.push_back(integers(sizes)) : void(attributes += " split=" + list_of(sizes));
    } else if (opset_ >= 18) {
      attributes += " num_outputs=2";
    }
    model_.node("Split", inputs, {first, second}, attributes);
    return coin() ? first : second;
  }

  Result gather() {
    const size_t d = axis();
    const auto size = static_cast<int64_t>(shape_[d]);
    const std::string at = with("axis=", static_cast<int64_t>(d));
    const auto index = [&] { return between(opset_ < 11 ? 0 : -size, size - 1); };
    if (coin()) return node("Gather", {last_, number(index())}, at);
    std::vector<int64_t> indices(1 + below(3));
    for (int64_t& i : indices) i = index();
    return node("Gather", {last_, integers(indices)}, at);
  }

  Result pad() {
    std::vector<int64_t> pads;
    for (size_t i = 0; i < 2 * rank(); ++i) pads.push_back(coin() ? 0 : between(0, 2));
    if (opset_ < 11) return node("Pad", {last_}, "pads=" + list_of(pads) + " value=0.5f");
    return node("Pad", {last_, integers(pads)});
  }

  Result expand() {
    std::vector<std::string> to;
    for (size_t d = 0; d < rank(); ++d) {
      const size_t how = below(3);
      to.push_back(how == 0 ? size_of(d) : integers({how == 1 ? 1 : static_cast<int64_t>(shape_[d])}));
    }
    return node("Expand", {last_, joined(to)});
  }

  Result softmax() {
    const size_t d = axis();
    return node("Softmax", {last_}, with("axis=", opset_ < 11 ? static_cast<int64_t>(d) : signed_axis(d)));
  }

  Result depth_to_space() {
    if (rank() != 4) return std::nullopt;
    return node("DepthToSpace", {last_},
                opset_ < 11 ? "blocksize=2"
                : coin()    ? "blocksize=2 mode='CRD'"
                            : "blocksize=2");
  }

  // Constants whose size or value comes from the shape.
  Result computed_constant() {
    const size_t d = axis();
    const std::string shape = node("Shape", {last_});
    switch (below(5)) {
      case 0: return node("Add", {last_, node("ConstantOfShape", {size_of(d)})});
      case 1: return node("Mul", {last_, node("Cast", {size_of(d)}, "to=1")});
      case 2: return node("Mul", {last_, node("Floor", {node("Cast", {node("Size", {last_})}, "to=1")})});
      case 3: {
        if (opset_ < 11) return std::nullopt;
        const std::string end = node("ReduceProd", {shape}, "keepdims=0");
        return node("Reshape", {node("Cast", {node("Range", {number(0), end, number(1)})}, "to=1"), shape});
      }
      default: {
        if (opset_ < 11) return std::nullopt;
        const std::string is_one = node("Equal", {shape, integers({1})});
        const std::string to = node("Where", {is_one, shape, integers({-1})});
        return rank() < 2 ? Result(node("Reshape", {last_, to})) : node("Expand", {last_, node("Abs", {shape})});
      }
    }
  }

  std::mt19937 random_;
  int64_t opset_ = 0;
  OnnxModel model_;
  Dims dims_, shape_;
  std::string last_ = "x";
  std::vector<std::string> kinds_;
  size_t names_ = 0;
};

}  // namespace quern::test
