// Matrix products through the C interface of BLAS, for libraries that have one. The weights are transposed ahead of
// time; a BLAS lets a caller prepare nothing else.
#pragma once

#include <cblas.h>

#include "engine.h"

namespace quern::peers {

class Sgemm : public Task {
 public:
  // `set_threads` is the library's own.
  Sgemm(const Layer& layer, const float* weights, int threads, void (*set_threads)(int))
      : rows_(static_cast<int>(layer.product_rows())),
        in_(static_cast<int>(layer.in)),
        out_(static_cast<int>(layer.out)),
        threads_(threads),
        set_threads_(set_threads),
        weights_(weights) {
    if (rows_ == 1) return;
    transposed_.resize(layer.weights());
    for (size_t o = 0; o < layer.out; ++o) {
      for (size_t i = 0; i < layer.in; ++i) transposed_[i * layer.out + o] = weights[o * layer.in + i];
    }
  }
  void bind(void* input, void* output) override {
    set_threads_(threads_);
    input_ = static_cast<const float*>(input);
    output_ = static_cast<float*>(output);
  }
  void run() override {
    if (rows_ == 1) {
      cblas_sgemv(CblasRowMajor, CblasNoTrans, out_, in_, 1, weights_, in_, input_, 1, 0, output_, 1);
    } else {
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows_, out_, in_, 1, input_, in_, transposed_.data(), out_,
                  0, output_, out_);
    }
  }
  std::string implementation() const override { return rows_ == 1 ? "sgemv" : "sgemm"; }

 private:
  int rows_, in_, out_, threads_;
  void (*set_threads_)(int);
  const float* weights_;
  std::vector<float> transposed_;
  const float* input_ = nullptr;
  float* output_ = nullptr;
};

class Blas : public Engine {
 public:
  Blas(const char* name, void (*set_threads)(int)) : Engine(name), set_threads_(set_threads) {}
  std::unique_ptr<Task> prepare(const Layer& layer, const Weights& weights, size_t threads) const override {
    if (layer.type != Type::f32 || !layer.is_product()) return nullptr;
    return std::make_unique<Sgemm>(layer, static_cast<const float*>(weights.data), static_cast<int>(threads),
                                   set_threads_);
  }

 private:
  void (*set_threads_)(int);
};

}  // namespace quern::peers
