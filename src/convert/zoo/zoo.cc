#include "convert/zoo/zoo.h"

#include "convert/zoo/builder.h"

namespace quern::zoo {
namespace {

using enum Activation;
constexpr size_t classes = 1000;
// Mean square that a residual branch adds to the input of its block. It is small, so that the mean square stays near
// one in a chain of blocks.
constexpr double residual = 0.25;

std::string number(const std::string& prefix, size_t i) { return prefix + std::to_string(i); }

void classify(Builder& b, const Value& features) {
  const Value pooled = features.h * features.w > 1 ? b.global_average("pool", features) : features;
  b.output("prob", b.softmax("prob", b.fully_connected("fc", pooled, classes).tensor, 1));
}

// ---- MobileNet v1 (Howard 2017), and its single-shot detector ---------------------------------------------------

Value separable(Builder& b, const std::string& name, const Value& x, size_t out, size_t stride, Activation act) {
  return b.conv(name + ".point", b.depthwise(name + ".depth", x, 3, stride, act), {out, 1, 1, act});
}

struct Backbone {
  Value stride16, last;
};

Backbone mobilenet_backbone(Builder& b, size_t side, Activation act) {
  struct Block {
    size_t out, stride;
  };
  constexpr Block blocks[] = {{64, 1},  {128, 2}, {128, 1}, {256, 2}, {256, 1},  {512, 2}, {512, 1},
                              {512, 1}, {512, 1}, {512, 1}, {512, 1}, {1024, 2}, {1024, 1}};
  Value x = b.conv("conv0", b.input(side), {32, 3, 2, act});
  Value stride16 = x;
  size_t i = 0;
  for (const Block& block : blocks) {
    if (block.out == 1024 && block.stride == 2) stride16 = x;
    x = separable(b, number("block", ++i), x, block.out, block.stride, act);
  }
  return {stride16, x};
}

void mobilenet_v1(Builder& b) { classify(b, mobilenet_backbone(b, 224, relu6).last); }

// The detector reads six feature maps. At every pixel it has `boxes` priors, each with four offsets and the
// probabilities of 21 classes.
void mobilenet_ssd(Builder& b) {
  constexpr size_t labels = 21;
  struct Extra {
    size_t squeeze, out;
  };
  constexpr Extra extras[] = {{256, 512}, {128, 256}, {128, 256}, {64, 128}};
  const Backbone backbone = mobilenet_backbone(b, 300, relu);
  Vector<Value> maps = {backbone.stride16, backbone.last};
  for (const Extra& extra : extras) {
    const std::string name = number("extra", maps.size() - 1);
    const Value squeezed = b.conv(name + ".squeeze", maps.back(), {extra.squeeze, 1, 1, relu});
    maps.push_back(b.conv(name + ".reduce", squeezed, {extra.out, 3, 2, relu}));
  }
  Vector<int> offsets, scores;
  for (const Value& map : maps) {
    const size_t boxes = offsets.empty() ? 3 : 6;
    const std::string name = number("head", offsets.size() + 1);
    offsets.push_back(b.flatten(name + ".loc/flat", b.conv(name + ".loc", map, {4 * boxes})));
    scores.push_back(b.flatten(name + ".conf/rows", b.conv(name + ".conf", map, {labels * boxes}), labels));
  }
  b.output("loc", b.join("loc", offsets, 1));
  b.output("conf", b.softmax("conf", b.join("conf/rows", scores, 1), 2));
}

// ---- MobileNet v2 (Sandler 2018) and v3 (Howard 2019) -------------------------------------------------------------

struct Bottleneck {
  size_t kernel, expand, out, squeeze, stride;  // squeeze 0: no squeeze and excitation
  Activation act;
};

Value inverted_residual(Builder& b, const std::string& name, const Value& x, const Bottleneck& shape) {
  Value y = x;
  if (shape.expand != x.c) y = b.conv(name + ".expand", y, {shape.expand, 1, 1, shape.act});
  y = b.depthwise(name + ".depth", y, shape.kernel, shape.stride, shape.act);
  if (shape.squeeze != 0) y = b.squeeze_excite(name + ".se", y, shape.squeeze);
  const bool adds = shape.stride == 1 && shape.out == x.c;
  y = b.conv(name + ".project", y, {.out = shape.out, .square = adds ? residual : 1});
  return adds ? b.add(name + ".add", x, y) : y;
}

void mobilenet_v2(Builder& b) {
  struct Stage {
    size_t expansion, out, repeat, stride;
  };
  constexpr Stage stages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                              {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
  Value x = b.conv("conv0", b.input(224), {32, 3, 2, relu6});
  size_t i = 0;
  for (const Stage& stage : stages)
    for (size_t r = 0; r < stage.repeat; ++r)
      x = inverted_residual(b, number("block", ++i), x,
                            {3, stage.expansion * x.c, stage.out, 0, r == 0 ? stage.stride : 1, relu6});
  classify(b, b.conv("conv1", x, {1280, 1, 1, relu6}));
}

void mobilenet_v3_large(Builder& b) {
  constexpr Bottleneck blocks[] = {
      {3, 16, 16, 0, 1, relu},           {3, 64, 24, 0, 2, relu},           {3, 72, 24, 0, 1, relu},
      {5, 72, 40, 24, 2, relu},          {5, 120, 40, 32, 1, relu},         {5, 120, 40, 32, 1, relu},
      {3, 240, 80, 0, 2, hard_swish},    {3, 200, 80, 0, 1, hard_swish},    {3, 184, 80, 0, 1, hard_swish},
      {3, 184, 80, 0, 1, hard_swish},    {3, 480, 112, 120, 1, hard_swish}, {3, 672, 112, 168, 1, hard_swish},
      {5, 672, 160, 168, 2, hard_swish}, {5, 960, 160, 240, 1, hard_swish}, {5, 960, 160, 240, 1, hard_swish}};
  Value x = b.conv("conv0", b.input(224), {16, 3, 2, hard_swish});
  size_t i = 0;
  for (const Bottleneck& block : blocks) x = inverted_residual(b, number("block", ++i), x, block);
  x = b.global_average("pool", b.conv("conv1", x, {960, 1, 1, hard_swish}));
  classify(b, b.conv("conv2", x, {1280, 1, 1, hard_swish}));
}

// ---- SqueezeNet 1.1 (Iandola 2016) ----------------------------------------------------------------------------------

void squeezenet(Builder& b) {
  constexpr size_t squeezes[] = {16, 16, 32, 32, 48, 48, 64, 64};  // a fire module has 4 + 4 times as many outputs
  Value x = b.conv("conv1", b.input(227), {.out = 64, .kernel = 3, .stride = 2, .act = relu, .padding = 0});
  size_t i = 1;
  for (const size_t squeeze : squeezes) {
    ++i;
    if (i == 2 || i == 4 || i == 6) x = b.max_pool(number("pool", i), x, 3, 2, 0, i == 2 ? 4 : 2, true);
    const std::string name = number("fire", i);
    const Value squeezed = b.conv(name + ".squeeze", x, {squeeze, 1, 1, relu});
    x = b.concat(name, {b.conv(name + ".expand1x1", squeezed, {4 * squeeze, 1, 1, relu}),
                        b.conv(name + ".expand3x3", squeezed, {4 * squeeze, 3, 1, relu})});
  }
  const Value scores = b.global_average("pool", b.conv("conv10", x, {classes, 1, 1, relu}));
  b.output("prob", b.softmax("prob", b.flatten("scores", scores), 1));
}

// ---- ShuffleNet v2, width 1.0 (Ma 2018) -------------------------------------------------------------------------

Value shuffle_unit(Builder& b, const std::string& name, const Value& x, size_t out, size_t stride) {
  const size_t half = out / 2;
  Value left = x, right = x;
  if (stride == 1) {
    left = b.channels(name + ".keep", x, 0, half);
    right = b.channels(name + ".take", x, half, out);
  } else {
    left = b.conv(name + ".left.point", b.depthwise(name + ".left.depth", x, 3, stride, none), {half, 1, 1, relu});
  }
  right = b.conv(name + ".expand", right, {half, 1, 1, relu});
  right = b.depthwise(name + ".depth", right, 3, stride, none);
  right = b.conv(name + ".point", right, {half, 1, 1, relu});
  return b.shuffle(name + ".shuffle", b.concat(name, {left, right}), 2);
}

void shufflenet_v2(Builder& b) {
  struct Stage {
    size_t out, repeat;
  };
  constexpr Stage stages[] = {{116, 4}, {232, 8}, {464, 4}};
  Value x = b.max_pool("pool0", b.conv("conv0", b.input(224), {24, 3, 2, relu}), 3, 2, 1, 4);
  size_t i = 0;
  for (const Stage& stage : stages)
    for (size_t r = 0; r < stage.repeat; ++r) x = shuffle_unit(b, number("block", ++i), x, stage.out, r == 0 ? 2 : 1);
  classify(b, b.conv("conv5", x, {1024, 1, 1, relu}));
}

// ---- ResNet v1 (He 2015) and v2 (He 2016) -------------------------------------------------------------------------

struct ResStage {
  size_t width, repeat;
};
constexpr size_t bottleneck_expansion = 4;

Value res_stem(Builder& b, Activation act) {
  return b.max_pool("pool0", b.conv("conv0", b.input(224), {64, 7, 2, act}), 3, 2, 1, 4);
}

Value projection(Builder& b, const std::string& name, const Value& x, size_t out, size_t stride) {
  return b.conv(name + ".shortcut", x, {.out = out, .stride = stride, .square = 2 - residual});
}

Value basic_block(Builder& b, const std::string& name, const Value& x, size_t width, size_t stride) {
  const Value shortcut = stride == 1 && x.c == width ? x : projection(b, name, x, width, stride);
  const Value y = b.conv(name + ".conv1", x, {width, 3, stride, relu});
  return b.add(name, shortcut, b.conv(name + ".conv2", y, {.out = width, .kernel = 3, .square = residual}), relu);
}

// The first version of the block: its first 1x1 convolution has the stride.
Value bottleneck_v1(Builder& b, const std::string& name, const Value& x, size_t width, size_t stride) {
  const size_t out = bottleneck_expansion * width;
  const Value shortcut = x.c == out ? x : projection(b, name, x, out, stride);
  Value y = b.conv(name + ".conv1", x, {width, 1, stride, relu});
  y = b.conv(name + ".conv2", y, {width, 3, 1, relu});
  return b.add(name, shortcut, b.conv(name + ".conv3", y, {.out = out, .square = residual}), relu);
}

// The second version of the block: normalization and relu come before the convolutions, and the 3x3 convolution has the
// stride.
Value bottleneck_v2(Builder& b, const std::string& name, const Value& x, size_t width, size_t stride) {
  const size_t out = bottleneck_expansion * width;
  const Value active = b.scale_relu(name + ".norm", x);
  const Value shortcut =
      x.c == out ? x : b.conv(name + ".shortcut", active, {.out = out, .stride = stride, .square = 1 - residual});
  Value y = b.conv(name + ".conv1", active, {width, 1, 1, relu});
  y = b.conv(name + ".conv2", y, {width, 3, stride, relu});
  return b.add(name, shortcut, b.conv(name + ".conv3", y, {.out = out, .square = residual}));
}

using ResBlock = Value (*)(Builder&, const std::string&, const Value&, size_t width, size_t stride);

Value res_stages(Builder& b, Value x, const Vector<ResStage>& stages, ResBlock block) {
  size_t i = 0;
  for (const ResStage& stage : stages)
    for (size_t r = 0; r < stage.repeat; ++r)
      x = block(b, number("block", ++i), x, stage.width, r == 0 && stage.width != 64 ? 2 : 1);
  return x;
}

void resnet18(Builder& b) {
  classify(b, res_stages(b, res_stem(b, relu), {{64, 2}, {128, 2}, {256, 2}, {512, 2}}, basic_block));
}

Vector<ResStage> stages50() { return {{64, 3}, {128, 4}, {256, 6}, {512, 3}}; }

void resnet50(Builder& b) { classify(b, res_stages(b, res_stem(b, relu), stages50(), bottleneck_v1)); }

void resnet50_v2(Builder& b) {
  classify(b, b.scale_relu("norm", res_stages(b, res_stem(b, relu), stages50(), bottleneck_v2)));
}

// ---- VGG 16 (Simonyan 2014) ---------------------------------------------------------------------------------------

void vgg16(Builder& b) {
  struct Stage {
    size_t out, repeat;
  };
  constexpr Stage stages[] = {{64, 2}, {128, 2}, {256, 3}, {512, 3}, {512, 3}};
  Value x = b.input(224);
  size_t s = 0;
  for (const Stage& stage : stages) {
    const std::string name = number("conv", ++s);
    for (size_t r = 1; r <= stage.repeat; ++r) x = b.conv(name + "_" + std::to_string(r), x, {stage.out, 3, 1, relu});
    x = b.max_pool(number("pool", s), x, 2, 2, 0, 1.7);
  }
  x = b.fully_connected("fc6", x, 4096, relu);
  x = b.fully_connected("fc7", x, 4096, relu);
  classify(b, x);
}

struct Entry {
  const char* name;
  void (*build)(Builder&);
};
constexpr Entry entries[] = {
    {"mobilenet_v1", mobilenet_v1},  {"mobilenet_v2", mobilenet_v2},   {"mobilenet_v3_large", mobilenet_v3_large},
    {"squeezenet_v1.1", squeezenet}, {"shufflenet_v2", shufflenet_v2}, {"resnet18", resnet18},
    {"resnet50", resnet50},          {"resnet50_v2", resnet50_v2},     {"vgg16", vgg16},
    {"mobilenet_ssd", mobilenet_ssd}};

}  // namespace
}  // namespace quern::zoo

namespace quern {

std::vector<std::string> zoo_names() {
  std::vector<std::string> names;
  for (const zoo::Entry& entry : zoo::entries) names.push_back(entry.name);
  return names;
}

Graph build_zoo(const std::string& name, uint64_t seed) {
  for (const zoo::Entry& entry : zoo::entries) {
    if (name != entry.name) continue;
    zoo::Builder builder(name, seed);
    entry.build(builder);
    return builder.finish();
  }
  throw Error("no network called \"" + name + "\" in the zoo");
}

}  // namespace quern
