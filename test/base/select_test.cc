// Rows made for some cores, and rows above the level.
#include "kernel/select.h"

#include <gtest/gtest.h>
#if defined(__arm__)
#include <sys/auxv.h>
#endif

#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <string_view>

#include "kernel/dwconv.h"
#include "kernel/eltwise.h"
#include "kernel/gather.h"
#include "kernel/gemm.h"
#include "kernel/igemm.h"
#include "kernel/pool.h"
#include "kernel/tapgemm.h"
#include "kernel/transpose.h"
#include "kernel/unblock.h"
#include "op/conv/choose.h"
#include "op/core/machine.h"
#include "pretended.h"

namespace quern {
namespace select_test {

constexpr Row table[] = {
    {"for_a53_and_a55", KernelType::f32, {isa_ref, core_a53 | core_a55}, QN_LAYOUT_NHWC},
    {"for_all", KernelType::f32, isa_ref, QN_LAYOUT_NHWC},
};

template <class R>
bool any(const R&) {
  return true;
}

const Row* row(const char* name) { return select(std::span<const Row>(table), KernelType::f32, name, any<Row>); }

// Is `holds` true with this QUERN_ISA, or this QUERN_CORE, and no other variable?
bool with_isa(const char* isa, const std::function<bool()>& holds) {
  const Pretended machine({{"QUERN_ISA", isa}});
  return holds();
}
bool with_core(const char* core, const std::function<bool()>& holds) {
  const Pretended machine({{"QUERN_CORE", core}});
  return holds();
}

// A type is no preference: who asks for another one gets nothing, not even by name.
TEST(Select, NeverTakesARowOfAnotherType) {
  const auto of_type = [](KernelType type, const char* name) {
    return select(std::span<const Row>(table), type, name, any<Row>);
  };
  EXPECT_TRUE(with_core("other", [&] { return of_type(KernelType::f32, nullptr) == &table[1]; }));
  EXPECT_TRUE(with_core("other", [&] { return of_type(KernelType::qs8, nullptr) == nullptr; }));
  EXPECT_TRUE(with_core("a53", [&] { return of_type(KernelType::qs8, "for_all") == nullptr; }));
}

TEST(Select, NeedsAllFeaturesOfARow) {
  constexpr Row row = {"two", KernelType::qs8c, isa_avx512vnni, QN_LAYOUT_NHWC};
  EXPECT_TRUE(runs_on(row, isa_ref | isa_avx2 | isa_avx512vnni));
  EXPECT_FALSE(runs_on(row, isa_ref | isa_avx2 | isa_avx512));
  EXPECT_FALSE(runs_on(row, isa_ref | feature_vnni));
}

TEST(KernelTypes, HaveOneSpelling) {
  for (const char* name : {"f32", "f16", "bf16", "qs8", "qs8c", "qd8c", "qd8c4", "qd8b4", "qw8c", "qw4b"}) {
    const KernelType type = type_from_name(name);
    ASSERT_NE(type, KernelType::count) << name;
    EXPECT_STREQ(type_name(type), name);
  }
  EXPECT_EQ(type_from_name("f3"), KernelType::count);
  EXPECT_EQ(type_from_name(""), KernelType::count);
  EXPECT_EQ(info_of(KernelType::qd8c4).weights, Element::s4);
}

// Every kernel is called by its type.
TEST(KernelTypes, StandInTheNamesOfRows) {
  const auto named = [](const auto& rows) {
    return std::all_of(rows.begin(), rows.end(), [](const Row& row) {
      const std::string type = std::string("_") + type_name(row.type) + "_";
      return std::string(row.name).find(type) != std::string::npos;
    });
  };
  EXPECT_TRUE(named(gemm_rows()) && named(igemm_rows()) && named(tapgemm_rows()) && named(dwconv_rows()) &&
              named(dwconv_tile_rows()));
  EXPECT_TRUE(named(pool_rows()) && named(unary_rows()) && named(binary_rows()) && named(transpose_rows()));
}

// Tiles that are counted in vectors become sizes of the machine.
template <class TableRow>
size_t expect_tiles(std::span<const TableRow> rows) {
  size_t count = 0;
  for (const TableRow& row : rows) {
    if (!of_tiles(row)) continue;
    EXPECT_EQ(row.nr, tile_engine.panel_channels()) << row.name;
    EXPECT_EQ(row.mr % tile_engine.block_rows(), 0u) << row.name;
    ++count;
  }
  return count;
}

TEST(Rows, OfTilesHaveThoseOfTheEngine) {
  const size_t count = expect_tiles(gemm_rows()) + expect_tiles(tapgemm_rows());
  EXPECT_EQ(count != 0, has_tiles);
}

TEST(Rows, AreResolvedForTheLengthOfVectors) {
  struct TileRow : Row {
    size_t mr, nr;
  };
  constexpr std::array<TileRow, 2> tiles = {{{{"a", KernelType::f32, isa_ref, QN_LAYOUT_NHWC}, 6, vectors(2)},
                                             {{"b", KernelType::f16, isa_ref, QN_LAYOUT_NHWC}, vectors(1), 8}}};
  static_assert(has_vectors(tiles));
  constexpr auto on_256_bits = resolved(tiles, 32);
  static_assert(!has_vectors(on_256_bits));
  EXPECT_EQ(on_256_bits[0].mr, 6u);
  EXPECT_EQ(on_256_bits[0].nr, 16u);
  EXPECT_EQ(on_256_bits[1].mr, 16u);
  EXPECT_EQ(on_256_bits[1].nr, 8u);
}

TEST(Select, PrefersTheRowOfTheCore) {
  for (const char* core : {"a53", "a55"})
    EXPECT_TRUE(with_core(core, [] { return row(nullptr) == &table[0]; })) << core;
}

TEST(Select, NeverTakesTheRowOfAnotherCore) {
  for (const char* core : {"other", "a57", "v1"}) {
    EXPECT_TRUE(with_core(core, [] { return row(nullptr) == &table[1]; })) << core;
  }
}

TEST(Select, TakesAnyRowByItsName) {
  for (const char* core : {"a53", "a57"}) {
    EXPECT_TRUE(with_core(core, [] { return row("for_a53_and_a55") == &table[0]; })) << core;
    EXPECT_TRUE(with_core(core, [] { return row("for_all") == &table[1] && row("none") == nullptr; })) << core;
  }
}

#if QN_ARCH_ARM64
// Are these the first rows of both tables, with the tile of those for all cores? Then packed weights fit both.
bool takes(const char* gemm, const char* igemm) {
  const GemmRow &of_gemm = best(gemm_rows(), KernelType::f32),
                &generic = *select(gemm_rows(), KernelType::f32, "qn_gemm_f32_8x8_neon", any<GemmRow>);
  const IgemmRow& of_igemm = best(igemm_rows(), KernelType::f32);
  return std::string_view(of_gemm.name) == gemm && std::string_view(of_igemm.name) == igemm &&
         of_gemm.mr == generic.mr && of_gemm.nr == generic.nr && of_igemm.mr == generic.mr && of_igemm.nr == generic.nr;
}

TEST(Select, CoresInOrderHaveKernelsOfTheirOwn) {
  EXPECT_TRUE(with_core("a53", [] { return takes("qn_gemm_f32_8x8_neon_a53", "qn_igemm_f32_8x8_neon_a53"); }));
  EXPECT_TRUE(with_core("a55", [] { return takes("qn_gemm_f32_8x8_neon_a55", "qn_igemm_f32_8x8_neon_a55"); }));
  for (const char* core : {"a57", "kryo", "n1", "n2", "v1", "v2", "other"}) {
    EXPECT_TRUE(with_core(core, [] { return takes("qn_gemm_f32_8x8_neon", "qn_igemm_f32_8x8_neon"); })) << core;
  }
}

bool takes_depthwise(std::string_view tile, std::string_view plane) {
  return best(dwconv_tile_rows(), KernelType::f32).name == tile &&
         best(dwconv_plane_rows(), KernelType::f32).name == plane;
}

TEST(Select, CoresInOrderShareDepthwiseKernels) {
  const auto in_order = [] {
    return takes_depthwise("qn_dwconv_f32_k3s1_4x4_neon_inorder", "qn_dwconv_f32_plane32_k3_neon_inorder");
  };
  const auto any = [] { return takes_depthwise("qn_dwconv_f32_k3s1_4x4_neon", "qn_dwconv_f32_plane32_k3_neon"); };
  for (const char* core : {"a53", "a55"}) EXPECT_TRUE(with_core(core, in_order)) << core;
  for (const char* core : {"a57", "n1", "other"}) EXPECT_TRUE(with_core(core, any)) << core;
}
#endif

// ---- the cost model

Problem convolution() {
  Problem p;
  p.pixels = 56 * 56, p.in = 64, p.out = 64, p.height = p.width = 56;
  p.kernel = {3, 3}, p.undilated = true;
  return p;
}

Problem product() {
  Problem p;
  p.pixels = 100, p.in = 256, p.out = 128, p.matrix = p.pointwise = true;
  return p;
}

// Are all candidates for this problem made for this core, winograd's products, too?
bool only_for(Core core, const Problem& problem) {
  const Vector<Choice> list = candidates(problem, QN_ALGORITHM_AUTO, nullptr);
  return !list.empty() && std::all_of(list.begin(), list.end(), [&](const Choice& c) {
    return (c.row->cores & core) != 0 && (c.products == nullptr || (c.products->cores & core) != 0);
  });
}

// Is a kernel of equal tile, but of the core, before others?
bool first_of_all(const Problem& problem) {
  return candidates(problem, QN_ALGORITHM_IGEMM, nullptr)[0].row == &best(igemm_rows(), KernelType::f32);
}

TEST(Select, TheCostModelKeepsToTheCore) {
  for (const char* name : {"a53", "a55", "a57", "v1", "other"}) {
    Core core = core_other;
    ASSERT_TRUE(core_from_name(name, &core));
    const auto holds = [&] { return only_for(core, convolution()) && only_for(core, product()); };
    EXPECT_TRUE(with_core(name, holds)) << name;
    EXPECT_TRUE(with_core(name, [] { return first_of_all(convolution()); })) << name;
  }
}

// Is winograd the cheapest where its transforms take so many cycles?
bool takes_winograd(float transform_cycles) {
  MachineRow row = machine();
  row.transform_cycles = row.far_transform_cycles = transform_cycles;
  replace_machine(&row);
  return candidates(convolution(), QN_ALGORITHM_AUTO, nullptr)[0].algorithm == QN_ALGORITHM_WINOGRAD;
}

TEST(Select, TheMachineSaysWhatIsCheap) {
  EXPECT_TRUE(with_core("other", [] { return takes_winograd(0); }));
  EXPECT_TRUE(with_core("other", [] { return !takes_winograd(1e6f); }));
}

// ---- levels

// Does this table give nothing else than these levels, not even to who asks by name?
template <class R>
bool keeps_to(uint32_t levels, std::span<const R> rows) {
  return runs_on(best(rows, KernelType::f32), levels) && std::all_of(rows.begin(), rows.end(), [&](const R& row) {
           return (select(rows, row.type, row.name, any<R>) != nullptr) == runs_on(row, levels);
         });
}

template <class... Tables>
bool all_keep_to(uint32_t levels, const Tables&... tables) {
  return (keeps_to(levels, tables) && ...);
}

bool kernels_keep_to(uint32_t levels) {
  return all_keep_to(levels, gemm_rows(), igemm_rows(), dwconv_rows(), pool_rows(), pool_plane_rows(), unary_rows(),
                     binary_rows(), channel_rows(), reduce_rows(), spmm_rows(), transpose_rows(), gather_rows(),
                     unblock_rows(), split_rows(), winograd_rows());
}

bool candidates_keep_to(uint32_t levels, const Problem& problem) {
  const Vector<Choice> list = candidates(problem, QN_ALGORITHM_AUTO, nullptr);
  return !list.empty() && std::all_of(list.begin(), list.end(), [&](const Choice& c) {
    return runs_on(*c.row, levels) && (c.products == nullptr || runs_on(*c.products, levels));
  });
}

// What the machine has beyond the ceiling is as good as absent.
TEST(Select, NeverTakesARowAboveTheLevel) {
  for (const char* name : {"ref", "sse41", "avx2", "avxvnni", "avx512", "avx512vbmi", "avx512vnni", "amxint8", "neon",
                           "neonfma", "dotprod", "i8mm"}) {
    const uint32_t up_to_level = isa_ceiling(isa_from_name(name));
    const auto holds = [&] {
      const uint32_t levels = cpu().isa;
      return (levels & ~up_to_level) == 0 && kernels_keep_to(levels) && candidates_keep_to(levels, convolution()) &&
             candidates_keep_to(levels, product());
    };
    EXPECT_TRUE(with_isa(name, holds)) << name;
  }
}

// Winograd multiplies as gemm does, so that whether products are fused is the same in all of a model.
TEST(Select, WinogradTakesTheBestGemm) {
  for (const char* name : {"ref", "sse41", "avx2", "avx512", "neon", "neonfma"}) {
    const auto holds = [] {
      const Vector<Choice> list = candidates(convolution(), QN_ALGORITHM_WINOGRAD, nullptr);
      return std::any_of(list.begin(), list.end(),
                         [](const Choice& c) { return c.products->isa == best(gemm_rows(), KernelType::f32).isa; });
    };
    EXPECT_TRUE(with_isa(name, holds)) << name;
  }
}

#if QN_ARCH_ARM32
// What the kernel says of the machine, or of the core that an emulator plays.
TEST(Select, NeverTakesARowThatTheMachineLacks) {
  constexpr unsigned long neon = 1ul << 12, vfpv4 = 1ul << 16;
  const unsigned long features = getauxval(AT_HWCAP);
  uint32_t levels = isa_ref;
  if ((features & neon) != 0) levels |= isa_neon;
  if ((features & neon) != 0 && (features & vfpv4) != 0) levels |= isa_neonfma;
  EXPECT_TRUE(with_core("other", [&] { return cpu().isa == levels && kernels_keep_to(levels); }));
}
#endif

}  // namespace select_test
}  // namespace quern
