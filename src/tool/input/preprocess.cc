#include "tool/input/preprocess.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "convert/common/error.h"

namespace quern {
namespace {

// Reads between `least` and `most` comma-separated numbers.
template <class T>
std::vector<T> parse_list(const std::string& flag, const std::string& text, size_t most) {
  std::vector<T> values;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    T value{};
    const auto [next, error] = std::from_chars(at, end, value);
    if (error != std::errc() || (next != end && *next != ',') || values.size() == most)
      throw CLI::ValidationError(flag, fmt::format("\"{}\" is not one to {} numbers with commas between", text, most));
    if constexpr (std::is_floating_point_v<T>)
      if (!std::isfinite(value)) throw CLI::ValidationError(flag, fmt::format("\"{}\" is not finite", text));
    values.push_back(value);
    if (next == end) return values;
    at = next + 1;
  }
}

// How to mix one output pixel from the input pixels from `first` on. Weights have `fraction_bits` bits of fraction.
constexpr int fraction_bits = 22;
struct Mix {
  size_t first;
  std::vector<int32_t> weights;
};

std::vector<Mix> triangle_filter(size_t in, size_t out) {
  const double scale = static_cast<double>(in) / static_cast<double>(out);
  const double reach = std::max(scale, 1.0);
  std::vector<Mix> mixes(out);
  for (size_t i = 0; i < out; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * scale;
    const auto first = static_cast<size_t>(std::max(center - reach + 0.5, 0.0));
    const auto last = std::min(static_cast<size_t>(center + reach + 0.5), in);
    std::vector<double> weights(last - first);
    double sum = 0;
    for (size_t k = 0; k < weights.size(); ++k) {
      const double distance = (static_cast<double>(first + k) - center + 0.5) / reach;
      weights[k] = std::max(1 - std::fabs(distance), 0.0);
      sum += weights[k];
    }
    mixes[i].first = first;
    for (const double w : weights)
      mixes[i].weights.push_back(static_cast<int32_t>(w / sum * (1 << fraction_bits) + 0.5));
  }
  return mixes;
}

// One direction of an image: lines of pixels of `elements` elements each. `step` elements lie between pixels, `line_in`
// and `line_out` between lines of the input and of the output.
struct Axis {
  size_t lines, line_in, line_out, step, elements;
};

std::vector<uint8_t> resample(const std::vector<uint8_t>& in, const Axis& axis, const std::vector<Mix>& mixes) {
  std::vector<uint8_t> out(axis.lines * axis.line_out);
  for (size_t l = 0; l < axis.lines; ++l) {
    for (size_t i = 0; i < mixes.size(); ++i) {
      const uint8_t* from = &in[l * axis.line_in + mixes[i].first * axis.step];
      uint8_t* to = &out[l * axis.line_out + i * axis.step];
      for (size_t e = 0; e < axis.elements; ++e) {
        int32_t sum = 1 << (fraction_bits - 1);
        for (size_t k = 0; k < mixes[i].weights.size(); ++k) sum += mixes[i].weights[k] * from[k * axis.step + e];
        to[e] = static_cast<uint8_t>(std::min(sum >> fraction_bits, 255));
      }
    }
  }
  return out;
}

void check_scaled(double width, double height, const std::string& who) {
  if (!(width * height <= static_cast<double>(max_image_pixels)))
    throw Error(fmt::format("{}: resized to {} x {} it is larger than {} million pixels", who, width, height,
                            max_image_pixels / 1000000));
}

// The size of a picture after it is resized so that the shorter side becomes `side`; 0: it stays.
struct Size {
  double width, height;
};
Size scaled_size(size_t width, size_t height, size_t side) {
  const Size size = {static_cast<double>(width), static_cast<double>(height)};
  if (side == 0) return size;
  const double factor = static_cast<double>(side) / std::min(size.width, size.height);
  const auto scaled = [&](double length) { return std::max(1.0, std::floor(length * factor + 0.5)); };
  return {scaled(size.width), scaled(size.height)};
}

Image resize_shorter(const Image& image, size_t side, const std::string& who) {
  const Size size = scaled_size(image.width, image.height, side);
  check_scaled(size.width, size.height, who);
  return resize_image(image, static_cast<size_t>(size.width), static_cast<size_t>(size.height));
}

}  // namespace

std::optional<ImagePort> image_port(const size_t* shape, size_t rank, unsigned open) {
  const auto is_open = [open](size_t d) { return (open >> d & 1) != 0; };
  const auto fits = [&](size_t d) { return !is_open(d) && (shape[d] == 1 || shape[d] == 3); };
  const auto size = [&](size_t d) { return is_open(d) ? 0 : shape[d]; };
  if (rank != 4) return std::nullopt;
  for (const size_t channels : {size_t{1}, size_t{3}}) {
    const bool first = channels == 1;
    const size_t height = first ? 2 : 1;
    const bool empty = (!is_open(height) && shape[height] == 0) || (!is_open(height + 1) && shape[height + 1] == 0);
    if (fits(channels) && !empty) return ImagePort{shape[channels], size(height), size(height + 1), first};
  }
  return std::nullopt;
}

void add_image_flags(CLI::App& app, ImageFlags* flags) {
  constexpr const char* group = "Images";
  app.add_option_function<std::string>(
         "--mean", [flags](const std::string& s) { flags->mean = parse_list<float>("--mean", s, 3); },
         "Subtracted from pixels 0..255, per channel in the model's order or one for all")
      ->type_name("M[,M,M]")
      ->group(group);
  app.add_option_function<std::string>(
         "--scale", [flags](const std::string& s) { flags->scale = parse_list<float>("--scale", s, 3); },
         "Multiplies what is left")
      ->type_name("S[,S,S]")
      ->group(group);
  auto* bgr = app.add_flag_callback(
      "--bgr", [flags] { flags->bgr = true; }, "The model takes blue first");
  auto* rgb = app.add_flag_callback(
      "--rgb", [flags] { flags->bgr = false; }, "The model takes red first (the default)");
  bgr->group(group)->excludes(rgb);
  rgb->group(group);
  app.add_option_function<uint32_t>(
         "--resize", [flags](uint32_t n) { flags->resize = n; },
         "Bring the shorter side to N pixels first; 0: leave it")
      ->check(CLI::Range(0, 1000000).description(""))
      ->type_name("N")
      ->group(group);
  app.add_option_function<std::string>(
         "--crop", [flags](const std::string& s) { flags->crop = parse_list<uint32_t>("--crop", s, 2); },
         "Then cut out the centre N x N, and of that the centre M x M; 0: do not. What still differs from the model's "
         "input is resized to it")
      ->type_name("N[,M]")
      ->group(group);
}

qn_preprocessing ImageFlags::over(const qn_preprocessing& model, size_t channels) const {
  qn_preprocessing how = model;
  if (!model.present) how = {model.struct_size, 1, 0, {0, 0, 0, 0}, {1, 1, 1, 1}, 0, {0, 0}};
  const auto spread = [&](const std::vector<float>& values, float* to, const char* flag) {
    if (values.empty()) return;
    if (values.size() != 1 && values.size() != channels)
      throw Error(fmt::format("{} has {} values, the input {} channels", flag, values.size(), channels));
    for (size_t c = 0; c < channels; ++c) to[c] = values[values.size() == 1 ? 0 : c];
  };
  spread(mean, how.mean, "--mean");
  spread(scale, how.scale, "--scale");
  if (bgr) how.bgr = *bgr;
  if (resize) how.resize = *resize;
  if (!crop.empty())
    for (size_t i = 0; i < 2; ++i) how.crop[i] = i < crop.size() ? crop[i] : 0;
  return how;
}

Image resize_image(const Image& image, size_t width, size_t height) {
  const size_t c = image.channels;
  if (width == image.width && height == image.height) return image;
  if (width != image.width) {
    const Axis across = {image.height, image.width * c, width * c, c, c};
    const Image wide = {width, image.height, c, resample(image.pixels, across, triangle_filter(image.width, width))};
    return resize_image(wide, width, height);
  }
  // Down the columns, a whole row of elements is one pixel of the axis.
  const Axis down = {1, 0, height * width * c, width * c, width * c};
  return {width, height, c, resample(image.pixels, down, triangle_filter(image.height, height))};
}

Image crop_image(const Image& image, size_t side, const std::string& who) {
  if (side > image.width || side > image.height)
    throw Error(fmt::format("{}: {} x {} pixels are too few to cut out {} x {}; see --resize", who, image.width,
                            image.height, side, side));
  Image out = {side, side, image.channels, {}};
  const size_t x0 = (image.width - side) / 2, y0 = (image.height - side) / 2;
  for (size_t y = 0; y < side; ++y) {
    const auto from =
        image.pixels.begin() + static_cast<std::ptrdiff_t>(((y0 + y) * image.width + x0) * image.channels);
    out.pixels.insert(out.pixels.end(), from, from + static_cast<std::ptrdiff_t>(side * image.channels));
  }
  return out;
}

Frame seen_frame(size_t width, size_t height, const qn_preprocessing& how) {
  const Size all = scaled_size(width, height, how.resize);
  Frame seen = {0, 0, all.width, all.height};
  for (const uint32_t side : how.crop) {
    if (side == 0) continue;
    seen = {seen.left + std::floor((seen.width - side) / 2), seen.top + std::floor((seen.height - side) / 2),
            static_cast<double>(side), static_cast<double>(side)};
  }
  const double across = static_cast<double>(width) / all.width, down = static_cast<double>(height) / all.height;
  return {seen.left * across, seen.top * down, seen.width * across, seen.height * down};
}

Image fit_image(Image image, const qn_preprocessing& how, const ImagePort& port, const std::string& who) {
  Image picture = resize_shorter(with_channels(std::move(image), port.channels), how.resize, who);
  for (const uint32_t side : how.crop)
    if (side != 0) picture = crop_image(picture, side, who);
  const size_t width = port.width == 0 ? picture.width : port.width;
  const size_t height = port.height == 0 ? picture.height : port.height;
  if (picture.width == width && picture.height == height) return picture;
  check_scaled(static_cast<double>(width), static_cast<double>(height), who);
  check_scaled(static_cast<double>(width), static_cast<double>(picture.height), who);  // across comes first
  return resize_image(picture, width, height);
}

// Orders the channels of an image that fits, and computes (x - mean) * scale.
static std::vector<float> numbers_of(const Image& picture, const qn_preprocessing& how, const ImagePort& port) {
  const size_t count = picture.width * picture.height, channels = port.channels;
  std::vector<float> out(count * channels);
  for (size_t c = 0; c < channels; ++c) {
    const size_t from = how.bgr ? channels - 1 - c : c;
    float* to = port.channels_first ? &out[c * count] : &out[c];
    const size_t step = port.channels_first ? 1 : channels;
    for (size_t i = 0; i < count; ++i)
      to[i * step] = (static_cast<float>(picture.pixels[i * channels + from]) - how.mean[c]) * how.scale[c];
  }
  return out;
}

std::vector<float> image_tensor(Image image, const qn_preprocessing& how, const ImagePort& port,
                                const std::string& who) {
  return numbers_of(fit_image(std::move(image), how, port, who), how, port);
}

// Returns numbers as elements of the tensor: bytes as its scale and zero point say. Pixels without preprocessing are
// bytes already, and those of s8 are 128 less.
static std::vector<unsigned char> elements_of(const std::vector<float>& values, const qn_tensor& tensor, bool pixels) {
  if (tensor.type != QN_U8 && tensor.type != QN_S8) return floats_as(values, tensor.type);
  const float low = tensor.type == QN_S8 ? -128 : 0;
  const qn_quantization& q = tensor.quantization;
  std::vector<unsigned char> bytes;
  for (const float x : values) {
    const float element =
        pixels || q.scale == 0 ? x + low : std::nearbyint(x / q.scale) + static_cast<float>(q.zero_point);
    bytes.push_back(static_cast<unsigned char>(static_cast<int>(std::clamp(element, low, low + 255))));
  }
  return bytes;
}

InputData image_input(Image image, const std::string& who, const qn_port& port, unsigned open,
                      const qn_preprocessing& model, const ImageFlags& flags) {
  const auto wanted = image_port(port.tensor.shape, port.tensor.rank, open);
  if (!wanted)
    throw Error(fmt::format("input \"{}\" of shape {} takes no images", port.name,
                            shape_text(port.tensor.shape, port.tensor.rank)));
  const qn_preprocessing how = flags.over(model, wanted->channels);
  const Image picture = fit_image(std::move(image), how, *wanted, who);
  InputData data = {port.tensor, {}};
  const size_t height = wanted->channels_first ? 2 : 1;
  data.tensor.shape[0] = 1;
  data.tensor.shape[height] = picture.height;
  data.tensor.shape[height + 1] = picture.width;
  const qn_quantization quantization = data.tensor.quantization;
  check(qn_tensor_init(&data.tensor, data.tensor.type, data.tensor.rank, data.tensor.shape));
  data.tensor.quantization = quantization;
  const bool pixels = !model.present && flags.mean.empty() && flags.scale.empty();
  data.bytes = elements_of(numbers_of(picture, how, *wanted), data.tensor, pixels);
  return data;
}

}  // namespace quern
