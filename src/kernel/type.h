// The numeric type of a kernel: the elements of its activations, weights and results.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/needs.h"

namespace quern {

// The types of elements in memory.
enum class Element : uint8_t { f32, f16, bf16, s32, s8, s4 };

constexpr size_t bits_of(Element element) {
  switch (element) {
    case Element::f32:
    case Element::s32: return 32;
    case Element::f16:
    case Element::bf16: return 16;
    case Element::s8: return 8;
    case Element::s4: return 4;
  }
  return 0;
}
constexpr size_t bytes_of(Element element) { return bits_of(element) / 8; }  // 0 for less than a byte

// Which weights share a scale; `none` if the weights are not quantized.
enum class Scales : uint8_t { none, tensor, channel, block };

enum class KernelType : uint8_t {
#define QN_KERNEL_TYPE(name, activations, weights, output, scales) name,
#include "kernel/type.inc"
  count
};

struct KernelTypeInfo {
  char name[6];  // not a pointer, which the loader would have to relocate
  Element activations, weights, output;
  Scales scales;
};

inline constexpr KernelTypeInfo kernel_types[] = {
#define QN_KERNEL_TYPE(name, activations, weights, output, scales) \
  {#name, Element::activations, Element::weights, Element::output, Scales::scales},
#include "kernel/type.inc"
};

constexpr const KernelTypeInfo& info_of(KernelType type) { return kernel_types[static_cast<size_t>(type)]; }
// Bytes of the sums of products: half precision sums up in half precision, all other types in 32 bits.
constexpr size_t bytes_of_sum(KernelType type) { return type == KernelType::f16 ? 2 : 4; }
// Do operators of this type quantize their activations, which they get as floats, row by row?
constexpr bool quantizes_rows(KernelType type) {
  return info_of(type).activations == Element::s8 && info_of(type).output == Element::f32;
}
// Do kernels of this type turn sums of products with quantized weights into floats (dequantize.h)?
constexpr bool dequantizes(KernelType type) {
  return info_of(type).scales != Scales::none && info_of(type).output == Element::f32;
}
// Do weights of this type have a scale for each block?
constexpr bool has_block_scales(KernelType type) { return has_scaled_blocks && info_of(type).scales == Scales::block; }
constexpr const char* type_name(KernelType type) { return info_of(type).name; }
// Returns KernelType::count for an unknown name.
constexpr KernelType type_from_name(std::string_view name) {
  size_t i = 0;
  while (i < static_cast<size_t>(KernelType::count) && name != kernel_types[i].name) ++i;
  return static_cast<KernelType>(i);
}

}  // namespace quern
