// Layer shapes of well-known networks; marks those that quern-peers-bench (peers/README.md) runs.
#pragma once

#include <cstddef>

namespace quern {

// Is a shape in quern-peers-bench's tables of products (1x1 kernels), convolutions and depthwise convolutions?
enum Listed : bool { unlisted, listed };

// Images are `size` pixels high and wide; the padding is half the kernel.
struct ConvShape {
  size_t size, in, out, kernel, stride;
  Listed in_tables = unlisted;
  // For the twenty shapes on which the models of peers/models.py spend most multiply-accumulates (a shape's shares of
  // the models, added up; test/bench/top_layers_test.cc counts again): the model whose share is the largest.
  const char* top_of = nullptr;
};
inline constexpr ConvShape conv_shapes[] = {
    // mobilenet_v1
    {224, 3, 32, 3, 2, listed},
    {112, 32, 64, 1, 1, listed},
    {56, 64, 128, 1, 1, listed},
    {56, 128, 128, 1, 1},
    {28, 128, 256, 1, 1, listed},
    {28, 256, 256, 1, 1},
    {14, 256, 512, 1, 1, listed},
    {14, 512, 512, 1, 1, listed, "mobilenet_v1"},
    {7, 512, 1024, 1, 1, listed},
    {7, 1024, 1024, 1, 1, listed},
    // mobilenet_v2
    {112, 32, 16, 1, 1},
    {112, 16, 96, 1, 1},
    {56, 96, 24, 1, 1},
    {56, 24, 144, 1, 1},
    {28, 144, 32, 1, 1},
    {28, 32, 192, 1, 1},
    {14, 192, 64, 1, 1},
    {14, 64, 384, 1, 1},
    {14, 96, 576, 1, 1},
    {14, 576, 96, 1, 1},
    {7, 576, 160, 1, 1},
    {7, 160, 960, 1, 1, unlisted, "mobilenet_v3_large"},
    {7, 960, 320, 1, 1},
    {7, 320, 1280, 1, 1},
    // mobilenet_v3_large
    {14, 112, 672, 1, 1, unlisted, "mobilenet_v3_large"},
    {7, 960, 160, 1, 1, unlisted, "mobilenet_v3_large"},
    // squeezenet_v1.1
    {227, 3, 64, 3, 2},
    {56, 64, 16, 1, 1},
    {56, 16, 64, 1, 1},
    {56, 16, 64, 3, 1, unlisted, "squeezenet_v1.1"},
    {28, 128, 32, 1, 1},
    {28, 32, 128, 1, 1},
    {28, 32, 128, 3, 1, unlisted, "squeezenet_v1.1"},
    {14, 256, 48, 1, 1},
    {14, 48, 192, 3, 1},
    {14, 64, 256, 3, 1, unlisted, "squeezenet_v1.1"},
    {14, 512, 1000, 1, 1, unlisted, "squeezenet_v1.1"},
    // shufflenet_v2
    {28, 58, 58, 1, 1, unlisted, "shufflenet_v2"},
    {14, 116, 116, 1, 1, unlisted, "shufflenet_v2"},
    {7, 232, 232, 1, 1, unlisted, "shufflenet_v2"},
    {7, 464, 1024, 1, 1, unlisted, "shufflenet_v2"},
    // resnet18, resnet50
    {224, 3, 64, 7, 2},
    {56, 64, 64, 3, 1, listed, "resnet18"},
    {56, 64, 128, 3, 2},
    {28, 128, 128, 3, 1, listed, "resnet18"},
    {14, 256, 256, 3, 1, listed, "resnet18"},
    {7, 512, 512, 3, 1, listed, "resnet18"},
    {56, 64, 128, 1, 2},
    {56, 64, 256, 1, 1},
    {56, 256, 64, 1, 1},
    {28, 512, 128, 1, 1},
    {14, 256, 1024, 1, 1},
    {14, 1024, 256, 1, 1},
    {7, 2048, 512, 1, 1},
    // vgg16
    {224, 64, 64, 3, 1, unlisted, "vgg16"},
    {112, 128, 128, 3, 1, unlisted, "vgg16"},
    {56, 256, 256, 3, 1, unlisted, "vgg16"},
    {28, 512, 512, 3, 1, unlisted, "vgg16"},
};

struct DepthwiseShape {
  size_t size, channels, kernel, stride;
  Listed in_tables = unlisted;
};
inline constexpr DepthwiseShape depthwise_shapes[] = {
    // mobilenet_v1
    {112, 32, 3, 1, listed},
    {112, 64, 3, 2, listed},
    {56, 128, 3, 1, listed},
    {56, 128, 3, 2},
    {28, 256, 3, 1, listed},
    {28, 256, 3, 2},
    {14, 512, 3, 1, listed},
    {14, 512, 3, 2},
    {7, 1024, 3, 1, listed},
    // mobilenet_v2
    {112, 96, 3, 2},
    {56, 144, 3, 1},
    {28, 192, 3, 1},
    {14, 384, 3, 1},
    {14, 576, 3, 1},
    {7, 960, 3, 1},
    // mobilenet_v3_large
    {56, 72, 5, 2},
    {28, 120, 5, 1, listed},
    {14, 672, 5, 1, listed},
    {14, 672, 5, 2},
    {7, 960, 5, 1},
};

struct MatrixShape {
  size_t rows, in, out;
  Listed in_tables = unlisted;
};
inline constexpr MatrixShape matrix_shapes[] = {
    {1, 1024, 1000, listed},    {1, 2048, 1000}, {1, 4096, 4096}, {196, 512, 512}, {3136, 64, 128}, {49, 1024, 1024},
    {1024, 1024, 1024, listed},
};

}  // namespace quern
