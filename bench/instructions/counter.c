// A plugin for qemu's user mode (version 7 or later). It counts the instructions that a program executes, and the
// vector multiply-adds of 64-bit ARM among them, and prints both numbers when the program ends.
// bench/instructions/count.py builds and runs it. Debian's qemu-user has no header for plugins, so this file declares
// the functions it uses, as qemu's documentation gives them (docs/devel/tcg-plugins.rst).
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef uint64_t plugin_id;
struct block;
struct instruction;
struct info;

size_t qemu_plugin_tb_n_insns(const struct block* block);
struct instruction* qemu_plugin_tb_get_insn(const struct block* block, size_t index);
const void* qemu_plugin_insn_data(const struct instruction* instruction);
void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id id, void (*translated)(plugin_id, struct block*));
void qemu_plugin_register_vcpu_tb_exec_inline(struct block* block, int operation, void* counter, uint64_t amount);
void qemu_plugin_register_atexit_cb(plugin_id id, void (*at_exit)(plugin_id, void*), void* data);
void qemu_plugin_outs(const char* text);

enum { add_u64 = 0 };  // qemu's number of the operation that adds

#define EXPORT __attribute__((visibility("default")))

EXPORT int qemu_plugin_version = 1;

static uint64_t instructions, multiply_adds;  // exact with one thread

// Is this an fmla of four floats or of two, by element or of whole vectors? Or one that multiplies vectors of integers:
// mla, smlal, smull, sdot, smmla?
static int is_multiply_add(uint32_t code) {
  static const struct {
    uint32_t mask, value;
  } kinds[] = {
      {0xbfc0f400, 0x0f801000}, {0xbfe0fc00, 0x0e20cc00},  // fmla
      {0xbf20fc00, 0x0e209400}, {0xbf20fc00, 0x0e208000},  // mla, smlal
      {0xbf00f400, 0x0f002000}, {0xbf20fc00, 0x0e20c000},  // smlal by element, smull
      {0xbfe0fc00, 0x0e809400}, {0xbfc0f400, 0x0f80e000},  // sdot, by element
      {0xffe0fc00, 0x4e80a400},                            // smmla
  };
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; ++i)
    if ((code & kinds[i].mask) == kinds[i].value) return 1;
  return 0;
}

static void translated(plugin_id id, struct block* block) {
  (void)id;
  const size_t count = qemu_plugin_tb_n_insns(block);
  uint64_t found = 0;
  for (size_t i = 0; i < count; ++i) {
    uint32_t code;
    memcpy(&code, qemu_plugin_insn_data(qemu_plugin_tb_get_insn(block, i)), sizeof code);
    found += (uint64_t)is_multiply_add(code);
  }
  qemu_plugin_register_vcpu_tb_exec_inline(block, add_u64, &instructions, count);
  if (found != 0) qemu_plugin_register_vcpu_tb_exec_inline(block, add_u64, &multiply_adds, found);
}

static void at_exit(plugin_id id, void* data) {
  (void)id, (void)data;
  char text[80];
  snprintf(text, sizeof text, "instructions %llu multiply-adds %llu\n", (unsigned long long)instructions,
           (unsigned long long)multiply_adds);
  qemu_plugin_outs(text);
}

EXPORT int qemu_plugin_install(plugin_id id, const struct info* info, int argc, char** argv) {
  (void)info, (void)argc, (void)argv;
  qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
  qemu_plugin_register_atexit_cb(id, at_exit, NULL);
  return 0;
}
