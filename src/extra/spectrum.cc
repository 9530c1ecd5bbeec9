// Fourier transforms, of signals and of their frames; the weights of mel spectra.
#include <cmath>
#include <limits>
#include <numbers>

#include "extra/node.h"

namespace quern::extra {
namespace spectra {
namespace {

struct Complex {
  float re, im;

  Complex operator+(const Complex& o) const { return {re + o.re, im + o.im}; }
  Complex operator-(const Complex& o) const { return {re - o.re, im - o.im}; }
  Complex operator*(const Complex& o) const { return {re * o.re - im * o.im, re * o.im + im * o.re}; }
};

// ---- one transform ------------------------------------------------------------------------------

// The sums over x[n] * e^(-2 pi i k n / size), or with the other sign if `inverse`, by Cooley and Tukey's algorithm: a
// transform of p * m numbers is m transforms of p numbers each, and then p of m.
class Fourier {
 public:
  Fourier(size_t size, bool inverse) : size_(size), roots_(size), parts_(size), rest_(size) {
    const double turn = (inverse ? 2 : -2) * std::numbers::pi / static_cast<double>(size);
    for (size_t i = 0; i < size; ++i) {
      pace_.did(32);
      const double angle = turn * static_cast<double>(i);
      roots_[i] = {static_cast<float>(std::cos(angle)), static_cast<float>(std::sin(angle))};
    }
  }

  // Overwrites x.
  void operator()(Complex* x, Complex* y) { transform(x, size_, y, 1); }

 private:
  static size_t least_factor(size_t n) {
    for (size_t p = 2; p * p <= n; ++p) {
      if (n % p == 0) return p;
    }
    return n;
  }

  // Transforms n numbers, and writes them to y[0], y[stride], ... `stride` times n is the size of the whole.
  void transform(Complex* x, size_t n, Complex* y, size_t stride) {
    if (n == 1) {
      *y = *x;
      return;
    }
    const size_t p = least_factor(n), m = n / p;
    for (size_t k = 0; k < m; ++k) {
      pace_.did(p);
      for (size_t r = 0; r < p; ++r) parts_[r] = x[k + r * m];
      transform_prime(p);
      for (size_t q = 0; q < p; ++q) x[k + q * m] = q * k == 0 ? parts_[q] : parts_[q] * roots_[q * k * stride];
    }
    for (size_t q = 0; q < p; ++q) transform(x + q * m, m, y + q * stride, p * stride);
  }

  // Transforms a prime number p of parts_. Results q and p - q have cosines in common, and sines but for their sign.
  void transform_prime(size_t p) {
    const Complex first = parts_[0];
    if (p == 2) {
      parts_[0] = first + parts_[1];
      parts_[1] = first - parts_[1];
      return;
    }
    const size_t half = p / 2;
    std::copy_n(parts_.begin(), p, rest_.begin());
    for (size_t j = 1; j <= half; ++j) {
      parts_[0] = parts_[0] + (rest_[j] + rest_[p - j]);
    }
    for (size_t q = 1; q <= half; ++q) {
      pace_.did(4 * half);
      Complex even = first, odd = {0, 0};
      for (size_t j = 1; j <= half; ++j) {
        const Complex root = roots_[j * q % p * (size_ / p)];
        const Complex sum = rest_[j] + rest_[p - j], difference = rest_[j] - rest_[p - j];
        even = even + Complex{root.re * sum.re, root.re * sum.im};
        odd = odd + Complex{-(root.im * difference.im), root.im * difference.re};
      }
      parts_[q] = even + odd;
      parts_[p - q] = even - odd;
    }
  }

  const size_t size_;
  std::vector<Complex> roots_, parts_, rest_;
  Pace pace_;
};

// Numbers as real and imaginary parts, or as real parts alone.
Complex number_at(const float* x, size_t index, size_t parts) {
  return parts == 2 ? Complex{x[2 * index], x[2 * index + 1]} : Complex{x[index], 0};
}

// Makes the spectrum of real numbers as symmetric as it is but for rounding.
void make_symmetric(std::vector<Complex>& spectrum) {
  const size_t n = spectrum.size();
  spectrum[0].im = 0;
  for (size_t k = 1; k <= n / 2; ++k) {
    if (2 * k == n) spectrum[k].im = 0;
    spectrum[n - k] = {spectrum[k].re, -spectrum[k].im};
  }
}

// The only number of an input that must be positive.
size_t positive(const Node& node, size_t input, const char* what) {
  const std::vector<int64_t> values = node.values(input);
  if (values.size() != 1) node.fail(std::string(what) + " is not one number");
  if (values[0] < 1 || values[0] > std::numeric_limits<int32_t>::max())
    node.fail(std::string(what) + " is out of range");
  return static_cast<size_t>(values[0]);
}

size_t parts_of(const Node& node) {
  node.expect(0, QN_F32);
  const Shape shape = node.shape(0);
  if (shape.size() < 2 || (shape.back() != 1 && shape.back() != 2)) {
    node.fail("the last dimension does not have one or two parts of a number");
  }
  if (shape.back() == 2 && node.integer("onesided", 0) != 0) node.fail("complex numbers have no onesided spectrum");
  return shape.back();
}

size_t bins_of(const Node& node, size_t length) { return node.integer("onesided", 0) != 0 ? length / 2 + 1 : length; }

// ---- signals ------------------------------------------------------------------------------------

// Inputs: signals [..., parts], optionally the length of the transform, and an axis. The axis may also be a parameter.
struct Transform {
  size_t axis, length, bins, parts;
};

Transform transform_of(const Node& node) {
  Transform t = {};
  t.parts = parts_of(node);
  int64_t axis = node.integer("axis", -2);
  if (node.has(2)) {
    const std::vector<int64_t> values = node.values(2);
    if (values.size() != 1) node.fail("the axis is not one number");
    axis = values[0];
  }
  t.axis = node.axis(axis, node.rank(0));
  if (t.axis + 1 == node.rank(0)) node.fail("the axis is that of the parts of numbers");
  t.length = node.has(1) ? positive(node, 1, "the length") : node.shape(0)[t.axis];
  if (t.length == 0) node.fail("the signal is empty");
  t.bins = bins_of(node, t.length);
  return t;
}

void infer_dft(Inference& node) {
  const Transform t = transform_of(node);
  Shape shape = node.shape(0);
  shape[t.axis] = t.bins;
  shape.back() = 2;
  node.set(0, QN_F32, shape);
}

void run_dft(const Run& node) {
  const Transform t = transform_of(node);
  if (count(node.output_shape(0)) == 0) return;
  const Shape shape = node.shape(0);
  const size_t size = shape[t.axis], n = std::min(size, t.length);
  const size_t outer = count(shape.part(0, t.axis)), inner = count(shape.part(t.axis + 1, shape.size() - 1));
  const bool inverse = node.integer("inverse", 0) != 0;
  const float factor = inverse ? 1 / static_cast<float>(t.length) : 1;
  const float* const x = node.data<float>(0);
  float* const y = node.output<float>(0);
  Fourier fourier(t.length, inverse);
  std::vector<Complex> signal(t.length), spectrum(t.length);
  for (size_t o = 0; o < outer; ++o) {
    for (size_t i = 0; i < inner; ++i) {
      std::fill(signal.begin(), signal.end(), Complex{0, 0});
      for (size_t k = 0; k < n; ++k) signal[k] = number_at(x, (o * size + k) * inner + i, t.parts);
      fourier(signal.data(), spectrum.data());
      if (t.parts == 1) make_symmetric(spectrum);
      for (size_t k = 0; k < t.bins; ++k) {
        float* const to = y + 2 * ((o * t.bins + k) * inner + i);
        to[0] = spectrum[k].re * factor;
        to[1] = spectrum[k].im * factor;
      }
    }
  }
}

// ---- frames of signals --------------------------------------------------------------------------

// Inputs: signals [N, length, parts], the step from frame to frame, optionally a window, and the length of frames.
// Output: [N, frames, bins, 2].
struct Frames {
  size_t step, length, count, bins, parts;
};

Frames frames_of(const Node& node) {
  Frames f = {};
  f.parts = parts_of(node);
  if (node.rank(0) != 3) node.fail("the signals do not have three dimensions");
  const size_t size = node.shape(0)[1];
  if (node.has(2)) {
    node.expect(2, QN_F32);
    if (node.rank(2) != 1) node.fail("expected a 1-D window, got rank " + std::to_string(node.rank(2)));
  }
  f.step = positive(node, 1, "the step");
  f.length = node.has(3) ? positive(node, 3, "the length of frames") : node.has(2) ? node.shape(2)[0] : size;
  if (f.length == 0 || f.length > size) node.fail("frames are empty, or longer than the signal");
  if (node.has(2) && node.shape(2)[0] > f.length) node.fail("the window is longer than the frames");
  f.count = (size - f.length) / f.step + 1;
  f.bins = bins_of(node, f.length);
  return f;
}

void infer_stft(Inference& node) {
  const Frames f = frames_of(node);
  node.set(0, QN_F32, {node.shape(0)[0], f.count, f.bins, 2});
}

void run_stft(const Run& node) {
  const Frames f = frames_of(node);
  if (count(node.output_shape(0)) == 0) return;
  const size_t size = node.shape(0)[1], window_size = node.has(2) ? node.shape(2)[0] : f.length;
  const float* const window = node.has(2) ? node.data<float>(2) : nullptr;
  const float* x = node.data<float>(0);
  float* y = node.output<float>(0);
  Fourier fourier(f.length, false);
  std::vector<Complex> frame(f.length), spectrum(f.length);
  for (size_t item = 0; item < node.shape(0)[0]; ++item, x += size * f.parts) {
    for (size_t i = 0; i < f.count; ++i) {
      std::fill(frame.begin(), frame.end(), Complex{0, 0});
      for (size_t k = 0; k < window_size; ++k) {
        const Complex number = number_at(x, i * f.step + k, f.parts);
        const float weight = window == nullptr ? 1 : window[k];
        frame[k] = {number.re * weight, number.im * weight};
      }
      fourier(frame.data(), spectrum.data());
      if (f.parts == 1) make_symmetric(spectrum);
      for (size_t k = 0; k < f.bins; ++k, y += 2) {
        y[0] = spectrum[k].re;
        y[1] = spectrum[k].im;
      }
    }
  }
}

// ---- mel spectra --------------------------------------------------------------------------------

// Inputs: number of bands, length of the transform, samples per second, lowest and highest frequency. Output [bins,
// bands]: triangles, each from the centre of one band to that of the next but one, equally spaced in mel.
void infer_mel_weights(Inference& node) {
  const size_t bands = positive(node, 0, "the number of bands"), length = positive(node, 1, "the length");
  node.set(0, QN_F32, {length / 2 + 1, bands});
}

float only_number(const Node& node, size_t input) {
  node.expect(input, QN_F32);
  if (count(node.shape(input)) != 1) node.fail("input " + std::to_string(input) + " is not one number");
  return *node.data<float>(input);
}

// The bins at which the triangles begin, peak and end.
std::vector<size_t> mel_edges(const Node& node, size_t bands, size_t length, size_t bins) {
  const auto rate = static_cast<double>(positive(node, 2, "the sample rate"));
  const auto mel = [](float hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const float low = mel(only_number(node, 3)), high = mel(only_number(node, 4));
  const float step = (high - low) / static_cast<float>(bands + 2);
  std::vector<size_t> edges;
  for (size_t i = 0; i < bands + 2; ++i) {
    const double hertz = 700 * (std::pow(10.0, (static_cast<double>(i) * double{step} + double{low}) / 2595) - 1);
    const double bin = std::floor(static_cast<double>(length + 1) * hertz / rate);
    if (!(bin >= 0 && bin < static_cast<double>(bins))) node.fail("a frequency lies outside of the spectrum");
    edges.push_back(static_cast<size_t>(bin));
    if (i > 0 && edges[i] < edges[i - 1]) node.fail("the highest frequency is below the lowest");
  }
  return edges;
}

void run_mel_weights(const Run& node) {
  const Shape shape = node.output_shape(0);
  const size_t bins = shape[0], bands = shape[1];
  const std::vector<size_t> edges = mel_edges(node, bands, positive(node, 1, "the length"), bins);
  float* const y = node.output<float>(0);
  std::fill_n(y, bins * bands, 0.0f);
  const auto ratio = [](size_t part, size_t whole) { return static_cast<float>(part) / static_cast<float>(whole); };
  for (size_t band = 0; band < bands; ++band) {
    const size_t begin = edges[band], peak = edges[band + 1], end = edges[band + 2];
    for (size_t i = begin; i < peak; ++i) y[i * bands + band] = ratio(i - begin, peak - begin);
    y[peak * bands + band] = 1;
    for (size_t i = peak; i < end; ++i) y[i * bands + band] = ratio(end - i, end - peak);
  }
}

constexpr qn_kind spectrum_table[] = {
    kind<infer_dft, run_dft>("dft", {1, 3}, 1, 0, 1u << 1 | 1u << 2),
    kind<infer_stft, run_stft>("stft", {2, 4}, 1, 0, 1u << 1 | 1u << 3),
    kind<infer_mel_weights, run_mel_weights>("mel_weights", {5, 5}, 1, 0, 1u << 0 | 1u << 1),
};

}  // namespace
}  // namespace spectra

Kinds spectrum_kinds() { return needed<spectra::spectrum_table>(); }

}  // namespace quern::extra
