#include "amx_emulator.h"

#include <cstdlib>

#include "kernel/row.h"
#include "platform.h"

#if QN_ARCH_X86_64 && defined(__linux__)
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <bit>
#include <csignal>
#include <optional>
#include <unordered_map>

#include "flushing.h"

namespace quern::check {
namespace {

constexpr unsigned max_tiles = 8, max_rows = 16, row_bytes = 64, row_words = row_bytes / 4;

// The operand of ldtilecfg and sttilecfg. Palette 0 has no tiles.
struct Config {
  uint8_t palette, start_row, reserved[14];
  uint16_t colsb[16];  // bytes of a row
  uint8_t rows[16];
};
static_assert(sizeof(Config) == 64);

struct Tile {
  uint32_t row[max_rows][row_words];
};

// Memory outside a tile's rows and columns remains zero: ldtilecfg clears it, and no instruction writes there.
struct State {
  Config config;
  Tile tiles[max_tiles];
};
// Initial-exec, because a handler must not allocate, as the first access to other thread-local memory may.
__attribute__((tls_model("initial-exec"))) constinit thread_local State state = {};

struct sigaction previous;
std::unordered_map<const uint8_t*, uint8_t> traps;  // the second byte of each overwritten instruction

// An instruction's opcode and mandatory prefix (0 none, 1 66, 2 F3, 3 F2).
constexpr unsigned key(unsigned opcode, unsigned prefix) { return opcode << 2 | prefix; }

// One instruction. Tiles: reg, rm, vvvv. Memory: row r of a tile is at base + r * index.
struct Instruction {
  unsigned key, reg, rm, vvvv;
  bool in_memory, has_sib;
  uint64_t base = 0, index = 0;
  unsigned size = 5;
};

uint64_t value_of(unsigned reg, const ucontext_t& context) {
  static constexpr int order[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                  REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
  return static_cast<uint64_t>(context.uc_mcontext.gregs[order[reg]]);
}

template <class T>
uint64_t sign_extended(const uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return static_cast<uint64_t>(int64_t{value});
}

// Reads SIB and displacement. VEX holds the upper bits of registers inverted: 0x40 of index, 0x20 of base.
void decode_memory(Instruction& x, const uint8_t* code, uint8_t vex, const ucontext_t& context) {
  const unsigned mod = code[4] >> 6;
  unsigned base = x.rm;
  if (x.has_sib) {
    const uint8_t sib = code[x.size++];
    base = sib & 7;
    const unsigned index = (sib >> 3 & 7) | ((vex & 0x40) != 0 ? 0 : 8), none = 4;
    if (index != none) x.index = value_of(index, context) << (sib >> 6);
  }
  const bool no_base = mod == 0 && base == 5;
  if (!no_base) x.base = value_of(base | ((vex & 0x20) != 0 ? 0 : 8), context);
  if (mod == 1) x.base += sign_extended<int8_t>(code + x.size++);
  if (mod == 2 || no_base) {
    x.base += sign_extended<int32_t>(code + x.size);
    x.size += 4;
  }
  if (no_base && !x.has_sib) x.base += reinterpret_cast<uint64_t>(code + x.size);  // relative to the next instruction
}

// Reads the three-byte VEX prefix (whose first byte is C4), opcode, ModRM and what follows.
std::optional<Instruction> decode(const uint8_t* code, uint8_t vex, const ucontext_t& context) {
  if ((vex & 0x9f) != 0x82 || (code[2] & 0x84) != 0) return {};  // map 0F38, W = 0, L = 0, reg below 8
  const uint8_t modrm = code[4];
  Instruction x = {};
  x.key = key(code[3], code[2] & 3);
  x.vvvv = (code[2] >> 3 & 15) ^ 15;
  x.reg = modrm >> 3 & 7;
  x.rm = modrm & 7;
  x.in_memory = modrm < 0xc0;
  x.has_sib = x.in_memory && x.rm == 4;
  if (x.in_memory) {
    decode_memory(x, code, vex, context);
  } else if ((vex & 0x20) == 0) {
    return {};  // rm is no tile
  }
  return x;
}

// Copies with one instruction. Its fault reports the first inaccessible byte, and sanitizers do not replace it.
void copy(void* to, const void* from, size_t size) {
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(size)::"memory");
}

void* address(uint64_t value) { return reinterpret_cast<void*>(value); }

bool is_valid(const Config& config) {
  bool valid = config.palette == 1;
  for (const uint8_t byte : config.reserved) valid &= byte == 0;
  for (unsigned i = 0; i < 16; ++i) {
    valid &= config.colsb[i] <= (i < max_tiles ? row_bytes : 0) && config.rows[i] <= (i < max_tiles ? max_rows : 0);
    valid &= (config.colsb[i] == 0) == (config.rows[i] == 0);
  }
  return valid;
}

void load_config(const Instruction& x) {
  Config config;
  copy(&config, address(x.base + x.index), sizeof config);
  if (config.palette == 0) {
    config = {};
  } else if (!is_valid(config)) {
    copy(&config, address(uint64_t{1} << 63), 1);  // raises #GP, as every address does that is not canonical
  }
  state = {config, {}};
}

// A valid configuration has no rows for registers beyond the tiles.
bool exists(unsigned reg) { return state.config.rows[reg] != 0; }

// Executes tileloadd and tilestored. A fault leaves start_row at the row where the instruction would resume.
bool move_rows(const Instruction& x, bool load) {
  uint8_t& r = state.config.start_row;
  const size_t size = state.config.colsb[x.reg];
  if (!x.has_sib || !exists(x.reg) || size % 4 != 0 || r >= state.config.rows[x.reg]) return false;
  for (; r < state.config.rows[x.reg]; ++r) {
    void *memory = address(x.base + r * x.index), *row = state.tiles[x.reg].row[r];
    load ? copy(row, memory, size) : copy(memory, row, size);
  }
  r = 0;
  return true;
}

// Adds the dot product of a row of A and a column of B. Sums wrap around.
template <bool a_signed, bool b_signed>
uint32_t dot_bytes(uint32_t sum, const uint32_t* a, const uint32_t* b, unsigned words) {
  for (unsigned k = 0; k < words; ++k) {
    for (unsigned shift = 0; shift < 32; shift += 8) {
      const auto x = static_cast<uint8_t>(a[k] >> shift), y = static_cast<uint8_t>(b[k * row_words] >> shift);
      const int p = a_signed ? static_cast<int8_t>(x) : x, q = b_signed ? static_cast<int8_t>(y) : y;
      sum += static_cast<uint32_t>(p * q);
    }
  }
  return sum;
}

// In assembly, because the order of operands decides which NaN is the result, and a compiler may change the order.
void add_product(float& sum, uint32_t a, uint32_t b) {
  asm volatile("vfmadd231ss %2, %1, %0" : "+x"(sum) : "x"(std::bit_cast<float>(a)), "x"(std::bit_cast<float>(b)));
}

float add(float a, float b) {
  asm volatile("vaddss %1, %0, %0" : "+x"(a) : "x"(b));
  return a;
}

uint32_t dot_bf16(uint32_t sum, const uint32_t* a, const uint32_t* b, unsigned words) {
  float even = 0, odd = 0;
  for (unsigned k = 0; k < words; ++k) {
    const uint32_t x = a[k], y = b[k * row_words];
    add_product(even, x << 16, y << 16);
    add_product(odd, x & 0xffff0000, y & 0xffff0000);
  }
  return std::bit_cast<uint32_t>(add(std::bit_cast<float>(sum), add(even, odd)));
}

bool multiply(const Instruction& x, uint32_t (*dot)(uint32_t, const uint32_t*, const uint32_t*, unsigned)) {
  Config& config = state.config;
  const unsigned c = x.reg, a = x.rm, b = x.vvvv;
  if (x.in_memory || !exists(c) || !exists(a) || !exists(b) || a == b || a == c || b == c) return false;
  const unsigned rows = config.rows[c], columns = config.colsb[c] / 4, words = config.colsb[a] / 4;
  if (config.colsb[c] % 4 != 0 || config.colsb[a] % 4 != 0 || config.colsb[b] != config.colsb[c]) return false;
  if (config.rows[a] != rows || config.rows[b] != words) return false;
  // bf16 rounds to nearest, whatever MXCSR says; Linux resets it for handlers.
  const Flushing flushing(true);
  for (unsigned m = 0; m < rows; ++m) {
    for (unsigned n = 0; n < columns; ++n) {
      uint32_t& sum = state.tiles[c].row[m][n];
      sum = dot(sum, state.tiles[a].row[m], &state.tiles[b].row[0][n], words);
    }
  }
  config.start_row = 0;
  return true;
}

bool zero(const Instruction& x) {
  if (!exists(x.reg) || x.rm != 0) return false;
  state.tiles[x.reg] = {};
  state.config.start_row = 0;
  return true;
}

// Returns false for instructions that raise #UD, and for others than those of AMX.
bool execute(const Instruction& x) {
  switch (x.key) {
    case key(0x5c, 2): return multiply(x, dot_bf16);                 // tdpbf16ps
    case key(0x5e, 0): return multiply(x, dot_bytes<false, false>);  // tdpbuud
    case key(0x5e, 1): return multiply(x, dot_bytes<false, true>);   // tdpbusd
    case key(0x5e, 2): return multiply(x, dot_bytes<true, false>);   // tdpbsud
    case key(0x5e, 3): return multiply(x, dot_bytes<true, true>);    // tdpbssd
  }
  if (x.vvvv != 0) return false;
  switch (x.key) {
    case key(0x4b, 1):                                  // tileloaddt1
    case key(0x4b, 3): return move_rows(x, true);       // tileloadd
    case key(0x4b, 2): return move_rows(x, false);      // tilestored
    case key(0x49, 3): return !x.in_memory && zero(x);  // tilezero
    case key(0x49, 1):                                  // sttilecfg
      if (!x.in_memory || x.reg != 0) return false;
      copy(address(x.base + x.index), &state.config, sizeof state.config);
      return true;
    case key(0x49, 0):  // ldtilecfg, or tilerelease
      if (x.reg != 0 || (!x.in_memory && x.rm != 0)) return false;
      x.in_memory ? load_config(x) : void(state = {});
      return true;
  }
  return false;
}

// Does Linux permit this process to use tiles?
bool permitted() {
  constexpr int get_permissions = 0x1022, tiles = 18;  // names of Linux 5.16
  uint64_t components = 0;
  return syscall(SYS_arch_prctl, get_permissions, &components) == 0 && (components >> tiles & 1) != 0;
}

// Returns the second byte of an instruction that may be emulated.
std::optional<uint8_t> second_byte(const uint8_t* code) {
  if (const auto found = traps.find(code); code[0] == 0x0f && found != traps.end()) return found->second;
  if (code[0] == 0xc4 && !permitted()) return code[1];
  return {};
}

// Without a previous handler, the instruction raises the signal again and ends the process.
void pass_on(int signal, siginfo_t* info, void* context) {
  if ((previous.sa_flags & SA_SIGINFO) == 0) {
    sigaction(signal, &previous, nullptr);
  } else {
    sigprocmask(SIG_BLOCK, &previous.sa_mask, nullptr);
    previous.sa_sigaction(signal, info, context);
  }
}

void on_illegal_instruction(int signal, siginfo_t* info, void* raw) {
  auto& context = *static_cast<ucontext_t*>(raw);
  greg_t& rip = context.uc_mcontext.gregs[REG_RIP];
  const auto* code = static_cast<const uint8_t*>(address(static_cast<uint64_t>(rip)));
  if (const std::optional<uint8_t> vex = second_byte(code)) {
    const std::optional<Instruction> x = decode(code, *vex, context);
    if (x && execute(*x)) {
      rip += x->size;
      return;
    }
  }
  pass_on(signal, info, raw);
}

}  // namespace

// SIGALRM is blocked in the handler: a tick of the checker's Storm overwrites the stack below what it interrupts, which
// would be its own frame there. SIGSEGV and SIGBUS are not blocked: they are faults of the kernel, and their handler
// leaves both handlers by siglongjmp.
bool install_amx_emulator() {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("fma")) return false;
  struct sigaction action = {}, present;
  sigaction(SIGILL, nullptr, &present);
  if (present.sa_sigaction == on_illegal_instruction) return true;
  previous = present;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaddset(&action.sa_mask, SIGALRM);
  action.sa_sigaction = on_illegal_instruction;
  return sigaction(SIGILL, &action, nullptr) == 0;
}

void emulate_amx_at(const void* instruction) {
  static constexpr uint8_t ud2[] = {0x0f, 0x0b};
  const auto* code = static_cast<const uint8_t*>(instruction);
  if (code[0] == ud2[0]) return;  // overwritten before
  traps[code] = code[1];
  overwrite(code, ud2);
}

// ldtilecfg is VEX.128.NP.0F38.W0 49 /0 with memory, tilerelease the same without.
void emulate_amx_in(const void* kernel) {
  for (const auto* code = static_cast<const uint8_t*>(kernel);; ++code) {
    const bool is_vex = (code[0] == 0xc4 && (code[1] & 0x1f) == 2) || traps.count(code) != 0;
    if (!is_vex || code[2] != 0x78 || code[3] != 0x49 || (code[4] & 0x38) != 0) continue;
    emulate_amx_at(code);
    if (code[4] == 0xc0) return;
  }
}

bool release_emulated_amx() {
  const bool in_use = state.config.palette != 0;
  state = {};
  return in_use;
}

}  // namespace quern::check

#else

namespace quern::check {

bool install_amx_emulator() { return false; }

void emulate_amx_at(const void*) { std::abort(); }

void emulate_amx_in(const void*) { std::abort(); }

bool release_emulated_amx() { return false; }

}  // namespace quern::check

#endif
