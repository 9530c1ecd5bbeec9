// Compares the emulator of AMX with a model of the instructions, and the model with a CPU that has AMX. Random programs
// must write the same memory, bit for bit, or raise the same fault.
#include "amx_emulator.h"

#include <gtest/gtest.h>

#include "checker.h"

#if QN_ARCH_X86_64 && defined(__linux__)
#include <cpuid.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <csignal>
#include <thread>

namespace quern::check {
namespace amx_emulator_test {

// Linux supports tiles if XCR0 has their bits.
bool has_tiles() {
  constexpr int get_supported = 0x1021, tiles = 18;
  uint64_t components = 0;
  return syscall(SYS_arch_prctl, get_supported, &components) == 0 && (components >> tiles & 1) != 0;
}

bool cpu_has_amx() {
  constexpr uint32_t bf16 = 1u << 22, tile = 1u << 24, int8 = 1u << 25;
  uint32_t eax, ebx, ecx, edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0 || (~edx & (bf16 | tile | int8)) != 0) return false;
  return has_tiles();
}

// The memory of programs, then their code. Within 31 bits, because an address without base register has no more.
constexpr size_t memory_bytes = 16 << 10, code_bytes = 16 << 10, config_bytes = 64;
constexpr size_t configs = memory_bytes - 4 * config_bytes;  // tiles are stored below
uint8_t* memory() {
  static void* const at =
      mmap(nullptr, memory_bytes + code_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
  EXPECT_NE(at, MAP_FAILED);
  return static_cast<uint8_t*>(at);
}
uint8_t* code() { return memory() + memory_bytes; }

// reload stores the configuration to the red zone and loads it from there, which clears the tiles.
enum Operation {
  ldtilecfg,
  sttilecfg,
  tilerelease,
  tilezero,
  tileloadd,
  tileloaddt1,
  tilestored,
  tdpbssd,
  tdpbsud,
  tdpbusd,
  tdpbuud,
  tdpbf16ps,
  reload
};

struct Step {
  Operation operation;
  size_t c = 0, a = 0, b = 0;     // tiles
  uint64_t base = 0, stride = 0;  // of rows in memory, which are bytes from memory() on
};

// ---- The model -----------------------------------------------------------------------------------------------------

float flushed(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x; }

// The first NaN among the operands is the result, quiet. The NaN of an invalid operation is negative.
float first_nan(float a, float b, float c, float result) {
  for (const float x : {a, b, c}) {
    if (std::isnan(x)) return std::bit_cast<float>(std::bit_cast<uint32_t>(x) | 0x400000);
  }
  return std::isnan(result) ? std::bit_cast<float>(0xffc00000) : result;
}

class Model {
 public:
  std::vector<uint8_t> memory;

  explicit Model(std::vector<uint8_t> initial) : memory(std::move(initial)) {}

  // Executes a step. Returns the signal that it raises, or 0.
  int run(const Step& s) {
    switch (s.operation) {
      case ldtilecfg: return load_config(&memory[s.base]);
      case reload: return load_config(std::vector<uint8_t>(config_, config_ + config_bytes).data());
      case sttilecfg: std::memcpy(&memory[s.base], config_, config_bytes); return 0;
      case tilerelease: return load_config(std::vector<uint8_t>(config_bytes).data());
      case tilezero: return zero(s);
      case tileloadd:
      case tileloaddt1:
      case tilestored: return move_tile(s);
      default: return multiply(s);
    }
  }

 private:
  size_t rows(size_t t) const { return config_[48 + t]; }
  size_t columns(size_t t) const { return config_[16 + 2 * t] + config_[17 + 2 * t] * size_t{256}; }

  int load_config(const uint8_t* from) {
    std::memset(tile_, 0, sizeof tile_);
    std::memset(config_, 0, sizeof config_);
    if (from[0] == 0) return 0;
    std::memcpy(config_, from, config_bytes);
    bool valid = config_[0] == 1;
    for (size_t i = 2; i < 16; ++i) valid &= config_[i] == 0;
    for (size_t t = 0; t < 8; ++t) {
      valid &= rows(t) <= 16 && columns(t) <= 64 && (rows(t) == 0) == (columns(t) == 0);
      valid &= rows(8 + t) == 0 && columns(8 + t) == 0;
    }
    return valid ? 0 : SIGSEGV;
  }

  int zero(const Step& s) {
    if (rows(s.c) == 0) return SIGILL;
    std::memset(tile_[s.c], 0, sizeof tile_[s.c]);
    config_[1] = 0;
    return 0;
  }

  int move_tile(const Step& s) {
    if (config_[1] >= rows(s.c) || columns(s.c) % 4 != 0) return SIGILL;
    for (size_t r = config_[1]; r < rows(s.c); ++r) {
      for (size_t i = 0; i < columns(s.c); ++i) {
        uint8_t& there = memory[s.base + r * s.stride + i];
        s.operation == tilestored ? there = tile_[s.c][r][i] : tile_[s.c][r][i] = there;
      }
    }
    config_[1] = 0;
    return 0;
  }

  int multiply(const Step& s) {
    if (rows(s.c) == 0 || rows(s.a) == 0 || rows(s.b) == 0 || s.c == s.a || s.c == s.b || s.a == s.b) return SIGILL;
    if (columns(s.c) % 4 != 0 || rows(s.a) != rows(s.c) || columns(s.b) != columns(s.c)) return SIGILL;
    if (columns(s.a) != rows(s.b) * 4) return SIGILL;
    const Flushing flushing(true);
    for (size_t m = 0; m < rows(s.c); ++m) {
      for (size_t n = 0; n < columns(s.c); n += 4) {
        s.operation == tdpbf16ps ? add_floats(s, m, n) : add_integers(s, m, n);
      }
    }
    config_[1] = 0;
    return 0;
  }

  void add_integers(const Step& s, size_t m, size_t n) {
    const bool a_signed = s.operation == tdpbssd || s.operation == tdpbsud;
    const bool b_signed = s.operation == tdpbssd || s.operation == tdpbusd;
    int64_t sum = 0;
    for (size_t k = 0; k < columns(s.a); ++k) {
      const uint8_t a = tile_[s.a][m][k], b = tile_[s.b][k / 4][n + k % 4];
      sum += (a_signed ? static_cast<int8_t>(a) : a) * (b_signed ? static_cast<int8_t>(b) : b);
    }
    int32_t c;
    std::memcpy(&c, &tile_[s.c][m][n], 4);
    c = static_cast<int32_t>(c + sum);
    std::memcpy(&tile_[s.c][m][n], &c, 4);
  }

  static float bf16(const uint8_t* from) {
    const uint8_t bytes[] = {0, 0, from[0], from[1]};
    float value;
    std::memcpy(&value, bytes, 4);
    return value;
  }

  static float sum_of(float a, float b) { return first_nan(a, b, 0, flushed(flushed(a) + flushed(b))); }

  void add_floats(const Step& s, size_t m, size_t n) {
    float chain[2] = {};
    for (size_t k = 0; k < columns(s.a); k += 2) {
      float& sum = chain[k / 2 % 2];
      const float a = bf16(&tile_[s.a][m][k]), b = bf16(&tile_[s.b][k / 4][n + k % 4]);
      sum = first_nan(a, b, sum, std::fma(a, b, sum));
    }
    float c;
    std::memcpy(&c, &tile_[s.c][m][n], 4);
    c = sum_of(c, sum_of(chain[0], chain[1]));
    std::memcpy(&tile_[s.c][m][n], &c, 4);
  }

  uint8_t config_[config_bytes] = {};
  uint8_t tile_[8][16][64] = {};
};

// ---- Programs ------------------------------------------------------------------------------------------------------

// Encodes steps, with random registers and forms of addresses.
class Assembler {
 public:
  std::vector<uint8_t> bytes;
  std::vector<size_t> begins;  // of the AMX instructions

  explicit Assembler(Random& random) : random_(random) {
    append({0x53, 0x55, 0x41, 0x54, 0x41, 0x55, 0x41, 0x56, 0x41, 0x57});  // push rbx, rbp, r12 to r15
  }

  void end() { append({0x41, 0x5f, 0x41, 0x5e, 0x41, 0x5d, 0x41, 0x5c, 0x5d, 0x5b, 0xc3}); }

  void add(const Step& s) {
    const uint64_t at = reinterpret_cast<uint64_t>(memory()) + s.base;
    switch (s.operation) {
      case ldtilecfg: return config_operand(0, at);
      case sttilecfg: return config_operand(1, at);
      case tilerelease: return registers(0x49, 0, {});
      case tilezero: return registers(0x49, 3, s);
      case tileloadd: return sib(0x4b, 3, s.c, at, s.stride);
      case tileloaddt1: return sib(0x4b, 1, s.c, at, s.stride);
      case tilestored: return sib(0x4b, 2, s.c, at, s.stride);
      case tdpbssd: return registers(0x5e, 3, s);
      case tdpbsud: return registers(0x5e, 2, s);
      case tdpbusd: return registers(0x5e, 1, s);
      case tdpbuud: return registers(0x5e, 0, s);
      case tdpbf16ps: return registers(0x5c, 2, s);
      case reload:
        for (const unsigned prefix : {1, 0}) {
          vex(0x49, prefix, 0, 0, 0);
          append({0x44, 0x24, 0xc0});  // [rsp - 64]
        }
    }
  }

 private:
  void append(std::initializer_list<uint64_t> list) {
    for (const uint64_t byte : list) bytes.push_back(static_cast<uint8_t>(byte));
  }
  void append32(uint64_t value) { append({value, value >> 8, value >> 16, value >> 24}); }

  // VEX holds the upper bits of registers inverted.
  void vex(unsigned opcode, unsigned prefix, size_t index, size_t base, size_t vvvv) {
    begins.push_back(bytes.size());
    append({0xc4, 0xe2 ^ (index >> 3 << 6) ^ (base >> 3 << 5), (~vvvv & 15) << 3 | prefix, opcode});
  }

  void registers(unsigned opcode, unsigned prefix, const Step& s) {
    vex(opcode, prefix, 0, 0, s.b);
    append({0xc0 | s.c << 3 | s.a});
  }

  void load_register(size_t reg, uint64_t value) {
    append({0x48 | reg >> 3, 0xb8 | (reg & 7)});
    append32(value);
    append32(value >> 32);
  }

  // `other_form`: lower bits that would encode another form of address.
  size_t any_register(size_t other, size_t other_form = 16) {
    constexpr size_t rsp = 4;
    for (;;) {
      const size_t reg = random_.below(16);
      if (reg != rsp && reg != other && (reg & 7) != other_form) return reg;
    }
  }

  uint64_t any_displacement(size_t mod) {
    return mod == 0 ? 0 : mod == 1 ? random_.below(256) - 128 : random_.below(1 << 20) - (1 << 19);
  }

  void append_displacement(size_t mod, uint64_t displacement) {
    if (mod == 1) append({displacement});
    if (mod == 2) append32(displacement);
  }

  // base + displacement = at, index << scale = stride. Bits of the index that the shift drops are random.
  void sib(unsigned opcode, unsigned prefix, size_t reg, uint64_t at, uint64_t stride) {
    constexpr size_t none = 4, no_base = 5;
    size_t mod = random_.below(3), index = none, scale = 0;
    const bool has_base = at > INT32_MAX || random_.below(4) != 0;
    const uint64_t displacement = has_base ? any_displacement(mod) : at;
    if (stride != 0 || random_.below(2) == 0) {
      index = any_register(none);
      for (scale = random_.below(4); stride % (1u << scale) != 0;) --scale;
      load_register(index, (stride >> scale) ^ (scale == 0 ? 0 : random_.next() << (64 - scale)));
    }
    const size_t base = has_base ? any_register(index, mod == 0 ? no_base : 16) : no_base;
    if (has_base) load_register(base, at - displacement);
    vex(opcode, prefix, index, base, 0);
    append({(has_base ? mod << 6 : 0) | reg << 3 | 4, scale << 6 | (index & 7) << 3 | (base & 7)});
    append_displacement(has_base ? mod : 2, displacement);
  }

  void config_operand(unsigned prefix, uint64_t at) {
    constexpr size_t relative = 5, form_with_sib = 4;
    const size_t form = random_.below(5), mod = form % 3;
    if (form >= 3 || at > INT32_MAX) {
      const uint64_t index = random_.below(4096) * 8;
      return sib(0x49, prefix, 0, at - index, index);
    }
    const size_t base = mod == 0 ? relative : any_register(16, form_with_sib);
    const uint64_t displacement = any_displacement(mod);
    if (mod != 0) load_register(base, at - displacement);
    vex(0x49, prefix, 0, base, 0);
    append({mod << 6 | (base & 7)});
    if (mod == 0) return append32(at - reinterpret_cast<uint64_t>(code() + bytes.size() + 4));
    append_displacement(mod, displacement);
  }

  Random& random_;
};

// Draws four int8, two bf16 or an f32. Sorts: 0 any bits, 1 edges, 2 ordinary values, 3 edges among ordinary values,
// 4 values whose products are near the least normal one.
constexpr size_t sorts = 5;
uint32_t any_word(size_t sort, Random& random) {
  static constexpr uint8_t edges[] = {0x00, 0x01, 0x7f, 0x80, 0x81, 0xff};
  const auto bits = static_cast<uint32_t>(random.next() >> 32), signs_and_fractions = bits & 0x807f807f;
  if (sort == 0) return bits;
  if (sort == 1 || (sort == 3 && bits % 64 == 0)) {
    uint32_t word = 0;
    for (int i = 0; i < 4; ++i) word = word << 8 | edges[random.below(std::size(edges))];
    return word;
  }
  if (sort == 4 && bits % 8 == 0) return signs_and_fractions;  // denormals
  const uint32_t exponent = (sort == 4 ? 56 : 120) + (bits >> 8 & 15);
  return signs_and_fractions | exponent * 0x00800080;
}

// A random program: a configuration, loads, some operations, stores of all tiles.
class Program {
 public:
  std::vector<Step> steps;
  std::vector<uint8_t> memory;

  explicit Program(Random& random) : memory(memory_bytes), random_(random) {
    const size_t sort = random.below(sorts);
    for (size_t i = 0; i < configs; i += 4) {
      const uint32_t word = any_word(sort, random);
      std::memcpy(&memory[i], &word, 4);
    }
    configure();
    steps.push_back({tilerelease});
    if (one_in(64)) steps.push_back(any_step());
    steps.push_back({ldtilecfg, 0, 0, 0, configs});
    const bool loads = !one_in(8);
    for (const size_t t : tiles_) {
      if (loads && !one_in(8)) steps.push_back(move(one_in(2) ? tileloadd : tileloaddt1, t));
    }
    for (int i = 0; i < 8; ++i) steps.push_back(any_step());
    for (const size_t t : tiles_) steps.push_back(move(tilestored, t));
    for (const uint64_t i : {1, 2}) {
      steps.push_back({sttilecfg, 0, 0, 0, configs + i * config_bytes});
      steps.push_back({tilerelease});
    }
  }

 private:
  bool one_in(size_t n) { return random_.below(n) == 0; }
  size_t any_tile(const std::vector<size_t>& of) {
    return of.empty() || one_in(128) ? random_.below(8) : of[random_.below(of.size())];
  }

  // A tile is C (rows x 4 columns bytes), A (rows x 4 words), B (words x 4 columns), of any size, or missing.
  void configure() {
    uint8_t* config = &memory[configs];
    config[0] = 1;
    if (one_in(8)) config[1] = static_cast<uint8_t>(random_.below(17));
    const size_t rows = any_size(), columns = any_size(), words = any_size();
    for (size_t t = 0; t < 8; ++t) {
      const size_t role = one_in(8) ? 3 + random_.below(2) : t % 3;
      if (role == 4) continue;
      config[48 + t] = static_cast<uint8_t>(role == 3 ? any_size() : role == 2 ? words : rows);
      config[16 + 2 * t] = static_cast<uint8_t>(role == 3 ? (one_in(8) ? 1 + random_.below(64) : 4 * any_size())
                                                          : 4 * (role == 1 ? words : columns));
      tiles_.push_back(t);
      if (role < 3) roles_[role].push_back(t);
    }
    if (one_in(32)) config[random_.below(config_bytes)] = static_cast<uint8_t>(random_.next() >> 56);
  }
  size_t any_size() { return one_in(3) ? 16 : 1 + random_.below(16); }

  Step move(Operation operation, size_t tile) {
    const size_t strides[] = {0, 64, size_t{0} - 64, random_.below(512) - 256};
    return {operation, tile, 0, 0, 4096 + random_.below(configs - 8192), strides[random_.below(4)]};
  }

  Step any_step() {
    const auto operation = static_cast<Operation>(tilezero + random_.below(reload + 1 - tilezero));
    switch (operation) {
      case tileloadd:
      case tileloaddt1:
      case tilestored: return move(operation, any_tile(tiles_));
      case tilezero: return {operation, any_tile(tiles_)};
      case reload:
        if (!one_in(4)) return {sttilecfg, 0, 0, 0, configs + 3 * config_bytes};
        return {operation};
      default: return {operation, any_tile(roles_[0]), any_tile(roles_[1]), any_tile(roles_[2])};
    }
  }

  Random& random_;
  std::vector<size_t> tiles_, roles_[3];
};

// ---- Runs ----------------------------------------------------------------------------------------------------------

// Writes the code, with traps in place of AMX instructions if `traps` is set.
void write_code(Assembler& assembler, bool traps) {
  assembler.end();
  overwrite(code(), assembler.bytes);
  for (const size_t begin : assembler.begins) {
    if (traps) emulate_amx_at(code() + begin);
  }
}

// Writes the code of a program and returns the address of each step.
std::vector<const uint8_t*> assemble(const std::vector<Step>& steps, bool traps, Random& random) {
  Assembler assembler(random);
  std::vector<const uint8_t*> begins;
  for (const Step& step : steps) {
    const size_t first = assembler.begins.size();
    assembler.add(step);
    begins.push_back(code() + assembler.begins[first]);
  }
  write_code(assembler, traps);
  return begins;
}

bool install() {
  install_handlers();
  return install_amx_emulator();
}

Fault run() {
  Call call;
  call.code = code();
  call.clean = 1;
  const Fault fault = call_guarded(call);
  EXPECT_EQ(fault.signal == 0 ? violations(call, false) : "", "");
  return fault;
}

// Runs random programs and returns how many steps they executed.
size_t compare(size_t programs, bool traps) {
  EXPECT_TRUE(install());
  const Storm storm;
  size_t count = 0;
  for (size_t i = 0; i < programs && !testing::Test::HasFailure(); ++i) {
    Random random(seed() + i);
    const Program program(random);
    const auto begins = assemble(program.steps, traps, random);
    std::memcpy(memory(), program.memory.data(), memory_bytes);
    const Fault fault = run();

    Model model(program.memory);
    int signal = 0;
    size_t step = 0;
    while (signal == 0 && step < program.steps.size()) signal = model.run(program.steps[step++]);
    count += step;
    EXPECT_TRUE(!release_emulated_amx() || signal != 0);
    EXPECT_EQ(fault.signal, signal) << "program " << i << ", step " << step << ", seed " << seed();
    EXPECT_EQ(fault.address, signal == SIGILL ? reinterpret_cast<uint64_t>(begins[step - 1]) : 0);
    const auto* const same = std::mismatch(model.memory.begin(), model.memory.end(), memory()).second;
    EXPECT_EQ(same - memory(), ptrdiff_t{memory_bytes}) << "program " << i << ", seed " << seed();
  }
  return count;
}

constexpr size_t programs = 3000, executions = 20000;

TEST(AmxEmulator, OfTrapsEqualsModel) {
  if (!install()) GTEST_SKIP() << "this CPU has no FMA";
  EXPECT_GE(compare(programs, true), executions);
}

TEST(AmxEmulator, OfInstructionsEqualsModel) {
  if (!install()) GTEST_SKIP() << "this CPU has no FMA";
  if (has_tiles()) GTEST_SKIP() << "this CPU has AMX";
  EXPECT_GE(compare(programs, false), executions);
}

// Runs `body` with permission to use the CPU's tiles: in a child, because permission cannot be withdrawn.
void on_hardware(const std::function<void()>& body) {
  if (!cpu_has_amx()) GTEST_SKIP() << "this CPU has no AMX";
  EXPECT_TRUE(in_child([&] {
    constexpr int request_permission = 0x1023, tiles = 18;
    EXPECT_EQ(syscall(SYS_arch_prctl, request_permission, tiles), 0);
    body();
    return !testing::Test::HasFailure();
  }));
}

TEST(AmxEmulator, HardwareEqualsModel) {
  on_hardware([] { EXPECT_GE(compare(programs, false), executions); });
}

// Bad addresses raise SIGSEGV at the first inaccessible byte.
void expect_faults(bool traps) {
  EXPECT_TRUE(install());
  Random random(seed());
  std::memset(memory(), 0, memory_bytes);
  uint8_t* config = memory();
  config[0] = 1, config[16] = 64, config[48] = 16;  // tile 0 is 16 x 64 bytes
  const auto fault_of = [&](Operation operation, uint64_t address) {
    const uint64_t base = address - reinterpret_cast<uint64_t>(memory());
    assemble({{tilerelease}, {ldtilecfg}, {operation, 0, 0, 0, base, 64}, {tilerelease}}, traps, random);
    return run();
  };
  Guarded input("input", Access::input), output("output", Access::output);
  input.place(1024, Side::high, 1);
  output.place(1024, Side::high, 1);
  for (const Operation operation : {ldtilecfg, sttilecfg, tileloadd, tileloaddt1, tilestored}) {
    SCOPED_TRACE(operation);
    const bool stores = operation == sttilecfg || operation == tilestored;
    const size_t size = operation == ldtilecfg || operation == sttilecfg ? config_bytes : 1024;
    const uint64_t begin = (stores ? output : input).address(), end = begin + 1024;
    // The configuration there is all fill, which is not valid.
    EXPECT_EQ(fault_of(operation, end - size).signal, operation == ldtilecfg ? SIGSEGV : 0);
    for (const size_t beyond : {1, 17, 64}) {
      const Fault fault = fault_of(operation, end - size + beyond);
      EXPECT_EQ(fault.signal, SIGSEGV);
      EXPECT_EQ(fault.address, end);
    }
    const Fault fault = fault_of(operation, uint64_t{1} << 63);
    EXPECT_NE(fault.signal, 0);  // the CPU raises SIGBUS if the base is rbp
    EXPECT_EQ(fault.address, 0u);
  }
  for (const Operation operation : {sttilecfg, tilestored}) {
    const Fault fault = fault_of(operation, input.address());
    EXPECT_EQ(fault.signal, SIGSEGV);
    EXPECT_EQ(fault.address, input.address());
  }
}

// Encodings that are similar to those of AMX, but undefined, raise SIGILL.
void expect_undefined(bool traps) {
  EXPECT_TRUE(install());
  Random random(seed());
  std::memset(memory(), 0, memory_bytes);
  memory()[0] = 1;
  for (size_t t = 0; t < 8; ++t) memory()[16 + 2 * t] = 64, memory()[48 + t] = 16;
  const std::pair<std::vector<uint8_t>, bool> encodings[] = {
      {{0xc4, 0xe2, 0x7b, 0x49, 0xc0}, true},               // tilezero
      {{0xc4, 0xe2, 0x7b, 0x49, 0xc1}, false},              // rm
      {{0xc4, 0xe2, 0x73, 0x49, 0xc0}, false},              // vvvv
      {{0xc4, 0xe2, 0xfb, 0x49, 0xc0}, false},              // W
      {{0xc4, 0xe2, 0x7f, 0x49, 0xc0}, false},              // L
      {{0xc4, 0x62, 0x7b, 0x49, 0xc0}, false},              // tile 8
      {{0xc4, 0xe2, 0x7b, 0x49, 0x00}, false},              // in memory
      {{0xc4, 0xe2, 0x6b, 0x5e, 0xc1}, true},               // tdpbssd
      {{0xc4, 0xe2, 0x2b, 0x5e, 0xc1}, false},              // B is tile 10
      {{0xc4, 0xc2, 0x6b, 0x5e, 0xc1}, false},              // A is tile 9
      {{0xc4, 0xe2, 0x6b, 0x5e, 0x04, 0x24}, false},        // A in memory
      {{0xc4, 0xa2, 0x6b, 0x5e, 0xc1}, true},               // X unused
      {{0xc4, 0xe2, 0x7b, 0x4b, 0x04, 0x24}, true},         // tileloadd
      {{0xc4, 0xe2, 0x7b, 0x4b, 0x00}, false},              // no SIB
      {{0xc4, 0xe2, 0x73, 0x4b, 0x04, 0x24}, false},        // vvvv
      {{0xc4, 0xe2, 0x78, 0x4b, 0x04, 0x24}, false},        // no prefix
      {{0xc4, 0xe2, 0x78, 0x49, 0xc0}, true},               // tilerelease
      {{0xc4, 0xe2, 0x78, 0x49, 0xc1}, false},              // rm
      {{0xc4, 0xe2, 0x78, 0x49, 0xc8}, false},              // reg
      {{0xc4, 0xe2, 0x78, 0x49, 0x0c, 0x24}, false},        // reg of ldtilecfg
      {{0xc4, 0xe2, 0x79, 0x49, 0x4c, 0x24, 0xc0}, false},  // reg of sttilecfg
      {{0xc4, 0xe2, 0x71, 0x49, 0x44, 0x24, 0xc0}, false},  // vvvv of sttilecfg
  };
  for (const auto& [bytes, defined] : encodings) {
    Assembler assembler(random);
    assembler.add({tilerelease});
    assembler.add({ldtilecfg});
    assembler.begins.push_back(assembler.bytes.size());
    assembler.bytes.insert(assembler.bytes.end(), bytes.begin(), bytes.end());
    assembler.add({tilerelease});
    write_code(assembler, traps);
    EXPECT_EQ(run().signal, defined ? 0 : SIGILL) << testing::PrintToString(bytes);
  }
}

TEST(AmxEmulator, FaultsAreTheKernels) {
  if (!install()) GTEST_SKIP() << "this CPU has no FMA";
  expect_faults(true);
  expect_undefined(true);
}

TEST(AmxEmulator, FaultsOfHardwareAreTheSame) {
  on_hardware([] {
    expect_faults(false);
    expect_undefined(false);
  });
}

TEST(AmxEmulator, ThreadsHaveTilesOfTheirOwn) {
  if (!install()) GTEST_SKIP() << "this CPU has no FMA";
  Random random(seed());
  const auto execute = [&](const std::vector<Step>& steps) {
    assemble(steps, true, random);
    EXPECT_EQ(run().signal, 0);
  };
  std::memset(memory(), 1, memory_bytes);
  std::memset(memory(), 0, config_bytes);
  memory()[0] = 1, memory()[16] = 4, memory()[48] = 1;
  execute({{ldtilecfg}, {tileloadd, 0, 0, 0, 64}});
  std::thread([&] { execute({{sttilecfg, 0, 0, 0, 128}, {ldtilecfg}, {tilestored, 0, 0, 0, 256}}); }).join();
  execute({{tilestored, 0, 0, 0, 512}, {tilerelease}});
  EXPECT_EQ(memory()[128], 0);  // not configured
  EXPECT_EQ(memory()[256], 0);
  EXPECT_EQ(memory()[512], 1);
}

}  // namespace amx_emulator_test
}  // namespace quern::check

#else

TEST(AmxEmulator, EqualsModel) { GTEST_SKIP() << "the emulator of AMX supports Linux on x86-64 only"; }

#endif
